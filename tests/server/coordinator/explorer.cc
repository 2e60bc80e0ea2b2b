#include "tests/server/coordinator/explorer.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {
namespace {

constexpr char kStudy[] = "s";
constexpr std::array<const char*, 2> kWorkers = {"a", "b"};
const absl::Duration kTtl = absl::Seconds(10);

// What becomes of a request that reaches the coordinator.
enum class Fate : uint8_t { kAnswered, kReplyLost, kCommitFails };
enum class Verb : uint8_t { kAsk, kSend, kDeliver, kHeartbeat, kWorkerCrash, kTime, kRestart };
enum class Content : uint8_t { kComplete, kRelease, kInfra, kPause };

struct Action {
  Verb verb = Verb::kAsk;
  uint8_t who = 0;  // Worker; kDeliver: index of the message.
  Fate fate = Fate::kAnswered;
  Content content = Content::kComplete;
};

std::string Name(const Action& a) {
  static constexpr std::array<const char*, 3> kFates = {"", ", reply lost", ", commit fails"};
  static constexpr std::array<const char*, 4> kContents = {"complete", "release", "fail(INFRA)", "pause"};
  const char* fate = kFates[static_cast<size_t>(a.fate)];
  switch (a.verb) {
    case Verb::kAsk:
      return absl::StrCat(kWorkers[a.who], " asks", fate);
    case Verb::kSend:
      return absl::StrCat(kWorkers[a.who], " sends ", kContents[static_cast<size_t>(a.content)]);
    case Verb::kDeliver:
      return absl::StrCat("message ", a.who, " arrives", fate);
    case Verb::kHeartbeat:
      return absl::StrCat(kWorkers[a.who], " beats");
    case Verb::kWorkerCrash:
      return absl::StrCat(kWorkers[a.who], " crashes");
    case Verb::kTime:
      return "time passes";
    case Verb::kRestart:
      return "the coordinator restarts";
  }
  return "";
}

// A message that ends a grant. Sent once, delivered any number of times.
struct Message {
  Grant grant;
  Content content = Content::kComplete;
  int worker = 0;
  std::optional<absl::StatusOr<FinishReply>> first;  // Answer to its first delivery that was not undone.
};

struct Worker {
  enum Status { kIdle, kAsking, kHolding, kFinishing } status = kIdle;
  int asks = 0;      // Request ids used.
  Grant grant;       // kHolding, kFinishing.
  int message = -1;  // kFinishing.
};

class World {
 public:
  explicit World(const ExplorerOptions& options)
      : options_(options), harness_(Harness::DefaultOptions(), [](const study::StudySpec& s) {
          return s.resource ? std::make_unique<RungDesigner>(s) : suggest::CreateDesigner(s);
        }) {
    // As small as can be: it is copied in every batch.
    study::StudySpec spec;
    study::ParameterSpec x;
    x.name = "x";
    x.domain = study::BoolSwitch{};
    spec.space = study::SearchSpace::Create({x}).value();
    spec.metric.name = kMetric;
    spec.algorithm = study::RandomOptions{};
    if (options.parts) {
      const study::StudySpec parts = PartsSpec();
      spec.algorithm = parts.algorithm;
      spec.resource = parts.resource;
    }
    spec.budget.max_trials = options.trials;
    spec.lease.ttl = kTtl;
    spec.lease.max_attempts = options.max_attempts;
    const absl::StatusOr<StudyReply> created = harness_.Create(kStudy, spec);
    if (!created.ok())
      Violated("the study can't be created");
    else
      key_ = created->record.key;
  }

  const std::string& violation() const { return violation_; }

