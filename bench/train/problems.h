#ifndef LUTHIER_BENCH_TRAIN_PROBLEMS_H_
#define LUTHIER_BENCH_TRAIN_PROBLEMS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/crf/features/chain_data.h"

// The problems of Ahmed 2018, chapter 2, as far as their data can be had.
namespace luthier::crf {

struct TrainingProblem {
  std::string name;
  ChainData train, test;
  std::optional<double> optimum;  // min h at l2 = 1 where it is known to eight digits.
};

// "chunking": CoNLL-2000; "letters": OCR; "names": CoNLL-2002, Dutch; "tags": parts of speech of UD English EWT, in
// place of the Wall Street Journal's. `root`: the folder with conll2000/, ocr-letters/, conll2002-ned/ and ud-ewt/.
// Errors of reading; NOT_FOUND when a file is not there.
absl::StatusOr<TrainingProblem> LoadTrainingProblem(const std::string& root, absl::string_view name);

// CPU seconds of this process.
double CpuSeconds();

}  // namespace luthier::crf

#endif  // LUTHIER_BENCH_TRAIN_PROBLEMS_H_
