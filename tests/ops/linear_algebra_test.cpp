#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "support/devices.h"
#include "wholestep/graph.h"
#include "wholestep/ops.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

using testing::expect_error;
using Matrix = std::vector<double>;  // row-major
using Op = std::function<Tensor(Graph&, Tensor)>;

Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix values(static_cast<std::size_t>(rows * columns));
  for (double& x : values) x = normal(random);
  return values;
}

Matrix product(const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t k, std::int64_t n) {
  Matrix c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a, std::int64_t rows, std::int64_t columns) {
  Matrix t(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

void expect_near(const Matrix& a, const Matrix& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - b[i]));
  }
  EXPECT_LE(largest, tolerance);
}

Matrix identity(std::int64_t n) {
  Matrix values(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) values[i * n + i] = 1;
  return values;
}

class LinearAlgebra : public testing::OnEachDevice {
 protected:
  static Matrix evaluate(const Op& op, const Matrix& a, Shape shape, DType dtype = DType::f32) {
    Graph graph("op");
    const Tensor x = graph.input("x", shape, dtype);
    graph.set_outputs({op(graph, x)});
    const Array value = Array::from_doubles({dtype, shape}, a);
    return Session(GetParam()).compile(graph).run({{"x", value}}).front().to_doubles();
  }
  static Matrix q_of(const Matrix& a, Shape shape) {
    return evaluate([](Graph&, Tensor x) { return qr_q(x); }, a, std::move(shape));
  }
  static Matrix r_of(const Matrix& a, Shape shape) {
    return evaluate([](Graph&, Tensor x) { return qr_r(x); }, a, std::move(shape));
  }
  static Matrix vectors_of(const Matrix& a, std::int64_t n, DType dtype = DType::f32) {
    return evaluate([](Graph&, Tensor x) { return eigenvectors(x); }, a, {n, n}, dtype);
  }
  // V^T V is I to `tolerance`, and V^T A V diagonal to `tolerance` of its largest element.
  static void expect_eigenvectors(const Matrix& v, const Matrix& a, std::int64_t n, double tolerance) {
    const Matrix t = transposed(v, n, n);
    expect_near(product(t, v, n, n, n), identity(n), tolerance);
    Matrix d = product(t, product(a, v, n, n, n), n, n, n);
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(d[i * n + i])), d[i * n + i] = 0;
    expect_near(d, Matrix(static_cast<std::size_t>(n * n)), tolerance * largest);
  }
};
INSTANTIATE_TEST_SUITE_P(On, LinearAlgebra, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(LinearAlgebra, QrGivesOrthogonalTimesTriangular) {
  for (const auto& [m, n] :
       {std::pair<std::int64_t, std::int64_t>{5, 5}, {7, 3}, {3, 7}, {1, 4}, {4, 1}, {40, 33}, {90, 80}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n));
    const Matrix a = random_matrix(m, n);
    const std::int64_t k = std::min(m, n);
    const Matrix q = q_of(a, {m, n}), r = r_of(a, {m, n});
    expect_near(product(transposed(q, m, k), q, k, m, k), identity(k), 2e-6);
    expect_near(product(q, r, m, k, n), a, 1e-5);
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = 0; j < std::min(i, n); ++j) EXPECT_EQ(r[i * n + j], 0);
    }
  }
}

// LAPACK: each diagonal element of R has the sign that its column's head has not; the last of a square one is as it
// comes.
TEST_P(LinearAlgebra, QrHasLapacksSigns) {
  expect_near(r_of({3, 1, 4, 1}, {2, 2}), {-5, -1.4, 0, -0.2}, 1e-6);
  expect_near(q_of({3, 1, 4, 1}, {2, 2}), {-0.6, -0.8, -0.8, 0.6}, 1e-6);
  expect_near(r_of({2, 5, 0, -3}, {2, 2}), {2, 5, 0, -3}, 1e-6);
}

TEST_P(LinearAlgebra, QrOfADeficientMatrixIsStillOrthogonal) {
  const Matrix ones(25, 1.0), zeros(25, 0.0);
  for (const Matrix& a : {ones, zeros}) {
    const Matrix q = q_of(a, {5, 5}), r = r_of(a, {5, 5});
    expect_near(product(transposed(q, 5, 5), q, 5, 5, 5), identity(5), 2e-6);
    expect_near(product(q, r, 5, 5, 5), a, 2e-6);
  }
}

