#include "tests/server/coordinator/harness.h"

#include <utility>
#include <variant>

#include "lib/base/check.h"
#include "lib/search/registry.h"

namespace luthier::coordinator::testing {

study::StudySpec MakeSpec(int64_t max_trials) {
  study::StudySpec spec;
  study::ParameterSpec x;
  x.name = "x";
  x.domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  study::ParameterSpec n;
  n.name = "n";
  n.domain = study::IntRange{0, 9, 1, study::Scale::kLinear};
  spec.space = study::SearchSpace::Create({x, n}).value();
  spec.metric = {kMetric, study::Goal::kMinimize};
  spec.algorithm = study::RandomOptions{};
  study::CommandObjective command;
  command.argv = {"train"};
  spec.objective = command;
  spec.budget.max_trials = max_trials;
  spec.seed = 7;
  return spec;
}

study::StudySpec BoSpec(int64_t max_trials, int initial_points) {
  study::StudySpec spec = MakeSpec(max_trials);
  study::BoOptions bo;
  bo.initial_points = initial_points;
  spec.algorithm = bo;
  return spec;
}

study::Measurement Loss(double value, int64_t step) {
  study::Measurement m;
  m.step = step;
  m.metrics[kMetric] = value;
  return m;
}

study::Failure MakeFailure(study::FailureKind kind, const std::string& reason, const std::string& message) {
  study::Failure failure;
  failure.kind = kind;
  failure.reason = reason;
  failure.message = message;
  return failure;
}

FinishOp MakeFinish(const Grant& grant, std::variant<CompleteContent, study::Failure, ReleaseContent> content) {
  FinishOp op;
  op.id = grant.study_id;
  op.number = grant.trial.number;
  op.token = grant.token;
  op.content = std::move(content);
  return op;
}

SuggestOp MakeSuggest(const std::string& id, const std::string& worker, int count, const std::string& request_id) {
  SuggestOp op;
  op.id = id;
  op.worker = worker;
  op.count = count;
  op.request_id = request_id;
  op.deadline = absl::ZeroDuration();  // Passed already: answered within the batch.
  return op;
}

Core::Options Harness::DefaultOptions() {
  Core::Options options;
  options.token_seed = 1;
  options.stall = absl::InfiniteDuration();
  options.suggest_deadline = absl::InfiniteDuration();
  return options;
}

Harness::Harness(Core::Options options, DesignerFactory designers)
    : options_(options), designers_(std::move(designers)) {
  Restart();
}

void Harness::Restart() {
  core.reset();
  leases = std::make_unique<LeaseTable>();
  inline_proposer_ = std::make_unique<Proposer>(&storage, designers_);
  proposer_ = std::make_unique<Proposer>(&storage, designers_);
  tasks_.clear();
  core = std::make_unique<Core>(&storage, &clock, leases.get(), options_);
  LUTHIER_CHECK(core->Load().ok());
}

absl::Status Harness::Batch(std::vector<Operation> operations, const Permits& permits) {
  const absl::Status status = OneBatch(std::move(operations), permits);
  while (!late_suggestions) {
    std::optional<ProposalsOp> proposals = ComputeOne();
    if (!proposals) break;
    std::vector<Operation> next;
    next.push_back(*std::move(proposals));
    if (!OneBatch(std::move(next), {}).ok()) break;
  }
  return status;
}

absl::Status Harness::OneBatch(std::vector<Operation> operations, const Permits& permits) {
  core->BeginBatch();
  for (size_t i = 0; i < operations.size(); ++i) {
    core->Apply(std::move(operations[i]), permits.empty() ? nullptr : permits[i]);
  }
  const auto at_once = [&](storage::StudyKey key) {
    const auto spec = core->SpecOf(key);
    return !late_suggestions && !UsesHistory(*spec);
  };
  while (true) {
    core->ServeWaiting();
    const std::vector<ProposalRequest> requests = core->TakeProposalRequests(at_once);
    if (requests.empty()) break;
    for (const ProposalRequest& r : requests) core->Apply(inline_proposer_->Propose(r, core->SpecOf(r.study)));
  }
  const storage::WriteBatch& batch = core->Seal();
  last_batch_studies.clear();
  for (const storage::Mutation& mutation : batch) {
    if (const auto* put = std::get_if<storage::PutStudy>(&mutation)) last_batch_studies.push_back(put->record.key);
    if (const auto* gone = std::get_if<storage::DeleteStudy>(&mutation)) last_batch_studies.push_back(gone->key);
  }
  const absl::Status status = batch.empty() ? absl::OkStatus() : storage.Commit(batch);
  if (before_answers) before_answers(!batch.empty());
  LUTHIER_CHECK(core->EndBatch(status).ok());
  for (const storage::StudyKey key : core->TakeInvalidated()) {
    inline_proposer_->Forget(key);
    tasks_.push_back({std::nullopt, key, std::nullopt, nullptr});
  }
  for (HistoryUpdate& update : core->TakeHistoryUpdates()) tasks_.push_back({std::move(update), {}, {}, nullptr});
  for (const ProposalRequest& request : core->TakeProposalRequests([](storage::StudyKey) { return true; })) {
    tasks_.push_back({{}, {}, request, core->SpecOf(request.study)});
  }
  const std::vector<storage::Event> events = core->TakeEvents();
  if (on_events) on_events(events);
  return status;
}

std::optional<ProposalsOp> Harness::ComputeOne() {
  while (!tasks_.empty()) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    if (task.update) proposer_->Update(*task.update);
    if (task.forget) proposer_->Forget(*task.forget);
    if (task.request) return proposer_->Propose(*task.request, task.spec);
  }
  return std::nullopt;
}