  std::vector<Action> Enabled() const {
    std::vector<Action> actions;
    const std::array<Fate, 3> fates = {Fate::kAnswered, Fate::kReplyLost, Fate::kCommitFails};
    for (uint8_t w = 0; w < 2; ++w) {
      const Worker& worker = workers_[w];
      if (worker.status == Worker::kIdle || worker.status == Worker::kAsking) {
        for (const Fate fate : fates) actions.push_back({Verb::kAsk, w, fate, {}});
      }
      if (worker.status == Worker::kHolding) {
        actions.push_back({Verb::kSend, w, {}, options_.parts ? Content::kPause : Content::kComplete});
        if (releases_ < options_.releases) actions.push_back({Verb::kSend, w, {}, Content::kRelease});
        if (infra_ < options_.infra_failures) actions.push_back({Verb::kSend, w, {}, Content::kInfra});
      }
      if (worker.status == Worker::kHolding || worker.status == Worker::kFinishing) {
        actions.push_back({Verb::kHeartbeat, w, {}, {}});
      }
      if (worker.status != Worker::kIdle && crashes_ < options_.worker_crashes) {
        actions.push_back({Verb::kWorkerCrash, w, {}, {}});
      }
    }
    for (uint8_t m = 0; m < messages_.size(); ++m) {
      const bool awaited = Awaited(m);
      if (!awaited && messages_[m].first) continue;  // Probe() delivers it once more in each state.
      actions.push_back({Verb::kDeliver, m, Fate::kAnswered, {}});
      if (awaited && !messages_[m].first) actions.push_back({Verb::kDeliver, m, Fate::kReplyLost, {}});
      if (!messages_[m].first) actions.push_back({Verb::kDeliver, m, Fate::kCommitFails, {}});
    }
    if (NextDeadline() < absl::InfiniteDuration()) actions.push_back({Verb::kTime, 0, {}, {}});
    actions.push_back({Verb::kRestart, 0, {}, {}});
    return actions;
  }

  void Do(const Action& action) {
    switch (action.verb) {
      case Verb::kAsk:
        return Ask(workers_[action.who], kWorkers[action.who], action.fate);
      case Verb::kSend:
        return Send(action.who, action.content);
      case Verb::kDeliver:
        return Deliver(action.who, action.fate);
      case Verb::kHeartbeat:
        return Beat(workers_[action.who], kWorkers[action.who]);
      case Verb::kWorkerCrash:
        ++crashes_;
        workers_[action.who].status = Worker::kIdle;
        ++workers_[action.who].asks;
        return;
      case Verb::kTime:
        harness_.Pass(NextDeadline() - harness_.clock.Monotonic());
        return NoteRows();
      case Verb::kRestart:
        return Restart();
    }
  }

  // Everything that matters for what can happen next.
  std::string State() const { return std::min(State(0), State(1)); }

  // Invariants, and what must hold for each message again. Does not change the state.
  void Check() {
    const absl::Status status = harness_.core->CheckInvariants();
    if (!status.ok()) return Violated(std::string(status.message()));
    if (static_cast<int>(rows_.size()) > options_.trials) return Violated("more rows than max_trials (I1)");
    const std::string before = State();
    for (Message& message : messages_) {
      if (!message.first) continue;
      const absl::StatusOr<FinishReply> again = Finish(message);
      NoteRows();
      // Refused stays refused; whether the trial is lost or final by now is all that may differ.
      if (again.ok() != message.first->ok()) return Violated("a repeated message got another answer");
      if (again.ok() && (again->state != (*message.first)->state || again->seq != (*message.first)->seq)) {
        return Violated("a repeated message got another reply");
      }
    }
    if (State() != before) return Violated("a repeated message changed the state");
  }

