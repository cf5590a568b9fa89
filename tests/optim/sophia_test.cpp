#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wholestep/device.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

TEST(Sophia, AnEstimateThatIsNotFiniteLeavesItsElementAsItWas) {
  Graph g;
  const Tensor zero = g.input("zero", {4});
  const OptimizerArgs step{g, zero, zero, {zero, g.input("h", {4})}, g.input("lr", {}), {}};
  const Optimizer sophia = Sophia{.beta2 = 0.75};
  g.set_outputs({sophia->append_refresh({step, 1, g.input("curvature", {4}), {}})[1]});
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> none(4), h{1, 2, 3, 4}, curvature{5, infinity, -infinity, std::nanf("")}, lr{0};
  const std::vector<double> after = Session(Device::reference())
                                        .compile(g)
                                        .run({{"zero", none}, {"h", h}, {"lr", lr}, {"curvature", curvature}})[0]
                                        .to_doubles();
  EXPECT_EQ(after, (std::vector<double>{2, 2, 3, 4}));
}

}  // namespace
}  // namespace wholestep
