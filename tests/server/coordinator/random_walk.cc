#include "tests/server/coordinator/random_walk.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "tests/server/coordinator/walker.h"

namespace luthier::coordinator::testing {

std::vector<Step> RandomSteps(uint64_t seed, int count) {
  // How often each kind comes, of 1000.
  static constexpr std::pair<Step::Kind, uint32_t> kWeights[] = {
      {Step::kSuggest, 268},   {Step::kFinish, 270}, {Step::kReport, 80},   {Step::kHeartbeat, 75},
      {Step::kCreate, 40},     {Step::kControl, 30}, {Step::kEnqueue, 35},  {Step::kCancelTrial, 12},
      {Step::kStopTrial, 12},  {Step::kUpdate, 10},  {Step::kImport, 6},    {Step::kRetry, 12},
      {Step::kDeleteTrial, 8}, {Step::kNote, 4},     {Step::kTime, 80},     {Step::kHangUp, 6},
      {Step::kToken, 40},      {Step::kRestart, 6},  {Step::kFailCommit, 6}};
  base::RandomStream random(seed, "walk");
  std::vector<Step> steps(static_cast<size_t>(count));
  for (Step& step : steps) {
    auto pick = static_cast<uint32_t>(random.UniformInt(1000));
    for (const auto& [kind, weight] : kWeights) {
      step.kind = kind;
      if (pick < weight) break;
      pick -= weight;
    }
    step.ends_batch = random.UniformInt(3) != 0;
    for (uint32_t& r : step.r) r = static_cast<uint32_t>(random.UniformInt(uint64_t{1} << 30));
  }
  return steps;
}

std::optional<WalkFailure> RunWalk(const std::vector<Step>& steps, const WalkOptions& options, WalkStats* stats) {
  WalkStats local;
  std::optional<WalkFailure> failure = Walker(options, &local).Run(steps);
  if (stats != nullptr) {
    stats->operations += local.operations;
    stats->batches += local.batches;
    stats->failed_commits += local.failed_commits;
    stats->restarts += local.restarts;
    stats->limited += local.limited;
    stats->ended += local.ended;
    stats->ended_waiting += local.ended_waiting;
    stats->grants += local.grants;
    stats->regrants += local.regrants;
    stats->refused += local.refused;
    stats->finals += local.finals;
    stats->set_aside += local.set_aside;
    stats->paused += local.paused;
    stats->promoted += local.promoted;
    stats->updated += local.updated;
    stats->stopped += local.stopped;
    stats->removed += local.removed;
    stats->repeated += local.repeated;
  }
  return failure;
}

std::vector<Step> Shrink(std::vector<Step> steps, const WalkOptions& options) {
  std::optional<WalkFailure> failure = RunWalk(steps, options, nullptr);
  if (!failure) return steps;
  steps.resize(static_cast<size_t>(failure->step) + 1);
  for (size_t chunk = steps.size() / 2; chunk >= 1; chunk /= 2) {
    for (size_t begin = 0; begin + chunk <= steps.size();) {
      std::vector<Step> fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(begin));
      fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(begin + chunk), steps.end());
      failure = RunWalk(fewer, options, nullptr);
      if (failure) {
        fewer.resize(static_cast<size_t>(failure->step) + 1);
        steps = std::move(fewer);
      } else {
        begin += chunk;
      }
    }
  }
  return steps;
}

std::string Describe(const std::vector<Step>& steps) {
  static constexpr const char* kNames[] = {"Suggest", "Finish",  "Report",      "Heartbeat", "Create",
                                           "Control", "Enqueue", "CancelTrial", "StopTrial", "Update",
                                           "Import",  "Retry",   "DeleteTrial", "Note",      "Time",
                                           "HangUp",  "Token",   "Restart",     "FailCommit"};
  std::string text;
  for (const Step& step : steps) {
    absl::StrAppend(&text, "  {Step::k", kNames[step.kind], ", ", step.ends_batch ? "true" : "false", ", {");
    for (size_t i = 0; i < step.r.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", step.r[i]);
    absl::StrAppend(&text, "}},\n");
  }
  return text;
}

std::string CheckWalk(const WalkOptions& options, WalkStats* stats) {
  const std::vector<Step> steps = RandomSteps(options.seed, options.steps);
  const std::optional<WalkFailure> failure = RunWalk(steps, options, stats);
  if (!failure) return "";
  // Known even if a shorter walk ends in an abort.
  std::fprintf(stderr, "seed %llu, step %d: %s\n", static_cast<unsigned long long>(options.seed), failure->step,
               failure->what.c_str());
  const std::vector<Step> shortest = Shrink(steps, options);
  const std::optional<WalkFailure> again = RunWalk(shortest, options, nullptr);
  return absl::StrCat("seed ", options.seed, ", step ", failure->step, ": ", failure->what, "\nshortest failing walk (",
                      shortest.size(), " steps): ", again ? again->what : "", "\n", Describe(shortest));
}

}  // namespace luthier::coordinator::testing
