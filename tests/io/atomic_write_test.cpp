#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "io/support.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

void write(const std::string& path, const std::string& text) {
  write_file_atomically(path, {{text.data(), text.size()}});
}

TEST(WriteFileAtomically, WritesThePiecesOneAfterTheOther) {
  TemporaryFolder folder;
  const std::string a = "whole", b = "", c = "step";
  write_file_atomically(folder.file("x"), {{a.data(), a.size()}, {b.data(), b.size()}, {c.data(), c.size()}});
  EXPECT_EQ(read_text(folder.file("x")), "wholestep");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFileAtomically, ReplacesAnOldFileAndKeepsItsPermissions) {
  TemporaryFolder folder;
  write(folder.file("x"), "a longer old text");
  ASSERT_EQ(::chmod(folder.file("x").c_str(), 0640), 0);
  write(folder.file("x"), "new");
  EXPECT_EQ(read_text(folder.file("x")), "new");
  struct stat info;
  ASSERT_EQ(::stat(folder.file("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFileAtomically, LeavesASymbolicLinkALink) {
  TemporaryFolder folder;
  write(folder.file("x"), "old");
  std::filesystem::create_symlink("x", folder.file("link"));
  write(folder.file("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(read_text(folder.file("x")), "new");
}

TEST(WriteFileAtomically, TakesTheLongestNameThatAFileCanHave) {
  TemporaryFolder folder;
  const std::string path = folder.file(std::string(255, 'n'));
  write(path, "text");
  EXPECT_EQ(read_text(path), "text");
}

TEST(WriteFileAtomically, TakesANameInTheCurrentFolder) {
  TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write("x", "text");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_text(folder.file("x")), "text");
}

TEST(WriteFileAtomically, RemovesWhatAKilledProcessLeftBesideTheSameTargetAndNothingElse) {
  TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string dead = std::to_string(child), alive = std::to_string(::getppid());
  const std::vector<std::string> kept{".x." + alive + "-0.tmp", ".y." + dead + "-0.tmp",  ".x." + dead + "-.tmp",
                                      ".x." + dead + "-0.txt",  ".x." + dead + "-0x.tmp", "x." + dead + "-0.tmp"};
  for (const std::string& name : kept) write_text(folder.file(name), "");
  const std::string locked = ".x." + dead + "-2.tmp";
  write_text(folder.file(".x." + dead + "-0.tmp"), "half");
  write_text(folder.file(".x." + dead + "-1.tmp"), "half");
  write_text(folder.file(locked), "half");
  const int lock = ::open(folder.file(locked).c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  write(folder.file("x"), "new");
  EXPECT_EQ(read_text(folder.file("x")), "new");
  for (const std::string& name : kept) EXPECT_TRUE(std::filesystem::exists(folder.file(name))) << name;
  EXPECT_TRUE(std::filesystem::exists(folder.file(locked))) << "a process of another machine may hold it";
  EXPECT_EQ(folder.entries(), static_cast<std::ptrdiff_t>(kept.size()) + 2);
  ::close(lock);
}

TEST(WriteFileAtomically, RefusesAMissingFolderWithReasonAndPath) {
  TemporaryFolder folder;
  expect_error(ErrorCode::io_error, {folder.file("none/x"), "No such file or directory"},
               [&] { write(folder.file("none/x"), "text"); });
}

TEST(WriteFileAtomically, RefusesAnEmptyName) {
  expect_error(ErrorCode::io_error, {"without a name"}, [] { write("", "text"); });
}

TEST(WriteFileAtomically, RefusesAFolderAsTarget) {
  TemporaryFolder folder;
  expect_error(ErrorCode::io_error, {folder.path().string(), "Is a directory"},
               [&] { write(folder.path().string(), "text"); });
  EXPECT_TRUE(std::filesystem::is_directory(folder.path()));
}

TEST(WriteFileAtomically, RefusesADeviceAndLeavesItThere) {
  expect_error(ErrorCode::io_error, {"/dev/full", "not a regular file"}, [] { write("/dev/full", "text"); });
  struct stat info;
  ASSERT_EQ(::stat("/dev/full", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

TEST(WriteFileAtomically, RefusesADanglingLink) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("nowhere", folder.file("link"));
  expect_error(ErrorCode::io_error, {folder.file("link")}, [&] { write(folder.file("link"), "text"); });
  EXPECT_EQ(folder.entries(), 1);
}

/// While it lives, root's privileges do not count; for any other user nothing changes.
class Unprivileged {
 public:
  Unprivileged() {
    const uid_t nobody = 65534;
    EXPECT_EQ(::seteuid(user_ == 0 ? nobody : user_), 0);
  }
  ~Unprivileged() { EXPECT_EQ(::seteuid(user_), 0); }

 private:
  uid_t user_ = ::geteuid();
};

TEST(WriteFileAtomically, RefusesAReadOnlyFolder) {
  TemporaryFolder folder;
  write(folder.file("x"), "old");
  ASSERT_EQ(::chmod(folder.file("x").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  {
    Unprivileged scope;
    expect_error(ErrorCode::io_error, {folder.file("x"), "Permission denied"}, [&] { write(folder.file("x"), "new"); });
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(read_text(folder.file("x")), "old");
}

TEST(WriteFileAtomically, RefusesAReadOnlyFile) {
  TemporaryFolder folder;
  write(folder.file("x"), "old");
  ASSERT_EQ(::chmod(folder.file("x").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  {
    Unprivileged scope;
    expect_error(ErrorCode::io_error, {folder.file("x"), "Permission denied"}, [&] { write(folder.file("x"), "new"); });
  }
  EXPECT_EQ(read_text(folder.file("x")), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFileAtomically, KeepsTheOldFileAndNoTemporaryWhereAFileMayNotGrow) {
  TemporaryFolder folder;
  write(folder.file("x"), "old");
  rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorCode::io_error, {folder.file("x"), "File too large"},
               [&] { write(folder.file("x"), std::string(3 << 20, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_text(folder.file("x")), "old");
  EXPECT_EQ(folder.entries(), 1);
}

// Exit codes of the process that fills a small file system.
constexpr int kRight = 0, kWrong = 1, kNotPossible = 2;

/// Gives this process mounts of its own, as root or as root of a user namespace.
bool own_mounts() {
  const std::string user = std::to_string(::getuid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_text("/proc/self/uid_map", "0 " + user + " 1");
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

int fill_a_small_file_system(const TemporaryFolder& folder) {
  if (!own_mounts() || ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) return kNotPossible;
  write(folder.file("x"), "old");
  expect_error(ErrorCode::io_error, {folder.file("x"), "No space left on device"},
               [&] { write(folder.file("x"), std::string(1 << 20, 'x')); });
  const bool right = !::testing::Test::HasFailure() && read_text(folder.file("x")) == "old" && folder.entries() == 1;
  std::fflush(stdout);
  return right ? kRight : kWrong;
}

TEST(WriteFileAtomically, KeepsTheOldFileAndNoTemporaryWhereTheDiskIsFull) {
  TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int result = kWrong;
    try {
      result = fill_a_small_file_system(folder);
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPossible) GTEST_SKIP() << "this user cannot mount a small file system";
  EXPECT_EQ(WEXITSTATUS(status), kRight);
}

TEST(WriteFileAtomically, LeavesTheTemporaryOfAKilledProcessAlone) {
  TemporaryFolder folder;
  write(folder.file("probe"), "");
  // Names that this process is about to choose, as one of the same id would have left them.
  for (int i = 0; i < 50; ++i) {
    write_text(folder.file(".x." + std::to_string(::getpid()) + "-" + std::to_string(i) + ".tmp"), "leftover");
  }
  write(folder.file("x"), "new");
  EXPECT_EQ(read_text(folder.file("x")), "new");
  EXPECT_EQ(folder.entries(), 52);
  EXPECT_EQ(read_text(folder.file(".x." + std::to_string(::getpid()) + "-49.tmp")), "leftover");
}

TEST(WriteFileAtomically, ShowsReadersOneContentOrTheOther) {
  TemporaryFolder folder;
  const std::string path = folder.file("x");
  const std::string a(100'000, 'a'), b(50'000, 'b');
  write(path, a);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write(path, i % 2 ? a : b);
  });
  for (int i = 0; i < 100; ++i) {
    const std::string seen = read_text(path);
    EXPECT_TRUE(seen == a || seen == b) << seen.size() << " bytes";
  }
  writer.join();
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace wholestep::io
