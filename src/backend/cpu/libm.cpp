#include "backend/cpu/libm.h"

#include <cmath>
#include <cstring>

namespace wholestep::cpu {
namespace {

using Unary32 = float (*)(float);
using Unary64 = double (*)(double);
using Binary32 = float (*)(float, float);
using Binary64 = double (*)(double, double);

template <class F>
LibraryFunction entry(std::string symbol, F* function) {
  return {std::move(symbol), reinterpret_cast<const void*>(function)};
}

void add(std::vector<LibraryFunction>& all, const std::string& op, Unary32 single, Unary64 twice) {
  all.push_back(entry("wholestep_" + op + "_f32", single));
  all.push_back(entry("wholestep_" + op + "_f64", twice));
}

void add(std::vector<LibraryFunction>& all, const std::string& op, Binary32 single, Binary64 twice) {
  all.push_back(entry("wholestep_" + op + "_f32", single));
  all.push_back(entry("wholestep_" + op + "_f64", twice));
}

std::vector<LibraryFunction> make() {
  std::vector<LibraryFunction> all;
  add(all, "exp", Unary32(std::exp), Unary64(std::exp));
  add(all, "expm1", Unary32(std::expm1), Unary64(std::expm1));
  add(all, "log", Unary32(std::log), Unary64(std::log));
  add(all, "log1p", Unary32(std::log1p), Unary64(std::log1p));
  add(all, "sin", Unary32(std::sin), Unary64(std::sin));
  add(all, "cos", Unary32(std::cos), Unary64(std::cos));
  add(all, "tan", Unary32(std::tan), Unary64(std::tan));
  add(all, "asin", Unary32(std::asin), Unary64(std::asin));
  add(all, "acos", Unary32(std::acos), Unary64(std::acos));
  add(all, "atan", Unary32(std::atan), Unary64(std::atan));
  add(all, "sinh", Unary32(std::sinh), Unary64(std::sinh));
  add(all, "cosh", Unary32(std::cosh), Unary64(std::cosh));
  add(all, "tanh", Unary32(std::tanh), Unary64(std::tanh));
  add(all, "asinh", Unary32(std::asinh), Unary64(std::asinh));
  add(all, "acosh", Unary32(std::acosh), Unary64(std::acosh));
  add(all, "atanh", Unary32(std::atanh), Unary64(std::atanh));
  add(all, "erf", Unary32(std::erf), Unary64(std::erf));
  add(all, "erfc", Unary32(std::erfc), Unary64(std::erfc));
  add(all, "rem", Binary32(std::fmod), Binary64(std::fmod));
  add(all, "pow", Binary32(std::pow), Binary64(std::pow));
  add(all, "atan2", Binary32(std::atan2), Binary64(std::atan2));

  // Rounding has instructions only from SSE4.1 on.
  all.push_back(entry("floorf", Unary32(std::floor)));
  all.push_back(entry("floor", Unary64(std::floor)));
  all.push_back(entry("ceilf", Unary32(std::ceil)));
  all.push_back(entry("ceil", Unary64(std::ceil)));
  all.push_back(entry("truncf", Unary32(std::trunc)));
  all.push_back(entry("trunc", Unary64(std::trunc)));
  // Half to even in the default rounding mode, which is the one that threads of this library have.
  all.push_back(entry("roundevenf", Unary32(std::nearbyint)));
  all.push_back(entry("roundeven", Unary64(std::nearbyint)));
  all.push_back(entry("memcpy", &std::memcpy));
  all.push_back(entry("memmove", &std::memmove));
  all.push_back(entry("memset", &std::memset));
  return all;
}

}  // namespace

const std::vector<LibraryFunction>& library_functions() {
  static const std::vector<LibraryFunction> all = make();
  return all;
}

}  // namespace wholestep::cpu