TEST_P(LinearAlgebra, QrOfTinyAndHugeMatricesNeitherUnderflowsNorOverflows) {
  for (const double scale : {1e-30, 1e30}) {
    Matrix a = random_matrix(6, 4);
    for (double& x : a) x *= scale;
    const Matrix q = q_of(a, {6, 4}), r = r_of(a, {6, 4});
    expect_near(product(transposed(q, 6, 4), q, 4, 6, 4), identity(4), 2e-6);
    Matrix back = product(q, r, 6, 4, 4);
    for (double& x : back) x /= scale;
    for (double& x : a) x /= scale;
    expect_near(back, a, 5e-6);
  }
}

TEST_P(LinearAlgebra, QrOfColumnsOfVeryDifferentSizesIsStillOrthogonal) {
  constexpr std::int64_t n = 9;
  Matrix a = random_matrix(n, n);
  for (std::int64_t i = 0; i < n * n; ++i) a[i] *= std::pow(10.0, -4.0 * static_cast<double>(i % n));
  const Matrix q = q_of(a, {n, n});
  expect_near(product(transposed(q, n, n), q, n, n, n), identity(n), 2e-6);
}

TEST_P(LinearAlgebra, ABatchIsFactorisedMatrixByMatrix) {
  const Matrix a = random_matrix(4, 9), both = q_of(a, {2, 2, 3, 3});
  for (std::size_t i = 0; i < 4; ++i) {
    const Matrix one = q_of(
        {a.begin() + static_cast<std::ptrdiff_t>(9 * i), a.begin() + static_cast<std::ptrdiff_t>(9 * i + 9)}, {3, 3});
    expect_near(
        {both.begin() + static_cast<std::ptrdiff_t>(9 * i), both.begin() + static_cast<std::ptrdiff_t>(9 * i + 9)}, one,
        1e-6);
  }
}

TEST_P(LinearAlgebra, TriangularSolveReadsItsTriangleAlone) {
  constexpr std::int64_t n = 19, m = 5;
  Matrix a = random_matrix(n, n);
  for (std::int64_t i = 0; i < n; ++i) a[i * n + i] = 4 + i % 3;
  for (const bool lower : {true, false}) {
    Matrix triangle = a;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        if (lower ? j > i : j < i) triangle[i * n + j] = 0;
      }
    }
    for (const bool transpose_a : {true, false}) {
      const Matrix b = random_matrix(n, m, 8);
      const Matrix x = evaluate(
          [&](Graph& graph, Tensor square) {
            const Tensor right = graph.constant(Array::from_doubles({DType::f32, {n, m}}, b));
            return triangular_solve(square, right, lower, transpose_a);
          },
          a, {n, n});
      expect_near(product(transpose_a ? transposed(triangle, n, n) : triangle, x, n, n, m), b, 1e-5);
    }
  }
}

// Of random g [n, rank].
Matrix gram(std::int64_t n, std::int64_t rank) {
  const Matrix g = random_matrix(n, rank);
  return product(g, transposed(g, n, rank), n, rank, n);
}

TEST_P(LinearAlgebra, EigenvectorsDiagonalise) {
  for (const std::int64_t n : {1, 2, 3, 5, 24, 150}) {
    SCOPED_TRACE(n);
    const Matrix a = gram(n, n);
    expect_eigenvectors(vectors_of(a, n), a, n, 2e-6);
  }
}

TEST_P(LinearAlgebra, EigenvectorsInDoublePrecisionAreThatPrecise) {
  constexpr std::int64_t n = 20;
  const Matrix a = gram(n, n);
  expect_eigenvectors(vectors_of(a, n, DType::f64), a, n, 1e-14);
}

// As of images with border pixels that are always zero, seen in fewer examples than they have pixels.
TEST_P(LinearAlgebra, EigenvectorsOfADeficientMatrixWithZeroRowsAreOrthonormal) {
  constexpr std::int64_t n = 70;
  Matrix a = gram(n, 12);
  for (std::int64_t i = 0; i < n * n; ++i) {
    if (i / n % 3 == 0 || i % n % 3 == 0) a[i] = 0;
  }
  expect_eigenvectors(vectors_of(a, n), a, n, 2e-6);
}

