#pragma once
// The subcommands. Each adds itself to the application; once chosen it runs inside `CLI::App::parse` and leaves what
// the process returns in `status`. They throw wholestep::Error.
namespace CLI {
class App;
}

namespace wholestep::cli {

void add_train(CLI::App& app, int& status);
void add_eval(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_show(CLI::App& app, int& status);
void add_plot(CLI::App& app, int& status);
void add_devices(CLI::App& app, int& status);

/// Exit status of a run that a signal ended after it had saved.
inline constexpr int kInterrupted = 130;

}  // namespace wholestep::cli
