#include "bench/train/problems.h"

#include <time.h>

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/crf/features/features.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/data/column_text.h"
#include "lib/data/data_root.h"
#include "lib/data/text_source.h"
#include "lib/notation/templates.h"

namespace luthier::crf {
namespace {

absl::StatusOr<data::LineReader> Open(const std::string& root, const std::string& name) {
  LUTHIER_ASSIGN_OR_RETURN(const data::DataRoot folder, data::DataRoot::Open(root));
  LUTHIER_ASSIGN_OR_RETURN(data::UniqueFd fd, folder.OpenFile(name));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<data::ByteSource> bytes, data::OpenBytes(std::move(fd), name));
  return data::LineReader(std::move(bytes), name);
}

std::vector<int32_t> AllRows(const data::ColumnText& text) {
  std::vector<int32_t> rows(static_cast<size_t>(text.sequences()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

absl::StatusOr<TrainingProblem> LoadColumns(const std::string& root, const std::string& train_name,
                                            const std::string& test_name, absl::string_view templates,
                                            int64_t min_count) {
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader train_lines, Open(root, train_name));
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader test_lines, Open(root, test_name));
  LUTHIER_ASSIGN_OR_RETURN(const data::ColumnText train, data::ReadColumnText(train_lines));
  LUTHIER_ASSIGN_OR_RETURN(const data::ColumnText test, data::ReadColumnText(test_lines));
  FeatureOptions options;
  LUTHIER_ASSIGN_OR_RETURN(options.templates, notation::ParseTemplates(templates));
  options.min_count = min_count;
  LUTHIER_ASSIGN_OR_RETURN(const FeatureMap map, FeatureMap::Fit(train, AllRows(train), options));
  TrainingProblem problem;
  LUTHIER_ASSIGN_OR_RETURN(problem.train, map.Encode(train, AllRows(train)));
  LUTHIER_ASSIGN_OR_RETURN(problem.test, map.Encode(test, AllRows(test), FeatureMap::UnknownLabels::kKeep));
  return problem;
}

absl::StatusOr<TrainingProblem> LoadLetters(const std::string& root) {
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, Open(root, "ocr-letters/letters.tsv.xz"));
  LUTHIER_ASSIGN_OR_RETURN(const Letters letters, ReadLetters(lines));
  // The source trains on nine folds of ten, which this copy of the data calls its test part.
  std::vector<int32_t> train, test;
  for (size_t i = 0; i < letters.fold.size(); ++i) {
    (letters.fold[i] == "test" ? train : test).push_back(static_cast<int32_t>(i));
  }
  TrainingProblem problem;
  problem.train = Select(letters.data, train);
  problem.test = Select(letters.data, test);
  return problem;
}

absl::StatusOr<TrainingProblem> Load(const std::string& root, absl::string_view name) {
  if (name == "letters") return LoadLetters(root);
  if (name == "chunking") return LoadColumns(root, "conll2000/train.txt.xz", "conll2000/test.txt.xz", "chunking", 3);
  if (name == "names") {
    return LoadColumns(root, "conll2002-ned/ned.train.xz", "conll2002-ned/ned.testb.xz", "chunking", 1);
  }
  if (name == "tags") {
    // Words only: the file's other column is nearly the label.
    return LoadColumns(root, "ud-ewt/train.txt.xz", "ud-ewt/test.txt.xz",
                       "w[-2], w[-1], w[0], w[1], w[2], w[-1]|w[0], w[0]|w[1]", 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no problem ", base::Quote(name), "; there are letters, chunking, names, tags"));
}

}  // namespace

absl::StatusOr<TrainingProblem> LoadTrainingProblem(const std::string& root, absl::string_view name) {
  LUTHIER_ASSIGN_OR_RETURN(TrainingProblem problem, Load(root, name));
  problem.name = std::string(name);
  if (name == "chunking") problem.optimum = 8852.1238;
  if (name == "letters") problem.optimum = 15251.9075;
  return problem;
}

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace luthier::crf
