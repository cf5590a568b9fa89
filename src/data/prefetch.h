#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "wholestep/error.h"

namespace wholestep::data {

/// A thread that fills items ahead of their use: a ring of `slots` reusable items, one of which the user may hold. When
/// all are full it sleeps until half are used up: to wake a thread costs more than to fill a small item.
template <class Item>
class Prefetcher {
 public:
  /// `fill` makes the next item in place (its old content may be reused) and returns true, or returns false at the end.
  /// It runs on the thread, in order. Throws `io_error` where no thread can be started.
  Prefetcher(int slots, std::function<bool(Item&)> fill)
      : items_(static_cast<std::size_t>(slots)), fill_(std::move(fill)) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::io_error, std::string("cannot start a thread to prepare batches: ") + error.what());
    }
  }
  /// Waits for the item being filled at most.
  ~Prefetcher() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next item, valid until the next call; nullptr at the end. Where `fill` threw, throws that exception in place
  /// of the item, at this and every later call.
  const Item* next() {
    std::unique_lock lock(mutex_);
    if (held_) {
      held_ = false;
      ++taken_;
      if (filled_ - taken_ == few()) changed_.notify_all();
    }
    changed_.wait(lock, [&] { return filled_ > taken_ || ended_; });
    if (filled_ > taken_) {
      held_ = true;
      return &slot(taken_);
    }
    if (problem_) std::rethrow_exception(problem_);
    return nullptr;
  }

 private:
  Item& slot(std::size_t number) { return items_[number % items_.size()]; }
  std::size_t few() const { return items_.size() / 2; }

  void work() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (filled_ - taken_ == items_.size()) changed_.wait(lock, [&] { return stop_ || filled_ - taken_ <= few(); });
      if (stop_) return;
      Item& item = slot(filled_);
      lock.unlock();
      bool more = false;
      std::exception_ptr problem;
      try {
        more = fill_(item);
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      problem_ = problem;
      ended_ = !more;
      filled_ += more;
      changed_.notify_all();
    }
  }

  std::vector<Item> items_;
  std::function<bool(Item&)> fill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t filled_ = 0;  // items made
  std::size_t taken_ = 0;   // items given back by the user
  bool held_ = false;       // item `taken_` is the user's
  bool ended_ = false;
  bool stop_ = false;
  std::exception_ptr problem_;
  std::thread thread_;  // last: it sees the others complete
};

}  // namespace wholestep::data
