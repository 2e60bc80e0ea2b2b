#include "server/service/importances.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/importance/importance.h"
#include "server/service/lookup.h"
#include "server/service/pages.h"

namespace luthier::service {
namespace {

constexpr size_t kMostAnswers = 16;
constexpr int64_t kMostLooked = 10'000, kLeastLooked = 500;
// Bytes that all observations may take, and that each of their parameters takes.
constexpr int64_t kObservationsBytes = int64_t{64} << 20, kParameterBytes = 128;

struct Observations {
  std::vector<importance::Observation> values;
  std::set<std::string> metrics;  // Names of metrics that COMPLETE trials have.
};

void Add(study::Trial trial, const std::string& metric, Observations* out) {
  if (trial.deleted || trial.state != study::TrialState::kComplete || !trial.final_measurement) return;
  const std::map<std::string, double>& metrics = trial.final_measurement->metrics;
  for (const auto& [name, number] : metrics) out->metrics.insert(name);
  const auto value = metrics.find(metric);
  if (value == metrics.end() || !std::isfinite(value->second)) return;
  out->values.push_back({std::move(trial.parameters), value->second});
}

// Reads the observations of all trials, or of `most` of them if there are more.
absl::StatusOr<Observations> ReadObservations(storage::Storage* storage, const storage::StudyRecord& study,
                                              int64_t trials, int64_t most, const std::string& metric) {
  Observations out;
  if (trials > most) {
    for (int64_t i = 0; i < most; ++i) {
      LUTHIER_ASSIGN_OR_RETURN(storage::TrialRecord record, storage->GetTrial(study.key, 1 + i * trials / most));
      Add(std::move(record.trial), metric, &out);
    }
    return out;
  }
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study.key, {}, after, kMaxPage));
    for (storage::TrialRecord& record : page) {
      after = record.trial.number;
      Add(std::move(record.trial), metric, &out);
    }
    if (page.size() < static_cast<size_t>(kMaxPage)) return out;
  }
}

void Put(const importance::Share& share, std::vector<std::string> names, v1::GetImportanceResponse::Share* out) {
  for (std::string& name : names) out->add_parameters(std::move(name));
  out->set_share(share.share);
  out->set_low(share.low);
  out->set_high(share.high);
}

absl::Status Fill(storage::Storage* storage, const storage::StudyRecord& study, const v1::GetImportanceRequest& request,
                  v1::GetImportanceResponse* response) {
  const std::string metric = request.metric().empty() ? study.spec.metric.name : request.metric();
  LUTHIER_ASSIGN_OR_RETURN(const storage::Storage::Summary summary, storage->Summarize(study));
  const int64_t there = std::accumulate(summary.by_state.begin(), summary.by_state.end(), int64_t{0});
  const int64_t fitting = kObservationsBytes / (kParameterBytes * (study.spec.space.size() + 1));
  LUTHIER_ASSIGN_OR_RETURN(const Observations seen,
                           ReadObservations(storage, study, there + summary.deleted,
                                            std::clamp(fitting, kLeastLooked, kMostLooked), metric));
  if (seen.values.empty() && !seen.metrics.empty()) {
    const std::vector<std::string> known(seen.metrics.begin(), seen.metrics.end());
    return base::BadField("metric", absl::StrCat("no complete trial has ", base::Quote(metric), "; they have ",
                                                 absl::StrJoin(known, ", "), base::DidYouMean(metric, known)));
  }
  importance::ImportanceOptions options;
  options.quantile = request.has_quantile() ? request.quantile() : 1.0;
  options.pairs = request.pairs();
  options.seed = study.spec.seed;
  const auto count = [&](study::TrialState state) { return summary.by_state[static_cast<size_t>(state)]; };
  options.ended = {count(study::TrialState::kComplete), count(study::TrialState::kFailed),
                   count(study::TrialState::kPruned)};
  absl::StatusOr<importance::Importance> result =
      importance::Compute(study.spec.space, study.spec.metric.goal, seen.values, options);
  if (absl::IsFailedPrecondition(result.status())) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTooFewResults,
                           result.status().message());
  }
  LUTHIER_RETURN_IF_ERROR(result.status());
  for (importance::ParameterShare& p : result->parameters) Put(p.share, {p.name}, response->add_parameters());
  for (importance::PairShare& p : result->pairs) Put(p.share, {p.first, p.second}, response->add_pairs());
  response->set_predicted(result->predicted);
  for (std::string& warning : result->warnings) response->add_warnings(std::move(warning));
  const auto used = static_cast<int64_t>(seen.values.size());
  response->set_trials(used);
  response->set_left_out(std::max<int64_t>(0, there - used));  // Trials may have been added meanwhile.
  response->set_seq(study.update_seq);
  return absl::OkStatus();
}

}  // namespace

absl::Status Importances::Read(storage::Storage* storage, const std::string& id,
                               const v1::GetImportanceRequest& request, v1::GetImportanceResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id));
  v1::GetImportanceRequest unnamed = request;
  unnamed.clear_name();
  const std::string question = unnamed.SerializeAsString();
  {
    const base::MutexLock lock(&mutex_);
    const auto same = [&](const Answer& a) { return a.study == study.key && a.question == question; };
    const auto found = std::find_if(answers_.begin(), answers_.end(), same);
    if (found != answers_.end() && found->seq == study.update_seq) {
      answers_.splice(answers_.begin(), answers_, found);
      *response = found->response;
      return absl::OkStatus();
    }
    if (found != answers_.end()) answers_.erase(found);
  }
  LUTHIER_RETURN_IF_ERROR(Fill(storage, study, request, response));
  const base::MutexLock lock(&mutex_);
  answers_.push_front({study.key, study.update_seq, question, *response});
  if (answers_.size() > kMostAnswers) answers_.pop_back();
  return absl::OkStatus();
}

}  // namespace luthier::service
