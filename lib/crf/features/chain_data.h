#ifndef LUTHIER_LIB_CRF_FEATURES_CHAIN_DATA_H_
#define LUTHIER_LIB_CRF_FEATURES_CHAIN_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/shape.h"

namespace luthier::crf {

// One sequence, with pointers into a ChainData.
struct Sequence {
  int64_t index, tokens;
  const int64_t* token_start;  // tokens + 1, in `attribute`.
  const int32_t* label;
};

// Labelled sequences in the form that training uses. Each token has a set of attributes. Either
// each attribute of a token has a value, or all values are 1. Not to be changed once it is made.
//
//   n             sequences                         sequences()
//   T_i           tokens of sequence i              length(i)
//   A             attributes                        attributes
//   K             labels                            labels()
struct ChainData {
  std::string name;
  int32_t attributes = 0;
  std::vector<std::string> label_names;       // Byte order.
  std::vector<std::string> unknown_names;     // Labels that training lacks, numbered from K on.
  std::vector<int64_t> sequence_start = {0};  // In tokens; n + 1.
  std::vector<int64_t> token_start = {0};     // In `attribute`; tokens + 1.
  std::vector<int32_t> attribute;             // Each at most once a token; rows of the weights.
  std::vector<double> value;                  // Value of each of `attribute`; empty: all are 1.
  std::vector<int32_t> label;                 // tokens; K and above are unknown to the model.

  int labels() const { return static_cast<int>(label_names.size()); }
  int64_t sequences() const { return static_cast<int64_t>(sequence_start.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(label.size()); }
  int64_t length(int64_t i) const {
    return sequence_start[static_cast<size_t>(i) + 1] - sequence_start[static_cast<size_t>(i)];
  }
  int64_t longest() const;
  Sequence At(int64_t i) const {
    const int64_t first = sequence_start[static_cast<size_t>(i)];
    return {i, length(i), token_start.data() + first, label.data() + first};
  }
  // Returns the values as kernels take them: null if all are 1.
  const double* values() const { return value.empty() ? nullptr : value.data(); }
  double Value(size_t e) const { return value.empty() ? 1.0 : value[e]; }
  Shape shape() const { return {attributes, labels()}; }
};

// Returns the sequences numbered `rows`, in that order.
ChainData Select(const ChainData& data, const std::vector<int32_t>& rows);

// Checks data that do not come from the readers. Returns INVALID_ARGUMENT "name: ..." unless there
// are two or more labels and one or more sequences, sizes are consistent, attributes are in range
// and not twice in a token, and no label is unknown.
absl::Status CheckChainData(const ChainData& data);

// Returns the SHA-256 (hexadecimal) of everything but the name. Returns CANCELLED when stopped.
absl::StatusOr<std::string> Fingerprint(const ChainData& data, const base::StopToken& stop = {});

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_CHAIN_DATA_H_
