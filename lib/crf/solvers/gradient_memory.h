#ifndef LUTHIER_LIB_CRF_SOLVERS_GRADIENT_MEMORY_H_
#define LUTHIER_LIB_CRF_SOLVERS_GRADIENT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/inference/row_sums.h"
#include "lib/crf/solvers/rescaling.h"

namespace luthier::crf {

// The form in which an average gradient method keeps each sequence's last gradient (Ahmed 2018,
// section 2.3.2), and the count of numbers that it needs. U_i is the number of distinct attributes
// of sequence i, p that of all weights.
enum class MemoryMode {
  kMixed,      // T K + K^2: marginals of tokens and the gradient of the transitions.
  kMarginals,  // T K + (T-1) K^2: marginals of tokens and of edges.
  kSparse,     // U_i K + K^2: the entries of the gradient that need not be 0.
  kAbsolute,   // p: the whole gradient, zeros included.
};

// "mixed", "marginals", "sparse", "absolute", in the order of the enum.
const std::vector<std::string>& MemoryModeNames();
absl::StatusOr<MemoryMode> ParseMemoryMode(absl::string_view name);

// Returns the count of numbers that a mode keeps for all sequences together.
int64_t PlanMemory(MemoryMode mode, const ChainData& data);

// The difference between a sequence's new gradient and the remembered one, either by tokens or by
// attributes.
struct GradientChange {
  const double* tokens = nullptr;  // T x stride: change for each attribute of token t; or null.
  std::vector<int32_t> rows;       // If `tokens` is null: the attributes that change.
  AlignedDoubles row_values;       // If `tokens` is null: their changes, stride each.
  const double* edges = nullptr;   // K x stride.
};

// The table of remembered gradients, as floats. It holds rounded gradients, and changes are
// differences of rounded ones, so a running sum of changes is the sum of the table. Not
// thread-safe.
class GradientMemory {
 public:
  // `data` must outlive this. Returns RESOURCE_EXHAUSTED if the table would need more than
  // `max_bytes`; the message says how much each mode needs.
  static absl::StatusOr<GradientMemory> Create(MemoryMode mode, const ChainData* data, const Kernels& kernels,
                                               int64_t max_bytes);

  // Remembers the gradient of sequence i, and returns its change, which is valid until the next
  // call. `residuals` (T x stride) are q_t - e_{y_t}; `edges` are G minus the counts of the true
  // labeling. Both come from `chain`, which also gives marginals of edges.
  const GradientChange& Exchange(int64_t i, const double* residuals, const double* edges, const ChainInference& chain);
  // Returns the change that Exchange would return, without remembering the gradient.
  const GradientChange& Difference(int64_t i, const double* residuals, const double* edges,
                                   const ChainInference& chain);

  // Reads the remembered gradient of sequence i, as residuals (T x stride) and edges (K x stride); mixed and marginals
  // only.
  void Recall(int64_t i, double* residuals, double* edges) const;

  // Prepare and Remember are Exchange in two steps, for mixed and marginals only. Several threads
  // may Prepare different sequences at once.
  struct Prepared {
    float* remembered;    // The new entry of the table: Size(i) numbers.
    double* tokens;       // The change: T x stride numbers,
    double* edge_change;  // and K x stride.
    double* scratch;      // 2 K x stride numbers.
  };
  void Prepare(int64_t i, const double* residuals, const double* edges, const ChainInference& chain,
               const Prepared& to) const;
  int64_t Size(int64_t i) const;
  void Remember(int64_t i, const float* remembered);

  // Converts the table to sequences whose attributes have other values. `sums` has the sum of the
  // remembered gradients, for each attribute a row of stride numbers, which begin `apart` numbers
  // apart. It is converted, too.
  void Rescale(const Rescaling& rescaling, int64_t apart, double* sums);

  // Tells the processor that sequence i comes next.
  void Prefetch(int64_t i) const;

  int64_t bytes() const { return static_cast<int64_t>(table_.size() * sizeof(float)); }
  const std::vector<float>& table() const { return table_; }
  std::vector<float>& table() { return table_; }

 private:
  GradientMemory(MemoryMode mode, const ChainData* data, const Kernels& kernels);
  void ExchangeEdges(int64_t i, const double* edges, const ChainInference& chain, float* memory, double* change,
                     double* scratch) const;

  MemoryMode mode_;
  const ChainData* data_;
  const Kernels* kernels_;
  int labels_;
  int stride_;
  std::vector<int64_t> start_;  // Start of each sequence's part of the table.
  std::vector<float> table_;    // The table and a few more numbers, see Kernels::exchange.
  AlignedDoubles tokens_, edges_, edge_marginals_;
  std::unique_ptr<RowSums> row_sums_;  // Set in the modes kSparse and kAbsolute.
  std::vector<float> saved_;
  GradientChange change_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_GRADIENT_MEMORY_H_
