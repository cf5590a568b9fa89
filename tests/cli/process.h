#pragma once
// Runs the built command line as a user would, in a folder of its own, with a small data set beside it.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace wholestep::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A new folder, removed with all that is in it.
class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "wholestep-cli-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Finished {
  int status = -1;  // exit status; 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

/// A program at work in `folder`.
class Process {
 public:
  Process(const Folder& folder, std::vector<std::string> words)
      : out_(folder.file("stdout")), err_(folder.file("stderr")) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string where = folder.path();
    pid_ = fork();
    if (pid_ == 0) {
      redirect("/dev/null", O_RDONLY, STDIN_FILENO);
      redirect(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
      redirect(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
      if (chdir(where.c_str()) == 0) execvp(arguments.front(), arguments.data());
      _exit(127);
    }
  }
  void send(int signal) const { kill(pid_, signal); }
  /// True once it has ended by itself or by a signal.
  bool ended() {
    if (!ended_) ended_ = waitpid(pid_, &raw_status_, WNOHANG) == pid_;
    return ended_;
  }
  Finished wait() {
    if (!ended_) waitpid(pid_, &raw_status_, 0);
    ended_ = true;
    const int status = WIFEXITED(raw_status_) ? WEXITSTATUS(raw_status_) : 128 + WTERMSIG(raw_status_);
    return {status, read_file(out_), read_file(err_)};
  }

 private:
  static void redirect(const char* path, int flags, int target) {
    const int file = open(path, flags, 0600);
    if (file < 0 || dup2(file, target) < 0) _exit(126);
    close(file);
  }
  std::string out_, err_;
  pid_t pid_ = -1;
  int raw_status_ = 0;
  bool ended_ = false;
};

inline std::string cli_path() { return std::string(WHOLESTEP_BUILD_DIR) + "/wholestep"; }

/// Starts the command line with `words`.
inline Process start(const Folder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), cli_path());
  return Process(folder, std::move(words));
}
inline Finished run(const Folder& folder, std::vector<std::string> words) {
  return start(folder, std::move(words)).wait();
}
/// Runs a line of shell in which `wholestep` is the built command line.
inline Finished run_shell(const Folder& folder, const std::string& line) {
  return Process(folder, {"/bin/sh", "-c", "PATH=" + std::string(WHOLESTEP_BUILD_DIR) + ":$PATH; " + line}).wait();
}

inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

inline void write_idx(const std::string& path, const std::vector<std::uint32_t>& shape,
                      const std::vector<std::uint8_t>& values) {
  std::ofstream stream(path, std::ios::binary);
  stream.put(0).put(0).put(8).put(static_cast<char>(shape.size()));
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) stream.put(static_cast<char>(extent >> shift));
  }
  stream.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size()));
}

/// 28x28 images whose label is which band of rows is bright; noise elsewhere. Easy to learn.
inline void write_split(const std::string& folder, const std::string& prefix, std::uint32_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> images(std::size_t{count} * 784), labels(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    labels[i] = static_cast<std::uint8_t>(random() % 10);
    for (std::uint32_t pixel = 0; pixel < 784; ++pixel) {
      const bool bright = pixel / 28 / 3 == labels[i];
      images[std::size_t{i} * 784 + pixel] = static_cast<std::uint8_t>(random() % 100 + (bright ? 120 : 0));
    }
  }
  write_idx(folder + "/" + prefix + "-images-idx3-ubyte", {count, 28, 28}, images);
  write_idx(folder + "/" + prefix + "-labels-idx1-ubyte", {count}, labels);
}

/// A folder with a data set of `training` and 60 test images in `data`. What is started from now on shares a cache of
/// compiled programs that goes with the test process.
class DataFolder : public Folder {
 public:
  explicit DataFolder(std::uint32_t training = 200) {
    static const Folder cache;
    setenv("WHOLESTEP_CACHE_DIR", cache.path().c_str(), 1);
    std::filesystem::create_directory(data());
    write_split(data(), "train", training, 1);
    write_split(data(), "t10k", 60, 2);
  }
  std::string data() const { return file("data"); }
};

}  // namespace wholestep::test
