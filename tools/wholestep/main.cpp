#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "command.h"
#include "wholestep/error.h"

namespace wholestep::cli {
namespace {

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(ErrorCode::io_error, "cannot write to standard output");
  return status;
}

}  // namespace
}  // namespace wholestep::cli

int main(int argc, char** argv) {
  try {
    return wholestep::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wholestep: error: %s\n", error.what());
  } catch (...) {
    std::fputs("wholestep: error: an exception of unknown type\n", stderr);
  }
  return 1;
}
