// The naive model: who may be granted what.
#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/server/coordinator/naive_model.h"

namespace luthier::coordinator::testing {
namespace {

using study::StudyState;
using study::TrialState;

std::string AskText(const SuggestOp& op) {
  return absl::StrCat("suggest|", op.id, "|", op.worker, "|", op.count);
}

}  // namespace

std::vector<int64_t> NaiveModel::Eligible(const Study& s, const std::string& worker, int count) const {
  std::vector<int64_t> chosen;
  int64_t room =
      (s.spec.budget.max_parallel > 0 ? s.spec.budget.max_parallel : 10'000) - Count(s, TrialState::kRunning);
  const auto full = [&] { return static_cast<int>(chosen.size()) >= count; };
  // Trials to be tried again, oldest first. An expired one runs already.
  for (const auto& [number, t] : s.trials) {
    const bool again = t.state == TrialState::kPending && !t.grants.empty();
    if ((!again && !Expired(t)) || full() || (again && room <= 0)) continue;
    if (!t.grants.back().released && t.grants.back().worker == worker && now_ < t.eligible_since + s.spec.lease.ttl) {
      bool another = false;
      for (const auto& [name, when] : last_asked_)
        another = another || (name != worker && when >= now_ - s.spec.lease.ttl);
      if (another) continue;
    }
    if (again) --room;
    chosen.push_back(number);
  }
  for (const auto& [number, t] : s.trials) {
    if (t.state != TrialState::kPending || !t.grants.empty() || full() || room <= 0) continue;
    --room;
    chosen.push_back(number);
  }
  return chosen;
}

int64_t NaiveModel::RoomForNew(const Study& s, const std::vector<int64_t>& eligible) const {
  int64_t running = Count(s, TrialState::kRunning);
  for (const int64_t number : eligible) running += s.trials.at(number).state == TrialState::kPending ? 1 : 0;
  const int64_t parallel = s.spec.budget.max_parallel > 0 ? s.spec.budget.max_parallel : 10'000;
  return std::min(s.spec.budget.max_trials - static_cast<int64_t>(s.trials.size()), parallel - running);
}

int NaiveModel::CountFor(const Waiting& w) const {
  int held = 0;
  for (const auto& [key, s] : studies_) {
    for (const auto& [number, t] : s.trials) {
      held += t.state == TrialState::kRunning && !t.seen_expired && t.grants.back().worker == w.op.worker ? 1 : 0;
    }
  }
  return std::min(w.op.count, options_.leases_per_worker - held);
}

bool NaiveModel::CanServe(const Study& s, const Waiting& w, int64_t spoken_for) const {
  const int count = CountFor(w);
  if (s.state != StudyState::kActive || count <= 0) return false;
  const std::vector<int64_t> eligible = Eligible(s, w.op.worker, count);
  return !eligible.empty() || RoomForNew(s, eligible) > spoken_for;
}

std::vector<storage::StudyKey> NaiveModel::Candidates(const Waiting& w) const {
  std::vector<storage::StudyKey> keys;
  for (const auto& [key, s] : studies_) {
    if (w.study != 0
            ? key == w.study
            : s.state == StudyState::kActive && !std::holds_alternative<study::ExternalObjective>(s.spec.objective)) {
      keys.push_back(key);
    }
  }
  const auto rank = [&](storage::StudyKey key) {
    const Study& s = studies_.at(key);
    return std::tuple(static_cast<double>(Count(s, TrialState::kRunning)) / s.spec.weight, s.last_turn, key);
  };
  std::sort(keys.begin(), keys.end(), [&](storage::StudyKey a, storage::StudyKey b) { return rank(a) < rank(b); });
  return keys;
}

int64_t NaiveModel::SpokenFor(int handle) const {
  int64_t rows = 0;
  for (const Waiting& w : waiting_) {
    if (w.handle == handle) break;
    rows += w.op.count;
  }
  return rows;
}

std::optional<Expected> NaiveModel::Suggest(const SuggestOp& op, int handle, int* replaced) {
  *replaced = -1;
  last_asked_[op.worker] = now_;
  if (std::optional<Expected> again = CheckRequest(op.request_id, AskText(op))) return again;
  Waiting w;
  w.handle = handle;
  w.op = op;
  if (!op.id.empty()) {
    w.study = KeyOf(op.id);
    if (w.study == 0) return Expected::Error(absl::StatusCode::kNotFound, base::reason::kNotFound);
    if (op.fail_if_paused && studies_[w.study].state == StudyState::kPaused) {
      return Expected::Error(absl::StatusCode::kFailedPrecondition, base::reason::kStudyPaused);
    }
  }
  for (auto it = waiting_.begin(); !op.request_id.empty() && it != waiting_.end(); ++it) {
    if (it->op.request_id != op.request_id) continue;
    *replaced = it->handle;
    waiting_.erase(it);
    break;
  }
  waiting_.push_back(std::move(w));
  return std::nullopt;
}

absl::Status NaiveModel::TokenOf(const Waiting& w) const {
  return w.op.permit == nullptr ? absl::OkStatus() : w.op.permit->Check(wall_);
}

std::string NaiveModel::CheckAnswer(int handle, const absl::StatusOr<SuggestReply>& reply) {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.handle == handle; });
  if (found == waiting_.end()) return "an ask was answered that does not wait";
  const Waiting w = *found;
  const int64_t spoken_for = SpokenFor(handle);
  waiting_.erase(found);
  if (w.op.caller_gone.stop_requested()) {
    return reply.status().code() == absl::StatusCode::kCancelled ? "" : "a caller that hung up got an answer";
  }
  if (const absl::Status ended = TokenOf(w); !ended.ok()) {
    return reply.status().code() == ended.code() && base::GetReason(reply.status()) == base::GetReason(ended)
               ? ""
               : absl::StrCat("the token of an ask has ended, and it was answered ", reply.status().ToString());
  }
  if (w.study != 0 && studies_.count(w.study) == 0) {
    return base::GetReason(reply.status()) == base::reason::kNotFound ? "" : "the study was deleted, but the ask lives";
  }
  const int count = CountFor(w);
  if (count <= 0) {
    const bool refused = reply.status().code() == absl::StatusCode::kResourceExhausted &&
                         base::GetReason(reply.status()) == base::reason::kLimitExceeded;
    return refused ? "" : "a worker that holds all it may was not refused";
  }
  if (!reply.ok()) return absl::StrCat("a good ask was refused: ", reply.status().ToString());
  const std::vector<storage::StudyKey> candidates = Candidates(w);
  if (reply->grants.empty()) {
    bool done = w.study != 0 && studies_[w.study].state != StudyState::kActive &&
                studies_[w.study].state != StudyState::kPaused;
    if (done) {
      for (const auto& [number, t] : studies_[w.study].trials) {
        done = done && t.state != TrialState::kPending && t.state != TrialState::kRunning;
      }
    }
    if (reply->study_done != done) return absl::StrCat("study_done is ", reply->study_done, ", not ", done);
    if (done) return "";
    if (w.op.deadline > now_) return "nothing was granted before the deadline";
    if (reply->retry_after <= absl::ZeroDuration()) return "nothing granted, and no retry_after";
    for (const storage::StudyKey key : candidates) {
      const bool again = !Eligible(studies_[key], w.op.worker, count).empty();
      if (options_.late_suggestions && !again) continue;
      if (CanServe(studies_[key], w, spoken_for)) {
        return absl::StrCat("nothing was granted, but study ", studies_[key].id, " has trials to give");
      }
    }
    return "";
  }

