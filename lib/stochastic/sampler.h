#ifndef LUTHIER_LIB_STOCHASTIC_SAMPLER_H_
#define LUTHIER_LIB_STOCHASTIC_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/stochastic/sampling_tree.h"

namespace luthier::stochastic {

// Rules for the example that a variance-reduced method visits next (Ahmed 2018, section 2.6.1). There are n examples, m
// of them seen:
enum class Sampling {
  kUniform,      // Each with probability 1/n.
  kPermutation,  // A new random order every n draws.
  kCyclic,       // 0, 1, ..., n-1, again and again.
  kCyclic2,      // Two random orders, fixed at the start, in turn.
  kLipschitz,    // "pl": with probability (n-m)/n one not seen yet, uniformly; else a seen one, proportional to L_i.
  kMixed,        // "ms": with probability 1/2 any one uniformly, else a seen one, proportional to L_i.
  // Forms to compare these with:
  kLipschitzLiteral,  // "pl_literal": L_i doubles at each visit, as section 2.6.1 prints it.
  kLipschitzPort,     // "pl_port": seen ones proportional to L_i + Lmean + 2 lambda, as Schmidt's code for Le Roux,
                      // Schmidt, Bach (SAG_LipschitzLS) and its ports have it; with StepRule::kPort.
  kMixedUnseen,       // "ms_unseen": as section 2.6.1 prints it, the first half are those not seen yet; any when none
                      // is left, of which it says nothing.
};

// "u", "rp", "cyclic", "cyclic2", "pl", "ms", "pl_literal", "pl_port", "ms_unseen", in the order of the enum.
const std::vector<std::string>& SamplingNames();
absl::StatusOr<Sampling> ParseSampling(absl::string_view name);
// Returns the sampling for methods that keep no constants: kUniform replaces all that need them.
Sampling WithoutConstants(Sampling sampling);
// Returns true if the constants are to be searched at every visit: pl_literal and pl_port exist for that search.
bool SearchesAlways(Sampling sampling);

// Draws examples and keeps their estimated Lipschitz constants L_i. Also the way in which the constants start and
// decay, which goes with the sampling:
//   pl, pl_port: L_i = 1 at the first visit and half its last value at each later one (the source says "double" in one
//       place and halves in another);
//   pl_literal: twice its last value, up to 1e100;
//   all others: half the mean of the seen ones at the first visit (1 for the very first), 0.9 times the last value
//   later.
// Draws are a function of seed, the number of draws so far and the constants. Not thread-safe.
class Sampler {
 public:
  struct Draw {
    int64_t index = 0;
    double scaled_probability = 1.0;  // n times the probability of this draw.
    bool first = false;               // Not drawn before.
  };

  // n >= 1. `first_constant`: L of the very first example (1 in the source), > 0. `lambda` >= 0: of pl_port.
  Sampler(Sampling sampling, int64_t n, uint64_t seed, double first_constant = 1.0, double lambda = 0.0);
  void SetPenalty(double lambda) { lambda_ = lambda; }

  // Marks the example as seen. SetConstant must follow for a first one, before the next draw (not needed with samplings
  // that use no constants, as long as nobody asks for them).
  Draw Next();
  // Undoes Next: the next call gives this draw again. For a step that was given up; nothing but StartConstant may have
  // been asked since.
  void PutBack(const Draw& draw) { put_back_ = draw; }

  // The constant that the search of this visit starts from.
  double StartConstant(const Draw& draw) const;
  void SetConstant(int64_t i, double constant) { tree_.Set(i, constant); }
  double constant(int64_t i) const { return tree_.weight(i); }

  int64_t size() const { return tree_.size(); }
  int64_t seen() const { return seen_count_; }
  bool is_seen(int64_t i) const { return seen_[static_cast<size_t>(i)] != 0; }
  // Constants over the seen examples; at least one must be seen.
  double max_constant() const { return tree_.max(); }
  double mean_constant() const { return tree_.sum() / static_cast<double>(seen_count_); }

  // A sampler with the same arguments that loads the saved bytes goes on with the same draws. Load returns false if
  // they do not fit.
  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader);

 private:
  static constexpr int64_t kBlock = 64;
  struct Uniforms {
    double choice, place;
  };
  Uniforms NextUniforms();
  void MakeOrder(int which, uint64_t index);
  Draw Visit(int64_t i, double scaled_probability);
  Draw VisitUnseen(double place, double scaled_probability);
  Draw VisitPort(double place);

  const Sampling sampling_;
  const uint64_t seed_;
  const double first_constant_;
  double lambda_;
  SamplingTree tree_;
  std::vector<uint8_t> seen_;
  int64_t seen_count_ = 0;
  int64_t draws_ = 0;
  std::optional<Draw> put_back_;
  // pl, ms_unseen: the unseen examples, in any order that follows from the draws; pl_port: the seen ones follow them.
  std::vector<int32_t> unseen_;
  std::vector<int32_t> order_[2];  // rp: the current one; cyclic2: both.
  int64_t order_index_ = -1;       // rp: which permutation order_[0] is.
  std::vector<Uniforms> block_;    // Numbers of the draws of the current block.
  int64_t block_index_ = -1;
};

}  // namespace luthier::stochastic

#endif  // LUTHIER_LIB_STOCHASTIC_SAMPLER_H_
