#include "lib/search/bo/acquisition/maximize.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/gp/hyper_inference.h"
#include "lib/search/bo/model/output_transform.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// A fixed function of the model point.
class Formula final : public AcquisitionFunction {
 public:
  explicit Formula(std::function<double(const VectorXd&)> f) : f_(std::move(f)) {}
  VectorXd Values(const Eigen::Ref<const MatrixXd>& u) const override {
    VectorXd values(u.rows());
    for (Eigen::Index i = 0; i < u.rows(); ++i) values(i) = f_(u.row(i).transpose());
    return values;
  }
  double Value(const VectorXd& u, VectorXd* gradient) const override {
    if (gradient != nullptr) {
      gradient->resize(u.size());
      for (Eigen::Index j = 0; j < u.size(); ++j) {
        VectorXd up = u, down = u;
        up(j) += 1e-6;
        down(j) -= 1e-6;
        (*gradient)(j) = (f_(up) - f_(down)) / 2e-6;
      }
    }
    return f_(u);
  }

 private:
  std::function<double(const VectorXd&)> f_;
};

TEST(Maximize, BeatsAFineGridOnBraninModels) {
  const study::Encoding encoding(Space({Float("x0", -5, 10), Float("x1", 0, 15)}));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream stream(seed, "branin design");
    const int n = 6 + static_cast<int>(seed);
    MatrixXd x(n, 2);
    VectorXd scores(n);
    Eigen::Index best = 0;
    for (int i = 0; i < n; ++i) {
      x.row(i) << stream.Uniform(), stream.Uniform();
      scores(i) = -Branin({-5 + 15 * x(i, 0), 15 * x(i, 1)});
    }
    const VectorXd z = OutputTransform::Standard(scores).Forward(scores);
    const double incumbent = z.maxCoeff(&best);
    const kernels::KernelShape shape = kernels::ArdShape(kernels::Family::kMatern52, 2);
    gp::Likelihood likelihood(shape, x, z);
    const gp::Hyperparameters theta =
        gp::MaximizePosterior(&likelihood, {}, std::nullopt, base::RandomStream(seed, "map"), base::StopToken())
            .value()
            .theta;
    const gp::Regression model = *gp::Regression::Fit(shape, theta, x, z, {}, base::StopToken()).value();
    const ImprovementAcquisition acquisition(&model, incumbent, /*logarithm=*/seed % 2 == 0);
    MatrixXd grid(201 * 201, 2);
    for (int a = 0; a < 201; ++a) {
      for (int b = 0; b < 201; ++b) grid.row(a * 201 + b) << a / 200.0, b / 200.0;
    }
    const VectorXd values = acquisition.Values(grid);
    const MaximizeResult result =
        Maximize(acquisition, encoding, x.row(best), theta.lengthscales, {seed, 0}, {}, base::StopToken()).value();
    ASSERT_FALSE(result.candidates.empty());
    EXPECT_GE(result.candidates[0].value, values.maxCoeff() - 1e-6 * (values.maxCoeff() - values.minCoeff()));
    EXPECT_EQ(result.candidates[0].u, encoding.ToModel(result.candidates[0].parameters));
  }
}

TEST(Maximize, SumsOverCoordinatesAreSolvedHoweverManyMaximaTheyHave) {
  // Four maxima along each of 8 coordinates: 65,536 in all, the best where every coordinate is at its own best.
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < 8; ++j) parameters.push_back(Float("x" + std::to_string(j), 0, 1));
  const study::Encoding encoding(Space(std::move(parameters)));
  auto along = [](double t) { return std::cos(8 * M_PI * (t - 0.1)) - 2.0 * (t - 0.6) * (t - 0.6); };
  double best = -10.0;
  for (int i = 0; i <= 100'000; ++i) best = std::max(best, along(i / 1e5));
  const Formula sum([&](const VectorXd& u) {
    double total = 0.0;
    for (Eigen::Index j = 0; j < u.size(); ++j) total += along(u(j));
    return total;
  });
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const MaximizeResult result =
        Maximize(sum, encoding, MatrixXd(0, 8), VectorXd::Constant(8, 0.3), {seed, 0}, {}, base::StopToken()).value();
    ASSERT_FALSE(result.candidates.empty());
    EXPECT_NEAR(result.candidates[0].value, 8 * best, 1e-6);
  }
}

