#include "wholestep/error.h"

namespace wholestep {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::shape_mismatch:
      return "shape_mismatch";
    case ErrorCode::dtype_mismatch:
      return "dtype_mismatch";
    case ErrorCode::unknown_name:
      return "unknown_name";
    case ErrorCode::duplicate_name:
      return "duplicate_name";
    case ErrorCode::missing_input:
      return "missing_input";
    case ErrorCode::wrong_length:
      return "wrong_length";
    case ErrorCode::no_outputs:
      return "no_outputs";
    case ErrorCode::nothing_to_train:
      return "nothing_to_train";
    case ErrorCode::not_a_parameter:
      return "not_a_parameter";
    case ErrorCode::missing_initial_value:
      return "missing_initial_value";
    case ErrorCode::loss_not_scalar:
      return "loss_not_scalar";
    case ErrorCode::empty_wrt:
      return "empty_wrt";
    case ErrorCode::not_differentiable:
      return "not_differentiable";
    case ErrorCode::index_out_of_range:
      return "index_out_of_range";
    case ErrorCode::invalid_graph:
      return "invalid_graph";
    case ErrorCode::parse_error:
      return "parse_error";
    case ErrorCode::file_not_found:
      return "file_not_found";
    case ErrorCode::file_truncated:
      return "file_truncated";
    case ErrorCode::file_malformed:
      return "file_malformed";
    case ErrorCode::checkpoint_mismatch:
      return "checkpoint_mismatch";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::non_finite:
      return "non_finite";
    case ErrorCode::device_unavailable:
      return "device_unavailable";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace wholestep
