#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace wholestep {

/// What went wrong, for programs; the message of an `Error` says it for people.
enum class ErrorCode {
  invalid_argument,       ///< a value outside its valid range (hyper-parameter, axis, option)
  shape_mismatch,         ///< shapes that an op, an input or a file cannot combine
  dtype_mismatch,         ///< element types that differ where they must agree
  unknown_name,           ///< no input, parameter, state, op, device or option of this name
  duplicate_name,         ///< two inputs, parameters or states with one name
  missing_input,          ///< a run without a value for an input
  wrong_length,           ///< data with another number of elements than its tensor
  no_outputs,             ///< a graph whose outputs were never set
  nothing_to_train,       ///< an empty list of trainable parameters
  not_a_parameter,        ///< a name that is not a `param` of the graph
  missing_initial_value,  ///< a parameter without a value
  loss_not_scalar,        ///< first output that is not a floating-point scalar
  empty_wrt,              ///< gradients with respect to nothing
  not_differentiable,     ///< a gradient asked through an op that has none
  index_out_of_range,     ///< a label or row index outside its table
  invalid_graph,          ///< the verifier rejected a graph, kernel or plan
  parse_error,            ///< text that is not a graph
  file_not_found,         ///< no such file or folder
  file_truncated,         ///< a file shorter than it says it is
  file_malformed,         ///< a file that is not of its format
  checkpoint_mismatch,    ///< a checkpoint of another model or optimizer
  io_error,               ///< the system refused to read, write, sync or rename
  non_finite,             ///< NaN or infinity where training cannot go on
  device_unavailable,     ///< a backend that is not installed or finds no device
  unsupported,            ///< valid, but not something this version or device can do
  internal,               ///< a defect of wholestep itself
};

/// The code's name as written above, for example "shape_mismatch".
std::string_view to_string(ErrorCode code);

/// The only exception type that wholestep throws. The message names the op, parameter or file, what was expected and
/// what came.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace wholestep