void Harness::Pass(absl::Duration by) {
  clock.Advance(by);
  LUTHIER_CHECK(Batch().ok());
}

namespace {

template <typename Op, typename Reply>
absl::StatusOr<Reply> RunOne(Harness& harness, Op op, Answered<Reply> answered) {
  op.done = answered.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  (void)harness.Batch(std::move(operations));
  LUTHIER_CHECK(answered.times() == 1);
  return answered.get();
}

}  // namespace

absl::StatusOr<StudyReply> Harness::Create(const std::string& id, const study::StudySpec& spec) {
  return RunOne(*this, CreateStudyOp{id, spec, "user", {}}, Answered<StudyReply>());
}

absl::StatusOr<StudyReply> Harness::Control(const std::string& id, coordinator::Control control,
                                            const std::string& request_id) {
  return RunOne(*this, ControlOp{id, control, request_id, "user", {}}, Answered<StudyReply>());
}

absl::StatusOr<EnqueueReply> Harness::Enqueue(const std::string& id, std::vector<NewTrial> trials,
                                              const std::string& request_id) {
  return RunOne(*this, EnqueueOp{id, std::move(trials), request_id, "user", {}}, Answered<EnqueueReply>());
}

absl::StatusOr<StudyReply> Harness::Update(const std::string& id, study::SpecChange change,
                                           const std::string& request_id) {
  UpdateStudyOp op;
  op.id = id;
  op.change = std::move(change);
  op.content = op.change.max_trials ? absl::StrCat("max_trials ", *op.change.max_trials) : "another";
  op.request_id = request_id;
  op.actor = "user";
  return RunOne(*this, std::move(op), Answered<StudyReply>());
}

absl::StatusOr<ImportReply> Harness::Import(const std::string& id, std::vector<ImportedTrial> trials,
                                            const std::string& request_id) {
  return RunOne(*this, ImportOp{id, std::move(trials), request_id, "user", {}}, Answered<ImportReply>());
}

absl::StatusOr<EnqueueReply> Harness::Retry(const std::string& id, std::vector<int64_t> numbers,
                                            const std::string& request_id) {
  return RunOne(*this, RetryOp{id, std::move(numbers), 1000, request_id, "user", {}}, Answered<EnqueueReply>());
}

absl::StatusOr<TrialReply> Harness::DeleteTrial(const std::string& id, int64_t number) {
  return RunOne(*this, DeleteTrialOp{id, number, "user", {}}, Answered<TrialReply>());
}

absl::StatusOr<TrialReply> Harness::SetAttributes(const std::string& id, int64_t number,
                                                  std::map<std::string, std::string> attributes) {
  return RunOne(*this, SetAttributesOp{id, number, std::move(attributes), "user", {}}, Answered<TrialReply>());
}

absl::StatusOr<TrialReply> Harness::CancelTrial(const std::string& id, int64_t number) {
  return RunOne(*this, CancelTrialOp{id, number, "user", {}}, Answered<TrialReply>());
}

