#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <vector>

#include "core/random.h"
#include "graph/init.h"
#include "wholestep/graph.h"

namespace wholestep {
namespace {

double dot(const double* a, const double* b, std::size_t size) {
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/// Makes `count` vectors of length `size` orthonormal, in place: Gram and Schmidt, twice, which leaves nothing of what
/// rounding left (Giraud et al., 2005). It divides by positive norms alone, so R has a positive diagonal.
void orthonormalise(double* vectors, std::size_t count, std::size_t size) {
  for (std::size_t j = 0; j < count; ++j) {
    double* vector = vectors + j * size;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < j; ++i) {
        const double* earlier = vectors + i * size;
        const double part = dot(earlier, vector, size);
        for (std::size_t k = 0; k < size; ++k) vector[k] -= part * earlier[k];
      }
      const double norm = std::sqrt(dot(vector, vector, size));
      for (std::size_t k = 0; k < size; ++k) vector[k] /= norm;
    }
  }
}

std::vector<double> orthogonal(const Shape& shape, double gain, random::Stream& stream) {
  const auto elements = static_cast<std::size_t>(num_elements(shape));
  std::vector<double> vectors(elements), values(elements);
  if (elements == 0) return values;
  const auto rows = static_cast<std::size_t>(shape[0]);
  const std::size_t columns = elements / rows, count = std::min(rows, columns), size = std::max(rows, columns);
  std::ranges::generate(vectors, [&] { return stream.normal(); });
  orthonormalise(vectors.data(), count, size);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      values[r * columns + c] = gain * (rows >= columns ? vectors[c * size + r] : vectors[r * size + c]);
    }
  }
  return values;
}

std::vector<double> draw(const Init& init, const Shape& shape, random::Stream& stream) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  const auto fill = [&](const auto& next) {
    std::ranges::generate(values, next);
    return values;
  };
  const auto uniform = [&](double low, double high) {
    return fill([&] { return low + (high - low) * stream.uniform(); });
  };
  const auto normal = [&](double mean, double stddev) { return fill([&] { return mean + stddev * stream.normal(); }); };
  const auto mean_fan = [&] { return (fans_of(shape).in + fans_of(shape).out) / 2; };
  const auto fan = [&] { return init.b == 0 ? fans_of(shape).in : fans_of(shape).out; };
  switch (init.kind) {
    case Init::Kind::zeros:
      break;
    case Init::Kind::ones:
      return fill([] { return 1.0; });
    case Init::Kind::constant:
      return fill([&] { return init.a; });
    case Init::Kind::uniform:
      return uniform(init.a, init.b);
    case Init::Kind::normal:
      return normal(init.a, init.b);
    case Init::Kind::truncated_normal:
      return fill([&] {
        double x;
        do x = stream.normal();
        while (std::fabs(x) > 2);
        return init.a + init.b * x;
      });
    case Init::Kind::xavier_uniform: {
      const double bound = init.a * std::sqrt(3 / mean_fan());
      return uniform(-bound, bound);
    }
    case Init::Kind::xavier_normal:
      return normal(0, init.a / std::sqrt(mean_fan()));
    case Init::Kind::kaiming_uniform: {
      const double bound = init.a * std::sqrt(3 / fan());
      return uniform(-bound, bound);
    }
    case Init::Kind::kaiming_normal:
      return normal(0, init.a / std::sqrt(fan()));
    case Init::Kind::orthogonal:
      return orthogonal(shape, init.a, stream);
  }
  return values;
}

/// A size that the machine cannot hold is the graph's fault, not the program's.
Array initial_value(const Node& param, std::uint64_t seed) {
  random::Stream stream(seed, random::hash_name(param.name.data(), param.name.size()));
  const auto no_memory = [&] {
    return Error(ErrorCode::unsupported, fmt::format("param '{}': no memory for its initial value, {} of {} bytes",
                                                     param.name, to_string(param.type), num_bytes(param.type)));
  };
  try {
    return Array::from_doubles(param.type, draw(init_of(param), param.type.shape, stream));
  } catch (const std::bad_alloc&) {
    throw no_memory();
  } catch (const std::length_error&) {
    throw no_memory();
  }
}

}  // namespace

std::vector<std::string> trainable(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.nodes_of("param")) names.push_back(graph.node(id).name);
  return names;
}

NamedArrays initial_values(const Graph& graph, std::uint64_t seed) {
  NamedArrays values;
  for (const NodeId id : graph.nodes_of("param")) {
    values.emplace_back(graph.node(id).name, initial_value(graph.node(id), seed));
  }
  return values;
}

}  // namespace wholestep
