#include "wholestep/event_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include "io/event_record.h"
#include "io/support.h"

namespace wholestep::io {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryFolder;

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu) << "RFC 3720, B.4";
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u) << "RFC 3720, B.4";
}

TEST(EventRecords, AreTheBytesOfTensorBoardsOwnWriter) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::string bytes = tf_record(version_event(1700000000.0));
  bytes += tf_record(scalar_event(1700000000.25, 0, {{"loss", 2.302585}, {"lr", 0.001}}));
  bytes += tf_record(scalar_event(1700000001.5, 1, {{"loss", -0.0}}));
  bytes += tf_record(scalar_event(1700000002.75, 127,
                                  {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"accuracy/test", 0.9375}}));
  bytes += tf_record(scalar_event(1700000003.0, 128, {}));
  bytes += tf_record(scalar_event(1700000004.0, (std::int64_t{1} << 40) + 3,
                                  {{"loss", kInfinity}, {"\u03b1 tag", 1e-45}, {std::string(200, 'x'), 3.0e38}}));
  bytes += tf_record(start_event(1700000005.0, 128));
  const std::string expected = read_text(WHOLESTEP_TEST_DATA "/scalars.tfevents");
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(bytes.size(), expected.size());
  EXPECT_TRUE(bytes == expected);
}

TEST(EventFile, IsNewForEachWriterAndNamedAsTensorBoardLooksForIt) {
  TemporaryFolder folder;
  EventFile first(folder.file("runs/a")), second(folder.file("runs/a"));
  EXPECT_NE(first.path(), second.path());
  for (const EventFile* file : {&first, &second}) {
    const std::string name = std::filesystem::path(file->path()).filename();
    EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
    EXPECT_FALSE(read_text(file->path()).empty()) << "the version is there at once";
  }
}

TEST(EventFile, IsWholeRecordsAfterEachFlushAndAtTheEnd) {
  TemporaryFolder folder;
  std::string path;
  std::string expected;
  {
    EventFile file(folder.path().string());
    path = file.path();
    expected = read_text(path);
    for (const std::int64_t step : {1, 2, 3}) {
      file.add(step, {{"loss", 0.5}}, 1700000000.0);
      expected += tf_record(scalar_event(1700000000.0, step, {{"loss", 0.5}}));
      if (step != 2) continue;
      file.flush();
      EXPECT_TRUE(read_text(path) == expected);
    }
    EventFile moved = std::move(file);
  }
  EXPECT_TRUE(read_text(path) == expected);
}

TEST(EventFile, ThatCannotBeMadeIsAnErrorThatNamesTheFolder) {
  TemporaryFolder folder;
  test::write_text(folder.file("file"), "in the way");
  expect_error(ErrorCode::io_error, {folder.file("file/log")}, [&] { EventFile(folder.file("file/log")); });
}

TEST(EventFile, ThatCannotGrowIsAnErrorThatNamesIt) {
  TemporaryFolder folder;
  EventFile file(folder.path().string());
  file.add(1, {{"loss", 1}});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{std::filesystem::file_size(file.path()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorCode::io_error, {file.path(), "File too large"}, [&] { file.flush(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace wholestep::io
