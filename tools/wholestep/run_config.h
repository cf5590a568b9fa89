#pragma once
// A run's options as a JSON object whose keys are their long names: {"model": "mlp", "lr": 0.001, "save-every": 500}.
#include <string>

namespace CLI {
class App;
}

namespace wholestep::cli {

/// Gives the options of `command` that are not on its command line the values of the JSON file at `path`. `--steps` on
/// the command line stands for "epochs" in the file too, and the other way round. Throws as reading a file does,
/// `file_malformed` for what is no JSON object, and `CLI::ValidationError`, which names the file and the key, for what
/// would be a wrong command line: a key that is no option, a value that the option does not take.
void apply_config(CLI::App& command, const std::string& path);

}  // namespace wholestep::cli