absl::StatusOr<TrialReply> Harness::StopTrial(const std::string& id, int64_t number) {
  return RunOne(*this, StopTrialOp{id, number, "user", {}}, Answered<TrialReply>());
}

absl::StatusOr<SuggestReply> Harness::Suggest(const std::string& id, const std::string& worker, int count,
                                              const std::string& request_id) {
  return RunOne(*this, MakeSuggest(id, worker, count, request_id), Answered<SuggestReply>());
}

Answered<SuggestReply> Harness::Ask(const std::string& id, const std::string& worker, int count,
                                    absl::Duration patience, const std::string& request_id) {
  SuggestOp op = MakeSuggest(id, worker, count, request_id);
  op.deadline = clock.Monotonic() + patience;
  return Ask(std::move(op));
}

Answered<SuggestReply> Harness::Ask(SuggestOp op) {
  Answered<SuggestReply> answered;
  op.done = answered.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  (void)Batch(std::move(operations));
  return answered;
}

absl::StatusOr<ReportReply> Harness::Report(const Grant& grant, std::vector<study::Measurement> points,
                                            const std::string& checkpoint) {
  ReportOp op;
  op.id = grant.study_id;
  op.number = grant.trial.number;
  op.token = grant.token;
  op.measurements = std::move(points);
  op.checkpoint = checkpoint;
  return RunOne(*this, std::move(op), Answered<ReportReply>());
}

absl::StatusOr<FinishReply> Harness::Complete(const Grant& grant, const study::Measurement& measurement, bool pruned) {
  return RunOne(*this, MakeFinish(grant, CompleteContent{measurement, pruned, ""}), Answered<FinishReply>());
}

absl::StatusOr<FinishReply> Harness::Pause(const Grant& grant, const study::Measurement& measurement,
                                           const std::string& checkpoint) {
  CompleteContent content;
  content.measurement = measurement;
  content.paused = true;
  FinishOp op = MakeFinish(grant, std::move(content));
  op.checkpoint = checkpoint;
  return RunOne(*this, std::move(op), Answered<FinishReply>());
}

absl::StatusOr<FinishReply> Harness::Fail(const Grant& grant, const study::Failure& failure) {
  return RunOne(*this, MakeFinish(grant, failure), Answered<FinishReply>());
}

absl::StatusOr<FinishReply> Harness::Release(const Grant& grant, const std::string& checkpoint) {
  FinishOp op = MakeFinish(grant, ReleaseContent{});
  op.checkpoint = checkpoint;
  return RunOne(*this, std::move(op), Answered<FinishReply>());
}

std::vector<study::Directive> Harness::Heartbeat(const std::string& worker, const std::vector<std::string>& tokens) {
  LeaseTable::Renewal renewal = leases->Renew(tokens, clock.Monotonic(), /*take_back=*/false);
  if (!renewal.any_expired) return renewal.directives;
  const absl::StatusOr<HeartbeatReply> reply =
      RunOne(*this, HeartbeatOp{worker, tokens, {}}, Answered<HeartbeatReply>());
  return reply.ok() ? reply->directives : std::vector<study::Directive>();
}

Grant Harness::Get(const std::string& id, const std::string& worker) {
  absl::StatusOr<SuggestReply> reply = Suggest(id, worker);
  // A designer that looks at history is a batch late.
  if (reply.ok() && reply->grants.empty()) reply = Suggest(id, worker);
  LUTHIER_CHECK(reply.ok() && reply->grants.size() == 1);
  return reply->grants[0];
}

storage::StudyRecord Harness::Study(const std::string& id) {
  return memory.GetStudy(id).value();
}

storage::TrialRecord Harness::Trial(const std::string& id, int64_t number) {
  return memory.GetTrial(Study(id).key, number).value();
}

std::vector<storage::TrialRecord> Harness::Rows(const std::string& id) {
  return memory.ListTrials(Study(id).key, {}, 0, 1'000'000).value();
}

std::vector<storage::Event> Harness::Events(const std::string& id) {
  return memory.ListEvents(Study(id).key, 0, 1'000'000).value();
}

std::vector<storage::Event> Harness::Events(const std::string& id, storage::EventType type) {
  std::vector<storage::Event> events = Events(id);
  std::erase_if(events, [&](const storage::Event& event) { return event.type != type; });
  return events;
}

}  // namespace luthier::coordinator::testing
