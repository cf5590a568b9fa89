#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "io/support.h"

namespace wholestep::data {
namespace {

TEST(Prefetcher, GivesItemsInOrderAndThenTheEnd) {
  int made = 0;
  Prefetcher<int> prefetcher(3, [&](int& item) {
    item = made;
    return made++ < 1000;
  });
  for (int i = 0; i < 1000; ++i) {
    const int* item = prefetcher.next();
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(*item, i);
  }
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, DoesNotTouchTheItemInUse) {
  int made = 0;
  Prefetcher<int> prefetcher(2, [&](int& item) {
    item = made++;
    return made <= 100;
  });
  for (int i = 0; i < 100; ++i) {
    const int* item = prefetcher.next();
    for (int look = 0; look < 10; ++look) {
      ASSERT_EQ(*item, i);
      std::this_thread::yield();
    }
  }
}

TEST(Prefetcher, RunsNoFurtherAheadThanItsSlots) {
  std::atomic<int> made{0};
  Prefetcher<int> prefetcher(4, [&](int& item) {
    item = made++;
    return true;
  });
  for (int i = 0; i < 200; ++i) {
    prefetcher.next();
    std::this_thread::yield();
    EXPECT_LE(made, i + 4);
  }
}

TEST(Prefetcher, ThrowsTheExceptionOfItsThreadAfterTheItemsBeforeIt) {
  int made = 0;
  Prefetcher<int> prefetcher(4, [&](int& item) {
    if (made == 3) throw Error(ErrorCode::io_error, "the disk is gone");
    item = made++;
    return true;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*prefetcher.next(), i);
  for (int again = 0; again < 2; ++again) {
    test::expect_error(ErrorCode::io_error, {"the disk is gone"}, [&] { prefetcher.next(); });
  }
}

TEST(Prefetcher, EndsAtAnyMoment) {
  for (int taken = 0; taken < 20; ++taken) {
    std::atomic<int> made{0};
    Prefetcher<int> prefetcher(3, [&](int& item) {
      item = made++;
      return item < 10;
    });
    for (int i = 0; i < taken; ++i) prefetcher.next();
  }
}

}  // namespace
}  // namespace wholestep::data