TEST_P(LinearAlgebra, EigenvectorsOfAMatrixOfVeryDifferentSizesAreOrthonormal) {
  constexpr std::int64_t n = 16;
  Matrix a = gram(n, n);
  for (std::int64_t i = 0; i < n * n; ++i) a[i] *= std::pow(10.0, -1.2 * static_cast<double>(i / n + i % n));
  expect_eigenvectors(vectors_of(a, n), a, n, 2e-6);
}

TEST_P(LinearAlgebra, EigenvectorsOfATridiagonalMatrixOfEqualElementsAreSines) {
  constexpr std::int64_t n = 12;
  Matrix a(n * n);
  for (std::int64_t i = 0; i + 1 < n; ++i) a[i * n + i + 1] = a[(i + 1) * n + i] = -1;
  const Matrix v = vectors_of(a, n);
  // Each is sin(pi k (i + 1) / (n + 1)) for a k of its own.
  const Matrix sines = [] {
    Matrix s(n * n);
    for (std::int64_t i = 0; i < n * n; ++i) {
      const auto row = static_cast<double>(i / n + 1), k = static_cast<double>(i % n + 1);
      s[i] = std::sqrt(2.0 / (n + 1)) * std::sin(M_PI * k * row / (n + 1));
    }
    return s;
  }();
  Matrix overlap = product(transposed(sines, n, n), v, n, n, n);
  for (std::int64_t k = 0; k < n; ++k) {
    double largest = 0;
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(overlap[k * n + j]));
    EXPECT_NEAR(largest, 1, 1e-6) << k;
  }
}

TEST_P(LinearAlgebra, EigenvectorsOfWhatIsNotFiniteAreNan) {
  for (const std::int64_t n : {1, 2, 6}) {
    for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
      Matrix a = identity(n);
      a[(n - 1) * n] = a[n - 1] = bad;
      for (const double x : vectors_of(a, n)) EXPECT_TRUE(std::isnan(x));
    }
  }
}

TEST_P(LinearAlgebra, EigenvectorsOfABatchAreThoseOfItsMatrices) {
  constexpr std::int64_t n = 6;
  Matrix both = gram(n, n);
  const Matrix first = both, second = gram(n, 2);
  both.insert(both.end(), second.begin(), second.end());
  Matrix expected = vectors_of(first, n);
  const Matrix more = vectors_of(second, n);
  expected.insert(expected.end(), more.begin(), more.end());
  EXPECT_EQ(evaluate([](Graph&, Tensor x) { return eigenvectors(x); }, both, {2, n, n}), expected);
}

TEST_P(LinearAlgebra, EigenvectorsOfEqualAndZeroEigenvaluesAreOrthonormal) {
  Matrix rank_one(16);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) rank_one[i * 4 + j] = 1e-12 * (i + 1) * (j + 1);
  }
  for (const Matrix& a : {identity(4), Matrix(16, 0.0), rank_one}) {
    const Matrix v = vectors_of(a, 4);
    expect_near(product(transposed(v, 4, 4), v, 4, 4, 4), identity(4), 2e-6);
  }
}

TEST(LinearAlgebraTypes, AreChecked) {
  Graph graph("bad");
  const Tensor vector = graph.input("v", {3}), wide = graph.input("w", {2, 3}), square = graph.input("s", {3, 3});
  const Tensor whole = graph.input("i", {3, 3}, DType::i32), half = graph.input("h", {3, 3}, DType::f16);
  expect_error(ErrorCode::shape_mismatch, {"qr_q", "rank 2", "f32[3]"}, [&] { qr_q(vector); });
  expect_error(ErrorCode::dtype_mismatch, {"qr_r", "i32[3, 3]"}, [&] { qr_r(whole); });
  expect_error(ErrorCode::dtype_mismatch, {"eigenvectors", "f16[3, 3]"}, [&] { eigenvectors(half); });
  expect_error(ErrorCode::shape_mismatch, {"eigenvectors", "square"}, [&] { eigenvectors(wide); });
  expect_error(ErrorCode::shape_mismatch, {"triangular_solve", "square"},
               [&] { triangular_solve(wide, square, true, false); });
  expect_error(ErrorCode::shape_mismatch, {"triangular_solve", "rows"},
               [&] { triangular_solve(square, wide, true, false); });
}

}  // namespace
}  // namespace wholestep