  // I10. Ends this world.
  void FinishAll() {
    for (int i = 0; i < 60; ++i) {
      const absl::StatusOr<SuggestReply> reply = AskOnce("healthy", "");
      if (!reply.ok()) return Violated("a healthy worker is refused");
      if (reply->study_done) break;
      for (const Grant& grant : reply->grants) {
        const bool paused = grant.target_step > 0;
        const auto told = paused ? harness_.Pause(grant, Loss(Value(grant), grant.target_step))
                                 : harness_.Complete(grant, Loss(Value(grant)));
        if (!told.ok()) return Violated("a healthy worker's result is refused");
      }
      if (reply->grants.empty()) {
        if (NextDeadline() == absl::InfiniteDuration()) return Violated("nothing to do, yet the study is not done");
        harness_.Pass(NextDeadline() - harness_.clock.Monotonic());
      }
    }
    NoteRows();
    const storage::StudyRecord record = harness_.Study(kStudy);
    if (record.state != study::StudyState::kCompleted)
      return Violated("one healthy worker can't finish the study (I10)");
    for (const storage::TrialRecord& row : rows_) {
      if (!study::IsFinal(row.trial.state)) return Violated("a trial stays open for ever (I10)");
      if (options_.parts && row.trial.state == study::TrialState::kPruned) return Violated("a trial was not promoted");
    }
  }

