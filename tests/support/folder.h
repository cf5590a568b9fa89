#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace wholestep::testing {

/// A folder of its own for each test, removed at the end.
class Folder {
 public:
  Folder() {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("wholestep-") + test->test_suite_name() + "-" + test->name();
    std::ranges::replace(name, '/', '-');
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace wholestep::testing
