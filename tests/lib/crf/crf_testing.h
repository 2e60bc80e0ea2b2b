#ifndef LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_
#define LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/synchronization/mutex.h"
#include "lib/base/random.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/features.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/crf/inference/kernel.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/column_text.h"
#include "lib/linear/lbfgs_solver.h"

namespace luthier::crf {

using stochastic::Sampling;
using stochastic::StepRule;

namespace testing {

// Chains of 1 ... longest tokens with random attributes; every label occurs.
inline ChainData RandomChains(uint64_t seed, int labels, int64_t sequences, int longest, int32_t attributes,
                              double density = 0.3) {
  base::RandomStream random(seed, "test.chains");
  ChainData data;
  data.name = "random";
  data.attributes = attributes;
  for (int k = 0; k < labels; ++k) data.label_names.push_back(std::string("l") + std::to_string(100 + k));
  for (int64_t i = 0; i < sequences; ++i) {
    const auto length = static_cast<int64_t>(1 + random.UniformInt(static_cast<uint64_t>(longest)));
    for (int64_t t = 0; t < length; ++t) {
      const auto token = static_cast<uint64_t>(data.tokens());
      const auto label = static_cast<int32_t>(
          token < static_cast<uint64_t>(labels) ? token : random.UniformInt(static_cast<uint64_t>(labels)));
      data.label.push_back(label);
      for (int32_t a = 0; a < attributes; ++a) {
        // Attributes say something about the label, so that there is something to learn.
        const double p = a % labels == label ? 2.0 * density : density;
        if (random.Uniform() < p) data.attribute.push_back(a);
      }
      data.token_start.push_back(static_cast<int64_t>(data.attribute.size()));
    }
    data.sequence_start.push_back(data.tokens());
  }
  return data;
}

// The same chains with a random value for each attribute of each token.
inline ChainData WithValues(ChainData data, uint64_t seed) {
  base::RandomStream random(seed, "test.values");
  for (size_t e = 0; e < data.attribute.size(); ++e) data.value.push_back(0.7 * random.Normal());
  return data;
}

// Random weights with zero padding.
inline Eigen::VectorXd RandomWeights(const Shape& shape, uint64_t seed, double scale) {
  base::RandomStream random(seed, "test.weights");
  Eigen::VectorXd w = Eigen::VectorXd::Zero(shape.dim());
  for (int64_t row = 0; row < shape.attributes + shape.labels; ++row) {
    for (int k = 0; k < shape.labels; ++k) w[row * shape.stride() + k] = scale * random.Normal();
  }
  return w;
}

inline std::vector<int32_t> AllRows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// The product's methods; in the tests of the lab, which registers more, those of the lab.
inline std::vector<std::string> AllMethods() {
  constexpr int kOfTheProduct = 3;
  std::vector<std::string> methods = ChainMethodNames();
  if (methods.size() > kOfTheProduct) methods.erase(methods.begin(), methods.begin() + kOfTheProduct);
  return methods;
}
inline bool OfTheLab() {
  return AllMethods().front() != "sag";
}
// Returns true if training by the method does not come to rest, or cannot tell that it has.
inline bool IsBlind(const std::string& method) {
  static const std::set<std::string>& blind =
      *new std::set<std::string>{"saga_literal", "saga2_literal", "sg", "asg", "pegasos", "adagrad", "smd", "oeg"};
  return blind.count(method) > 0;
}
// A method with what some of them have beside: threads, an l1 penalty.
struct MethodCase {
  std::string method = "sag";
  int threads = 1;
  double l1 = 0.0;
};
inline std::vector<MethodCase> AllMethodCases() {
  std::vector<MethodCase> cases;
  for (const std::string& method : AllMethods()) cases.push_back({method, 1, 0.0});
  if (OfTheLab()) {
    cases.push_back({"saga2", 2, 0.0});
  } else {
    cases.push_back({"sag", 1, 0.5});
    for (const char* method : {"sag", "lbfgs"}) cases.push_back({method, 2, 0.0});
  }
  return cases;
}

// The minimum of h, by L-BFGS.
struct Minimum {
  Eigen::VectorXd w;
  double value;
};
inline Minimum MinimumOf(const ChainData& data, double l2) {
  ChainLoss loss(&data);
  const ChainProblem h(&loss, l2);
  const auto f = [&](const Eigen::VectorXd& w, Eigen::VectorXd* g) { return h.Value(w, g).value(); };
  linear::LbfgsSolver solver(1e-10);
  linear::SolveState state = solver.Start(f, Eigen::VectorXd::Zero(loss.dim())).value();
  while (state == linear::SolveState::kRunning) state = solver.Step(f, {}).value();
  return {solver.x(), solver.value()};
}

inline double Objective(const ChainData& data, double l2, const Eigen::VectorXd& w) {
  ChainLoss loss(&data);
  return ChainProblem(&loss, l2).Value(w, nullptr).value();
}
// (h(w) - h*) / (h(0) - h*)
inline double Gap(const ChainData& data, double l2, const Eigen::VectorXd& w, double optimum) {
  return (Objective(data, l2, w) - optimum) / (Objective(data, l2, Eigen::VectorXd::Zero(w.size())) - optimum);
}

// What an average gradient method is made of.
struct AverageForm {
  AverageMethod method = AverageMethod::kSag;
  stochastic::Sampling sampling = stochastic::Sampling::kMixed;
  stochastic::StepRule step = stochastic::StepRule::kHedge;
  bool search_remembered = false;