TEST(Maximize, DiscreteSpacesAreSolvedExactly) {
  const study::Encoding encoding(Space({Int("a", 1, 4), Categorical("b", {"p", "q", "r", "s", "t"}), Int("c", 0, 5)}));
  const SettingTable table = *SettingTable::Create(encoding);
  ASSERT_EQ(table.size(), 120);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    base::RandomStream stream(seed, "weights");
    const MatrixXd directions = MatrixXd::NullaryExpr(6, encoding.model_dim(), [&] { return 3.0 * stream.Normal(); });
    const Formula f([&](const VectorXd& u) { return (directions * u).array().sin().sum(); });
    const MaximizeResult result =
        Maximize(f, encoding, MatrixXd(), VectorXd::Ones(3), {seed, 0}, {}, base::StopToken()).value();
    const std::optional<MaximizeCandidate> best =
        MaximizeOverTable(f, table, std::vector<bool>(120, false), base::StopToken()).value();
    EXPECT_EQ(result.candidates[0].value, best->value);
    EXPECT_EQ(result.candidates[0].parameters, best->parameters);
  }
}

TEST(Maximize, WideIntegersAndConditionsAreClimbed) {
  // The optimum needs the branch b=yes with an integer deep inside a range of 10^5 and a float that exists only there.
  const study::Encoding encoding(
      Space({Categorical("b", {"no", "yes"}), When("b", {std::string("yes")}, Int("n", 0, 99999)),
             When("b", {std::string("yes")}, Float("x", -1, 1))}));
  const Formula f([](const VectorXd& u) {
    const double yes = u(1) > 0.1 ? 1.0 : 0.0;
    return yes - std::pow(u(2) - 0.61803, 2) - std::pow(u(3) - 0.25, 2);
  });
  const MaximizeResult result =
      Maximize(f, encoding, MatrixXd(), VectorXd::Ones(3), {1, 0}, {}, base::StopToken()).value();
  const study::Parameters& best = result.candidates[0].parameters;
  EXPECT_EQ(std::get<std::string>(best.at("b")), "yes");
  EXPECT_NEAR(Number(best, "n"), 61802.5, 0.6);
  EXPECT_NEAR(Number(best, "x"), -0.5, 1e-4);
}

TEST(Maximize, IsDeterministicAndDiffersByIndex) {
  const study::Encoding encoding(Space({Float("x", 0, 1), Float("y", 0, 1)}));
  const Formula flat([](const VectorXd& u) { return std::floor(2.0 * u(0)); });
  auto run = [&](uint64_t index) {
    return Maximize(flat, encoding, MatrixXd(), VectorXd::Ones(2), {7, index}, {}, base::StopToken())
        .value()
        .candidates[0]
        .u;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST(Maximize, NonFiniteValuesAreCountedAndSkipped) {
  const study::Encoding encoding(Space({Float("x", 0, 1)}));
  const Formula half([](const VectorXd& u) { return u(0) < 0.5 ? NAN : -u(0); });
  const MaximizeResult result =
      Maximize(half, encoding, MatrixXd(), VectorXd::Ones(1), {1, 0}, {}, base::StopToken()).value();
  EXPECT_NEAR(result.candidates[0].u(0), 0.5, 1e-2);
  EXPECT_NEAR(result.not_finite, 512, 1);
  const Formula none([](const VectorXd&) { return NAN; });
  EXPECT_TRUE(Maximize(none, encoding, MatrixXd(), VectorXd::Ones(1), {1, 0}, {}, base::StopToken())
                  .value()
                  .candidates.empty());
  EXPECT_TRUE(
      Maximize(half, study::Encoding(Space({Float("x", 1, 1)})), MatrixXd(), VectorXd(0), {1, 0}, {}, base::StopToken())
          .value()
          .candidates.empty());
}

TEST(SettingTable, FindsEverySettingAndRespectsExclusions) {
  const study::Encoding encoding(
      Space({Categorical("b", {"no", "yes"}), When("b", {std::string("yes")}, Int("n", 1, 3))}));
  const SettingTable table = *SettingTable::Create(encoding);
  ASSERT_EQ(table.size(), 4);  // no; yes with 1, 2, 3.
  const Formula f([](const VectorXd& u) { return u(2); });
  std::vector<bool> excluded(4, false);
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(table.Find(table.Setting(k)), k);
    const std::optional<MaximizeCandidate> best = MaximizeOverTable(f, table, excluded, base::StopToken()).value();
    ASSERT_TRUE(best.has_value());
    const int row = table.Find(best->parameters);
    EXPECT_FALSE(excluded[static_cast<size_t>(row)]);
    excluded[static_cast<size_t>(row)] = true;
  }
  EXPECT_FALSE(MaximizeOverTable(f, table, excluded, base::StopToken()).value().has_value());
  EXPECT_EQ(table.Find({{"b", std::string("maybe")}}), -1);
  EXPECT_FALSE(SettingTable::Create(study::Encoding(Space({Float("x", 0, 1)}))).has_value());
  EXPECT_FALSE(SettingTable::Create(study::Encoding(Space({Int("x", 0, 20000)}))).has_value());
}

}  // namespace
}  // namespace luthier::search
