#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "command.h"
#include "wholestep/error.h"

int main(int argc, char** argv) {
  using namespace wholestep;
  CLI::App app("wholestep compiles a whole training step - forward, backward and update - into one program.",
               "wholestep");
  app.set_version_flag("--version", "wholestep " WHOLESTEP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  int status = 0;
  cli::add_train(app, status);
  cli::add_eval(app, status);
  cli::add_bench(app, status);
  cli::add_show(app, status);
  cli::add_devices(app, status);

  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) throw Error(ErrorCode::io_error, "cannot write to standard output");
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "wholestep: error: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wholestep: error: %s\n", error.what());
  }
  return 1;
}