 private:
  void Violated(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  static double Value(const Grant& grant) { return 100.0 * static_cast<double>(grant.trial.number) + grant.attempt; }

  bool Awaited(size_t m) const {
    const Worker& w = workers_[static_cast<size_t>(messages_[m].worker)];
    return w.status == Worker::kFinishing && w.message == static_cast<int>(m);
  }

  absl::Duration NextDeadline() const {
    absl::Duration next = absl::InfiniteDuration();
    for (const storage::TrialRecord& row : rows_) {
      if (row.trial.state != study::TrialState::kRunning) continue;
      const std::optional<absl::Duration> deadline = harness_.leases->Deadline(row.grants.back().token);
      if (deadline && *deadline > harness_.clock.Monotonic()) next = std::min(next, *deadline);
    }
    return next;
  }

  void FailNextCommit() {
    harness_.storage.FailNextCommit(
        base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full"));
  }

  // A designer that looks at history answers the next ask.
  absl::StatusOr<SuggestReply> AskOnce(const std::string& name, const std::string& request) {
    absl::StatusOr<SuggestReply> reply = harness_.Suggest(kStudy, name, 1, request);
    if (options_.parts && reply.ok() && reply->grants.empty()) reply = harness_.Suggest(kStudy, name, 1, request);
    return reply;
  }

  void Ask(Worker& worker, const std::string& name, Fate fate) {
    const std::string request = absl::StrCat(name, worker.asks);
    const int64_t commits = harness_.storage.commits();
    if (fate == Fate::kCommitFails) FailNextCommit();
    const absl::StatusOr<SuggestReply> reply = AskOnce(name, request);
    last_asked_[name == kWorkers[0] ? 0 : 1] = harness_.clock.Monotonic();
    if (fate == Fate::kCommitFails) {
      if (harness_.storage.commits() == commits)
        FailCommitOfSomethingElse();
      else if (reply.ok())
        Violated("OK before the commit");
      NoteRows();
      worker.status = Worker::kAsking;
      return;
    }
    if (!reply.ok()) return Violated(absl::StrCat("an ask is refused: ", std::string(reply.status().message())));
    NoteRows();
    worker.status = Worker::kAsking;
    if (!reply->grants.empty()) {
      const auto [place, fresh] = granted_.emplace(request, reply->grants[0].token);
      if (!fresh && place->second != reply->grants[0].token) return Violated("one request got two grants (I8)");
    } else if (granted_.count(request) > 0) {
      return Violated("a request that was granted a trial got none when repeated (I8)");
    }
    if (fate == Fate::kReplyLost) return;
    worker.status = Worker::kIdle;
    if (reply->grants.empty()) return;
    ++worker.asks;
    worker.status = Worker::kHolding;
    worker.grant = reply->grants[0];
  }

  // The armed failure must not hit a later action.
  void FailCommitOfSomethingElse() {
    while (true) {
      const int64_t commits = harness_.storage.commits();
      (void)harness_.storage.Commit({});
      if (harness_.storage.commits() > commits) return;
    }
  }

  void Send(int w, Content content) {
    Worker& worker = workers_[static_cast<size_t>(w)];
    Message message;
    message.grant = worker.grant;
    message.content = content;
    message.worker = w;
    worker.status = Worker::kFinishing;
    worker.message = static_cast<int>(messages_.size());
    messages_.push_back(std::move(message));
    if (content == Content::kRelease) ++releases_;
    if (content == Content::kInfra) ++infra_;
  }

  absl::StatusOr<FinishReply> Finish(const Message& m) {
    switch (m.content) {
      case Content::kComplete:
        return harness_.Complete(m.grant, Loss(Value(m.grant)));
      case Content::kRelease:
        return harness_.Release(m.grant);
      case Content::kInfra:
        return harness_.Fail(m.grant, MakeFailure(study::FailureKind::kInfra));
      case Content::kPause:
        return harness_.Pause(m.grant, Loss(Value(m.grant), m.grant.target_step));
    }
    return absl::InternalError("");
  }

  void Deliver(size_t m, Fate fate) {
    Message& message = messages_[m];
    const int64_t commits = harness_.storage.commits();
    if (fate == Fate::kCommitFails) FailNextCommit();
    const absl::StatusOr<FinishReply> reply = Finish(message);
    NoteRows();
    if (fate == Fate::kCommitFails) {
      if (harness_.storage.commits() == commits)
        FailCommitOfSomethingElse();
      else if (reply.ok())
        Violated("OK before the commit");
      return;
    }
    const bool holds = workers_[static_cast<size_t>(message.worker)].status == Worker::kFinishing;
    if (!reply.ok() && base::GetReason(reply.status()) != base::reason::kLeaseLost &&
        base::GetReason(reply.status()) != base::reason::kTrialFinal) {
      return Violated(absl::StrCat("a result is refused: ", std::string(reply.status().message())));
    }
    if (!message.first) message.first = reply;
    if (fate == Fate::kAnswered && holds && Awaited(m)) {
      workers_[static_cast<size_t>(message.worker)].status = Worker::kIdle;
    }
  }

  void Beat(Worker& worker, const std::string& name) {
    const std::vector<Directive> directives = harness_.Heartbeat(name, {worker.grant.token});
    NoteRows();
    const storage::TrialRecord& row = rows_[static_cast<size_t>(worker.grant.trial.number - 1)];
    const bool newest = row.trial.state == study::TrialState::kRunning && row.grants.back().token == worker.grant.token;
    if (directives != std::vector<Directive>{newest ? Directive::kContinue : Directive::kLost}) {
      return Violated("a heartbeat got the wrong directive");
    }
    if (!newest) worker.status = Worker::kIdle;
  }

  void Restart() {
    harness_.Restart();
    last_asked_ = {absl::InfinitePast() - absl::UnixEpoch(), absl::InfinitePast() - absl::UnixEpoch()};
    NoteRows();
    for (const storage::TrialRecord& row : rows_) {
      if (row.trial.state == study::TrialState::kPending)
        eligible_since_[row.trial.number] = harness_.clock.Monotonic();
      if (row.trial.state != study::TrialState::kRunning) continue;
      const bool last = study::AttemptsUsed(row.trial) >= options_.max_attempts;
      if (harness_.leases->Deadline(row.grants.back().token) != harness_.clock.Monotonic() + kTtl * (last ? 10 : 1)) {
        Violated("a lease did not get a full TTL after a restart");
      }
    }
  }

  // Reads the committed rows and compares them with those before: what may never happen between two states.
  void NoteRows() {
    std::vector<storage::TrialRecord> rows = harness_.memory.ListTrials(key_, {}, 0, 1000).value();
    const absl::Duration now = harness_.clock.Monotonic();
    std::set<uint64_t> fences;  // Of new grants.
    for (size_t i = 0; i < rows.size(); ++i) {
      const storage::TrialRecord& row = rows[i];
      if (i < rows_.size() && study::IsFinal(rows_[i].trial.state) && !(row == rows_[i])) {
        Violated("a final row changed (I3)");
      }
      const size_t known = i < rows_.size() ? rows_[i].grants.size() : 0;
      for (size_t g = known; g < row.grants.size(); ++g) {
        if (!fences.insert(FenceOf(row.grants[g].token)).second) Violated("a fence was used twice (I5)");
      }
      if (row.trial.state == study::TrialState::kComplete &&
          row.trial.final_measurement->metrics.at(kMetric) !=
              100.0 * static_cast<double>(row.trial.number) + static_cast<double>(row.grants.size())) {
        Violated("a result is not that of the newest grant (I6)");
      }
      const bool was_open = i >= rows_.size() || rows_[i].trial.state != study::TrialState::kPending ||
                            rows_[i].grants.size() != row.grants.size();
      if (row.trial.state == study::TrialState::kPending && was_open) eligible_since_[row.trial.number] = now;
      if (row.trial.state == study::TrialState::kRunning) {
        const bool expired = harness_.leases->Expired(row.grants.back().token, now);
        if (expired && expired_.insert(row.grants.back().token).second) eligible_since_[row.trial.number] = now;
        if (!expired) expired_.erase(row.grants.back().token);
      }
    }
    if (!fences.empty() && *fences.begin() <= last_fence_) Violated("fences do not increase (I5)");
    if (!fences.empty()) last_fence_ = *fences.rbegin();
    rows_ = std::move(rows);
  }

  std::string State(int first_worker) const {
    const absl::Duration now = harness_.clock.Monotonic();
    const auto worker_name = [&](int w) { return (w + first_worker) % 2; };
    const auto index_of = [&](const std::string& name) {
      return name == kWorkers[0] ? worker_name(0) : worker_name(1);
    };
    const auto age = [&](absl::Duration since) {
      return absl::ToInt64Seconds(std::min(now - since, kTtl + absl::Seconds(1)));
    };
    std::string text = absl::StrCat(static_cast<int>(harness_.core->Studies().size()));
    for (const storage::TrialRecord& row : rows_) {
      absl::StrAppend(&text, "|", static_cast<int>(row.trial.state), ".", row.trial.releases, ".",
                      row.trial.promotions.size());
      if (study::IsFinal(row.trial.state)) {
        absl::StrAppend(&text, "f", row.grants.size());
        continue;
      }
      for (size_t g = 0; g < row.grants.size(); ++g) {
        absl::StrAppend(&text, ",", index_of(row.trial.attempts[g].worker), row.grants[g].digest.empty() ? "" : "e",
                        row.trial.attempts[g].outcome == study::AttemptOutcome::kPaused ? "p" : "");
      }
      if (row.trial.state == study::TrialState::kRunning) {
        const absl::Duration left = *harness_.leases->Deadline(row.grants.back().token) - now;
        absl::StrAppend(&text, ";", std::max<int64_t>(0, absl::ToInt64Seconds(left)));
      }
      const auto since = eligible_since_.find(row.trial.number);
      absl::StrAppend(&text, ";", since == eligible_since_.end() ? -1 : age(since->second));
    }
    std::array<std::string, 2> workers;
    for (int w = 0; w < 2; ++w) {
      const Worker& worker = workers_[static_cast<size_t>(w)];
      std::string& out = workers[static_cast<size_t>(worker_name(w))];
      out = absl::StrCat("|", static_cast<int>(worker.status), "@", age(last_asked_[static_cast<size_t>(w)]));
      if (worker.status == Worker::kAsking) {
        const auto granted = granted_.find(absl::StrCat(kWorkers[static_cast<size_t>(w)], worker.asks));
        if (granted != granted_.end()) {
          for (const storage::TrialRecord& row : rows_) {
            for (size_t g = 0; g < row.grants.size(); ++g) {
              if (row.grants[g].token == granted->second) absl::StrAppend(&out, "g", row.trial.number, ".", g);
            }
          }
        }
      } else if (worker.status != Worker::kIdle) {
        absl::StrAppend(&out, worker.grant.trial.number, ".", worker.grant.attempt);
      }
    }
    absl::StrAppend(&text, workers[0], workers[1], "|", crashes_, releases_, infra_);
    std::set<std::string> network;
    for (size_t m = 0; m < messages_.size(); ++m) {
      const Message& message = messages_[m];
      if (!Awaited(m) && message.first) continue;
      network.insert(absl::StrCat(message.grant.trial.number, ".", message.grant.attempt, ".",
                                  static_cast<int>(message.content), message.first ? "d" : "", Awaited(m) ? "a" : ""));
    }
    for (const std::string& message : network) absl::StrAppend(&text, "|", message);
    return text;
  }

  const ExplorerOptions options_;
  Harness harness_;
  storage::StudyKey key_ = 0;
  std::array<Worker, 2> workers_;
  std::vector<Message> messages_;
  int crashes_ = 0;
  int releases_ = 0;
  int infra_ = 0;
  std::map<std::string, std::string> granted_;  // Request id -> token.
  std::vector<storage::TrialRecord> rows_;
  uint64_t last_fence_ = 0;
  std::set<std::string> expired_;
  std::map<int64_t, absl::Duration> eligible_since_;
  std::array<absl::Duration, 2> last_asked_{-absl::InfiniteDuration(), -absl::InfiniteDuration()};
  std::string violation_;
};

}  // namespace

ExplorerReport Explore(const ExplorerOptions& options) {
  struct Node {
    int parent = -1;
    Action action;
    int depth = 0;
  };
  ExplorerReport report;
  std::vector<Node> nodes;
  std::unordered_set<uint64_t> seen;  // Hashes: 64 bits are enough for a few million states.
  const auto path_to = [&](int node) {
    std::vector<Action> path;
    for (; nodes[static_cast<size_t>(node)].parent >= 0; node = nodes[static_cast<size_t>(node)].parent) {
      path.push_back(nodes[static_cast<size_t>(node)].action);
    }
    std::reverse(path.begin(), path.end());
    return path;
  };
  const auto arrive = [&](const std::vector<Action>& path) {
    auto world = std::make_unique<World>(options);
    for (const Action& action : path) world->Do(action);
    return world;
  };
  const auto violated = [&](const std::string& what, const std::vector<Action>& path) {
    report.violation = what;
    for (const Action& action : path) absl::StrAppend(&report.violation, "\n  ", Name(action));
    return report;
  };

  nodes.push_back({});
  seen.insert(base::Hash64(World(options).State()));
  for (size_t next = 0; next < nodes.size(); ++next) {
    const std::vector<Action> path = path_to(static_cast<int>(next));
    const std::unique_ptr<World> here = arrive(path);
    const std::vector<Action> enabled = here->Enabled();
    here->Check();
    if (here->violation().empty()) here->FinishAll();
    if (!here->violation().empty()) return violated(here->violation(), path);
    for (const Action& action : enabled) {
      ++report.transitions;
      const std::unique_ptr<World> there = arrive(path);
      there->Do(action);
      if (!there->violation().empty()) {
        std::vector<Action> longer = path;
        longer.push_back(action);
        return violated(there->violation(), longer);
      }
      if (!seen.insert(base::Hash64(there->State())).second) continue;
      nodes.push_back({static_cast<int>(next), action, nodes[next].depth + 1});
    }
    report.states = static_cast<int64_t>(next) + 1;
    report.max_depth = nodes[next].depth;
    if (report.states >= options.max_states) return report;
  }
  report.complete = true;
  return report;
}

}  // namespace luthier::coordinator::testing
