#ifndef LUTHIER_BENCH_REPRODUCE_RUN_H_
#define LUTHIER_BENCH_REPRODUCE_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/reproduce/experiments.h"

namespace luthier::reproduce {

// One run: a setting on a problem with one seed.
struct Case {
  const Setting* setting = nullptr;
  std::string problem;
  int evaluations = 0;
  uint64_t seed = 0;
};

// All runs of these claims (empty: of all), each once, at the largest budget that any of them wants; seeds 0 …
// seeds - 1, all runs of one seed before the next, so that whatever was finished when time ran out is comparable.
// INVALID_ARGUMENT for a claim that has no experiments.
absl::StatusOr<std::vector<Case>> Plan(const std::vector<std::string>& claims, int seeds);

// Where a run's rows belong below `folder`: PROBLEM/SETTING/SEED.csv.
std::string PathOf(const std::string& folder, const Case& run);
// Whether they are there in full.
bool IsDone(const std::string& folder, const Case& run);

// Runs it and writes its file: evaluation,value,best,origin,bind_rate,excluded_share,suggest_ms, a row an evaluation,
// unknown numbers empty. The file appears when it is complete. A non-finite value is a failed trial. Sequential; all
// columns but suggest_ms depend on the run only.
absl::Status Execute(const std::string& folder, const Case& run);

// experiments.csv (claim,setting,problem,evaluations) and problems.csv (problem,dimension,optimum) in `folder`: what
// report.py needs to know besides.
absl::Status WriteTables(const std::string& folder);

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_RUN_H_