  const storage::StudyKey key = KeyOf(reply->grants[0].study_id);
  if (std::find(candidates.begin(), candidates.end(), key) == candidates.end())
    return "granted from a study not asked for";
  for (const storage::StudyKey earlier : candidates) {
    if (earlier == key || options_.late_suggestions) break;
    if (CanServe(studies_[earlier], w, spoken_for)) {
      return absl::StrCat("study ", studies_[earlier].id, " goes before it and could have served");
    }
  }
  Study& s = studies_[key];
  if (s.state != StudyState::kActive) return "granted from a study that is not active";
  const std::vector<int64_t> eligible = Eligible(s, w.op.worker, count);
  const int64_t wanted = count - static_cast<int64_t>(eligible.size());
  int64_t room = RoomForNew(s, eligible);
  if (Count(s, TrialState::kPaused) > 0) {  // Promotions need no row; TakeUnpredicted counts those of the others.
    room += static_cast<int64_t>(s.trials.size());
    const int64_t parallel = s.spec.budget.max_parallel > 0 ? s.spec.budget.max_parallel : 10'000;
    room = std::min(room, parallel - Count(s, TrialState::kRunning));
  }
  const int64_t most = std::clamp<int64_t>(room, 0, wanted);
  const int64_t least =
      options_.late_suggestions ? 0 : std::clamp<int64_t>(RoomForNew(s, eligible) - spoken_for, 0, wanted);
  const int64_t got = static_cast<int64_t>(reply->grants.size() - eligible.size());
  if (got < least || got > most) {
    return absl::StrCat("granted ", reply->grants.size(), " trials; ", eligible.size(),
                        " are eligible and there is room for ", least, " to ", most, " new ones");
  }
  Request remembered{AskText(w.op), {}, key, {}};
  for (size_t i = 0; i < reply->grants.size(); ++i) {
    const coordinator::Grant& g = reply->grants[i];
    if (i >= eligible.size() && s.spec.resource) {
      const std::string wrong = TakeUnpredicted(s, g);
      if (!wrong.empty()) return wrong;
    }
    const bool predicted = i < eligible.size() || !s.spec.resource;
    const int64_t number = !predicted            ? g.trial.number
                           : i < eligible.size() ? eligible[i]
                                                 : static_cast<int64_t>(s.trials.size()) + 1;
    if (g.trial.number != number)
      return absl::StrCat("granted trial ", g.trial.number, " where it was the turn of ", number);
    if (predicted && i >= eligible.size()) {
      Trial& fresh = s.trials[number];
      uint64_t asks = 0;
      for (const auto& [other, t] : s.trials) asks += t.ask_index ? 1 : 0;
      fresh.ask_index = asks;
      const search::Suggestion suggestion = s.designer->Suggest({}, asks, base::StopToken()).value();
      fresh.parameters = suggestion.parameters;
      fresh.direction = suggestion.direction;
      for (const int64_t which : suggestion.set_aside) {
        const auto other = s.trials.find(which);
        if (other == s.trials.end() || !other->second.has_gradient) continue;
        if (s.set_aside.emplace(which, other->second.grants.back().worker).second) fresh.set_aside.push_back(which);
      }
    }
    Trial& t = s.trials[number];
    t.state = TrialState::kRunning;
    t.grants.push_back({g.token, w.op.worker, "", TrialState::kPending, 0, false, false});
    s.last_turn = ++turns_;
    t.points.clear();
    t.values.clear();
    const bool last = AttemptsUsed(t) >= s.spec.lease.max_attempts;
    t.ttl = s.spec.lease.ttl * (last ? 10 : 1);
    t.deadline = now_ + t.ttl;
    t.seen_expired = false;
    const std::string at = absl::StrCat("trial ", number, " as granted: ");
    if (g.attempt != static_cast<int32_t>(t.grants.size())) return at + "wrong attempt";
    if (g.trial.state != TrialState::kRunning) return at + "not RUNNING";
    if (g.trial.attempts.size() != t.grants.size() || g.trial.attempts.back().worker != w.op.worker) {
      return at + "wrong attempts";
    }
    if (g.trial.parameters != t.parameters) return at + "other parameters";
    if (g.trial.provenance.ask_index != t.ask_index) return at + "other ask index";
    if (g.trial.provenance.direction != t.direction) return at + "other direction";
    if (g.trial.provenance.set_aside != t.set_aside) return at + "other gradients set aside";
    if (g.resume_checkpoint != t.checkpoint) return at + "other checkpoint";
    if (g.target_step != t.target) return at + "other target";
    if (g.token.size() != 16) return at + "no token";
    remembered.granted.emplace_back(number, g.token);
  }
  if (!w.op.request_id.empty()) requests_[w.op.request_id] = std::move(remembered);
  return "";
}

