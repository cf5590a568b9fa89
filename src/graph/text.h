#pragma once
// The text form of a graph. One node a line, in order:
//
//   graph "name"
//   %0 = input "x" : u8[64, 784]
//   %1 = param "w" {init="normal", b=0.02} : f32[784, 10]
//   %2 = constant {value=f32[](255.0)} : f32[]
//   %3 = cast %0 {dtype=f32} : f32[64, 784]
//   outputs %3
//   update %1 = %2
//
// Attributes: true, false; 3; 3.0, inf, nan (a double always has a point, an exponent or a name); "text"; f32; [1, 2];
// literals as dtype[shape](values) or, where they are long or hold a NaN with a payload, dtype[shape]x"little-endian
// hex".
#include <string>
#include <string_view>

#include "wholestep/graph.h"

namespace wholestep::text {

/// In quotes, with quotes, backslashes and control characters escaped.
std::string quote(std::string_view value);
std::string to_text(const AttrValue& value);
/// Whether `op` is written with a name and without its "dtype" and "shape", which its type says.
bool is_named(const OpDef& op);

}  // namespace wholestep::text
