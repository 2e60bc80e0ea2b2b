#ifndef LUTHIER_LIB_CRF_SOLVERS_CHECKPOINT_ARRAYS_H_
#define LUTHIER_LIB_CRF_SOLVERS_CHECKPOINT_ARRAYS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/crf/inference/inference.h"

// Functions that save and load arrays of numbers in checkpoints, bit for bit. LoadArray returns
// false unless the saved array has the size of `x`.
namespace luthier::crf {

inline void SaveArray(const AlignedDoubles& x, base::CheckpointWriter* writer) {
  writer->Text(absl::string_view(reinterpret_cast<const char*>(x.data()), static_cast<size_t>(x.size()) * 8));
}
inline bool LoadArray(base::CheckpointReader* reader, AlignedDoubles* x) {
  const std::string bytes = reader->Text();
  if (bytes.size() != static_cast<size_t>(x->size()) * 8) return false;
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(x->data()));
  return true;
}
template <typename T>
void SaveArray(const std::vector<T>& x, base::CheckpointWriter* writer) {
  writer->Text(absl::string_view(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T)));
}
template <typename T>
bool LoadArray(base::CheckpointReader* reader, std::vector<T>* x) {
  const std::string bytes = reader->Text();
  if (bytes.size() != x->size() * sizeof(T)) return false;
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(x->data()));
  return true;
}

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_CHECKPOINT_ARRAYS_H_
