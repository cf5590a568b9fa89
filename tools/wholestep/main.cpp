#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

#include "command.h"

namespace wholestep::cli {
namespace {

/// Opens what the caller has closed of standard input, output and error, for the direction that nobody uses: the next
/// file would take its number, and results would go into it.
void occupy_standard_files() {
  for (const auto& [number, direction] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_RDONLY}}) {
    if (fcntl(number, F_GETFD) < 0 && errno == EBADF) open("/dev/null", direction);  // takes the lowest free number
  }
}

int run(int argc, char** argv) {
  CLI::App app("wholestep compiles a whole training step - forward, backward and update - into one program.",
               "wholestep");
  app.set_version_flag("--version", "wholestep " WHOLESTEP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  int status = 0;
  add_train(app, status);
  add_eval(app, status);
  add_bench(app, status);
  add_show(app, status);
  add_plot(app, status);
  add_devices(app, status);
  app.footer(
      "`wholestep SUBCOMMAND --help` lists its options. For example:\n"
      "  wholestep train mlp --data FOLDER --epochs 3 --save mlp.safetensors\n"
      "  wholestep eval mlp --data FOLDER --load mlp.safetensors");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace
}  // namespace wholestep::cli

int main(int argc, char** argv) {
  wholestep::cli::occupy_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that would grow too large is an error where it is written
  int status = 1;
  try {
    status = wholestep::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wholestep: error: %s\n", error.what());
  } catch (...) {
    std::fputs("wholestep: error: an exception of unknown type\n", stderr);
  }
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || status == 1) return status;
  std::fputs("wholestep: error: cannot write to standard output\n", stderr);
  return status == 0 ? 1 : status;
}