  AverageGradientOptions Options(uint64_t seed) const {
    AverageGradientOptions options;
    options.method = method;
    options.sampling = sampling;
    options.step = step;
    options.search_remembered = search_remembered;
    options.seed = seed;
    return options;
  }
};
inline std::string Describe(const AverageForm& form) {
  return AverageMethodNames()[static_cast<size_t>(form.method)] + " " +
         stochastic::SamplingNames()[static_cast<size_t>(form.sampling)] + " " +
         stochastic::StepRuleNames()[static_cast<size_t>(form.step)] + (form.search_remembered ? " remembered" : "");
}

// Names of tests.
inline std::string NameOf(const ::testing::TestParamInfo<std::string>& method) {
  return method.param;
}
inline std::string NameOfCase(const ::testing::TestParamInfo<MethodCase>& one) {
  return one.param.method + (one.param.threads > 1 ? "_threads" : "") + (one.param.l1 > 0.0 ? "_l1" : "");
}

// Kernels that count the sequences whose scores are gathered (long ones several times, by pieces) and the operations
// of everything that may be given up, and raise a flag when one of both reaches a number. For one test at a time.
struct StopMeter {
  std::atomic<int64_t> gathered = 0, operations = 0;
  std::atomic<int64_t> raise_at_gathered = INT64_MAX, raise_at_operations = INT64_MAX;
  std::atomic<int64_t> raised_at = 0;  // Operations, the call that requested the stop included.
  std::function<void()> raise;         // Called once, by any thread.
  absl::Mutex mutex;

  void Reset() {
    gathered = operations = raised_at = 0;
    raise_at_gathered = raise_at_operations = INT64_MAX;
  }
  void Count(bool gathers, int64_t work) {
    // A thread that counts and one that requests the stop take turns, so that nothing is counted in between.
    const absl::MutexLock lock(&mutex);
    const int64_t sequences = gathers ? ++gathered : 0;
    const int64_t before = operations.fetch_add(work);
    if (sequences == raise_at_gathered || (before < raise_at_operations && before + work >= raise_at_operations)) {
      raised_at = before + work;
      raise();
    }
  }
};
inline StopMeter& Meter() {
  static StopMeter& meter = *new StopMeter();
  return meter;
}
inline Kernels CountingKernels() {
  Kernels kernels = BestKernels();
  kernels.gather = [](const double* weights, int64_t row_stride, const int32_t* attribute, const double* value,
                      const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores) {
    Meter().Count(true, 2 * (token_start[tokens] - token_start[0]) * stride);
    BestKernels().gather(weights, row_stride, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  kernels.gather_lazy = [](double* rows, double* last, double now, double scale, const int32_t* attribute,
                           const double* value, const int64_t* token_start, int64_t tokens, int stride, int64_t ahead,
                           double* scores) {
    Meter().Count(true, 2 * (token_start[tokens] - token_start[0]) * stride);
    BestKernels().gather_lazy(rows, last, now, scale, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  kernels.gather_along = [](const double* rows, double now, double scale, const int32_t* attribute, const double* value,
                            const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores) {
    Meter().Count(true, 2 * (token_start[tokens] - token_start[0]) * stride);
    BestKernels().gather_along(rows, now, scale, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  kernels.exp_scores = [](const double* scores, int64_t tokens, int labels, int stride, double* e, double* m) {
    Meter().Count(false, 20 * tokens * labels);
    return BestKernels().exp_scores(scores, tokens, labels, stride, e, m);
  };
  kernels.forward = [](const double* e, const double* psi, int64_t begin, int64_t end, int labels, int stride,
                       double* a, double* inverse, double* log_c) {
    Meter().Count(false, 2 * (end - begin) * labels * stride);
    return BestKernels().forward(e, psi, begin, end, labels, stride, a, inverse, log_c);
  };
  kernels.backward = [](const double* e, const double* psi_t, const double* a, const double* inverse, int64_t begin,
                        int64_t end, int64_t tokens, int labels, int stride, double* b, double* q) {
    Meter().Count(false, 2 * (end - begin) * labels * stride);
    BestKernels().backward(e, psi_t, a, inverse, begin, end, tokens, labels, stride, b, q);
  };
  kernels.edges = [](const double* a, const double* inverse, const double* b, const double* psi, int64_t tokens,
                     int labels, int stride, double* g) {
    Meter().Count(false, 2 * tokens * labels * stride);
    BestKernels().edges(a, inverse, b, psi, tokens, labels, stride, g);
  };
  return kernels;
}

// The folder with real data sets, if there is one.
inline std::optional<data::DataRoot> RealData() {
  const char* root = std::getenv("LUTHIER_DATA_DIR");
  const char* source = std::getenv("LUTHIER_SOURCE_DIR");
  if (root == nullptr && source == nullptr) return std::nullopt;
  const std::string path = root != nullptr ? root : std::string(source) + "/../shared/data";
  absl::StatusOr<data::DataRoot> opened = data::DataRoot::Open(path);
  if (!opened.ok()) return std::nullopt;
  return std::move(*opened);
}

}  // namespace testing
}  // namespace luthier::crf

#endif  // LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_