std::string NaiveModel::TakeUnpredicted(Study& s, const coordinator::Grant& g) {
  const int64_t number = g.trial.number;
  uint64_t asks = 0;
  for (const auto& [other, t] : s.trials) asks += (t.ask_index ? 1 : 0) + t.promotions;
  const auto found = s.trials.find(number);
  if (found == s.trials.end()) {
    if (number != static_cast<int64_t>(s.trials.size()) + 1 || number > s.spec.budget.max_trials) {
      return absl::StrCat("a new trial got the number ", number);
    }
    Trial& fresh = s.trials[number];
    fresh.ask_index = asks;
    fresh.parameters = g.trial.parameters;
    fresh.target = g.trial.provenance.resource;
    return fresh.target > 0 ? "" : "a new trial without a target";
  }
  Trial& t = found->second;
  if (t.state != TrialState::kPaused) return absl::StrCat("trial ", number, " was continued and was not PAUSED");
  if (g.target_step <= t.target) return "a target that is not above the one before";
  if (g.trial.promotions.size() != ++t.promotions) return "other promotions";
  if (g.trial.promotions.back().ask_index != asks) return "a promotion with another ask index";
  t.target = g.target_step;
  return "";
}

std::string NaiveModel::EndBatch() {
  for (const Waiting& w : waiting_) {
    if (waiting_.size() <= 16 && !TokenOf(w).ok()) return "an ask waits on though its token has ended";
    if (w.op.deadline <= now_) return absl::StrCat("an ask of worker ", w.op.worker, " waits beyond its deadline");
    for (const storage::StudyKey key : Candidates(w)) {
      if (!options_.late_suggestions && CanServe(studies_[key], w, 0)) {
        return absl::StrCat("worker ", w.op.worker, " waits though study ", studies_[key].id, " has trials to give");
      }
    }
  }
  return "";
}

void NaiveModel::RollBack(const std::vector<storage::StudyKey>& studies, const std::vector<int>& answered) {
  for (const storage::StudyKey key : studies) {
    const auto saved = saved_studies_.find(key);
    if (saved == saved_studies_.end()) {
      studies_.erase(key);
      continue;
    }
    Study& s = studies_[key] = saved->second;
    s.last_turn = 0;
    for (auto& [number, t] : s.trials) {
      t.deadline = now_ + t.ttl;
      t.seen_expired = false;
      t.eligible_since = now_;
    }
  }
  last_key_ = saved_last_key_;
  requests_ = saved_requests_;
  stopped_ = saved_stopped_;
  std::erase_if(waiting_, [&](const Waiting& w) {
    return std::find(answered.begin(), answered.end(), w.handle) != answered.end();
  });
}

}  // namespace luthier::coordinator::testing
