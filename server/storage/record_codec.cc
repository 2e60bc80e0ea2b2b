#include "server/storage/record_codec.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <map>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/wire/convert.h"
#include "lib/wire/old_options.h"
#include "luthier/storage/record.pb.h"
#include "server/storage/rules.h"

namespace luthier::storage {
namespace {

constexpr int64_t kPast = std::numeric_limits<int64_t>::min();
constexpr int64_t kFuture = std::numeric_limits<int64_t>::max();

absl::Status Unreadable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the database holds a ", what, " that can't be read; restore a backup"));
}

using NamedNumbers = google::protobuf::RepeatedPtrField<record::NamedNumber>;

void Encode(const std::map<std::string, double>& numbers, NamedNumbers* out) {
  out->Reserve(static_cast<int>(numbers.size()));
  for (const auto& [name, value] : numbers) {
    record::NamedNumber* number = out->Add();
    number->set_name(name);
    number->set_value(value);
  }
}

std::map<std::string, double> Decode(const NamedNumbers& numbers) {
  std::map<std::string, double> out;
  for (const record::NamedNumber& number : numbers) out.emplace_hint(out.end(), number.name(), number.value());
  return out;
}

void Encode(const study::Gradient& gradient, record::Gradient* out) {
  out->mutable_values()->Add(gradient.values.begin(), gradient.values.end());
  out->mutable_direction()->Add(gradient.direction.begin(), gradient.direction.end());
  out->set_slope(gradient.slope);
  if (gradient.error_bound) out->set_error_bound(*gradient.error_bound);
  if (!gradient.solve) return;
  const study::ImplicitSolve& solve = *gradient.solve;
  record::ImplicitSolve* out_solve = out->mutable_solve();
  out_solve->set_tolerance(solve.tolerance);
  out_solve->set_inner_gradient_norm(solve.inner_gradient_norm);
  out_solve->set_residual(solve.residual);
  out_solve->set_outer_gradient_norm(solve.outer_gradient_norm);
  out_solve->set_strong_convexity(solve.strong_convexity);
  if (solve.log_error_bound) out_solve->set_log_error_bound(*solve.log_error_bound);
  out_solve->set_certified(solve.certified);
}

study::Gradient Decode(const record::Gradient& in) {
  study::Gradient gradient;
  gradient.values.assign(in.values().begin(), in.values().end());
  gradient.direction.assign(in.direction().begin(), in.direction().end());
  gradient.slope = in.slope();
  if (in.has_error_bound()) gradient.error_bound = in.error_bound();
  if (!in.has_solve()) return gradient;
  const record::ImplicitSolve& from = in.solve();
  study::ImplicitSolve& solve = gradient.solve.emplace();
  solve.tolerance = from.tolerance();
  solve.inner_gradient_norm = from.inner_gradient_norm();
  solve.residual = from.residual();
  solve.outer_gradient_norm = from.outer_gradient_norm();
  solve.strong_convexity = from.strong_convexity();
  if (from.has_log_error_bound()) solve.log_error_bound = from.log_error_bound();
  solve.certified = from.certified();
  return gradient;
}

void Encode(const study::Measurement& measurement, record::Measurement* out) {
  out->set_step(measurement.step);
  Encode(measurement.metrics, out->mutable_metrics());
  if (measurement.elapsed_seconds) out->set_elapsed_seconds(*measurement.elapsed_seconds);
  if (measurement.training) {
    record::Training* training = out->mutable_training();
    training->set_outcome(wire::ToProto(measurement.training->outcome));
    if (measurement.training->gradient_norm) training->set_gradient_norm(*measurement.training->gradient_norm);
    if (measurement.training->duality_gap) training->set_duality_gap(*measurement.training->duality_gap);
  }
  if (measurement.gradient_seconds) out->set_gradient_seconds(*measurement.gradient_seconds);
  Encode(measurement.standard_errors, out->mutable_standard_errors());
  if (measurement.gradient) Encode(*measurement.gradient, out->mutable_gradient());
  for (const auto& [name, gradient] : measurement.gradients) {
    record::NamedGradient* const named = out->add_gradients();
    named->set_name(name);
    Encode(gradient, named->mutable_gradient());
  }
}

absl::StatusOr<study::TrainingOutcome> OutcomeOf(const record::Training& in) {
  return wire::FromProto(static_cast<v1::Training::Outcome>(in.outcome()));
}

// The outcome of `in` must be a known one.
study::Measurement Decode(const record::Measurement& in) {
  study::Measurement measurement;
  measurement.step = in.step();
  measurement.metrics = Decode(in.metrics());
  if (in.has_elapsed_seconds()) measurement.elapsed_seconds = in.elapsed_seconds();
  if (in.has_gradient()) measurement.gradient = Decode(in.gradient());
  for (const record::NamedGradient& named : in.gradients()) {
    measurement.gradients.emplace(named.name(), Decode(named.gradient()));
  }
  if (in.has_training()) {
    study::TrainingReport& training = measurement.training.emplace();
    training.outcome = *OutcomeOf(in.training());
    if (in.training().has_gradient_norm()) training.gradient_norm = in.training().gradient_norm();
    if (in.training().has_duality_gap()) training.duality_gap = in.training().duality_gap();
  }
  if (in.has_gradient_seconds()) measurement.gradient_seconds = in.gradient_seconds();
  measurement.standard_errors = Decode(in.standard_errors());
  return measurement;
}

void Encode(const study::Failure& failure, record::Failure* out) {
  out->set_kind(static_cast<int32_t>(failure.kind));
  out->set_reason(failure.reason);
  out->set_message(failure.message);
}

study::Failure Decode(const record::Failure& in) {
  return {static_cast<study::FailureKind>(in.kind()), in.reason(), in.message()};
}

void Encode(const study::Provenance& provenance, record::Provenance* out) {
  out->set_designer(provenance.designer);
  out->set_algorithm_version(provenance.algorithm_version);
  if (provenance.ask_index) out->set_ask_index(*provenance.ask_index);
  out->set_prefix_seq(provenance.prefix_seq);
  out->set_origin(provenance.origin);
  Encode(provenance.details, out->mutable_details());
  out->set_carry(provenance.designer_state);
  out->mutable_direction()->Add(provenance.direction.begin(), provenance.direction.end());
  out->mutable_set_aside()->Add(provenance.set_aside.begin(), provenance.set_aside.end());
  out->set_resource(provenance.resource);
  out->set_warm_start(provenance.warm_start);
  if (provenance.tolerance) out->set_tolerance(*provenance.tolerance);
}

study::Provenance Decode(const record::Provenance& in) {
  study::Provenance provenance;
  provenance.designer = in.designer();
  provenance.algorithm_version = in.algorithm_version();
  if (in.has_ask_index()) provenance.ask_index = in.ask_index();
  provenance.prefix_seq = in.prefix_seq();
  provenance.origin = in.origin();
  provenance.details = Decode(in.details());
  provenance.designer_state = in.carry();
  provenance.direction.assign(in.direction().begin(), in.direction().end());
  provenance.set_aside.assign(in.set_aside().begin(), in.set_aside().end());
  provenance.resource = in.resource();
  provenance.warm_start = in.warm_start();
  if (in.has_tolerance()) provenance.tolerance = in.tolerance();
  return provenance;
}

void Encode(const study::Attempt& attempt, record::Attempt* out) {
  out->set_number(attempt.number);
  out->set_worker(attempt.worker);
  out->set_start_ns(TimeToNanos(attempt.start));
  out->set_end_ns(TimeToNanos(attempt.end));
  out->set_outcome(static_cast<int32_t>(attempt.outcome));
  if (attempt.failure) Encode(*attempt.failure, out->mutable_failure());
  out->set_output_tail(attempt.output_tail);
  out->set_start_step(attempt.start_step);
  out->set_last_step(attempt.last_step);
}

study::Attempt Decode(const record::Attempt& in) {
  study::Attempt attempt;
  attempt.number = in.number();
  attempt.worker = in.worker();
  attempt.start = TimeFromNanos(in.start_ns());
  attempt.end = TimeFromNanos(in.end_ns());
  attempt.outcome = static_cast<study::AttemptOutcome>(in.outcome());
  if (in.has_failure()) attempt.failure = Decode(in.failure());
  attempt.output_tail = in.output_tail();
  attempt.start_step = in.start_step();
  attempt.last_step = in.last_step();
  return attempt;
}

void Encode(const GrantRecord& grant, record::Grant* out) {
  out->set_token(grant.token);
  out->set_digest(grant.digest);
  out->set_reply_state(static_cast<int32_t>(grant.reply_state));
  for (const std::string& warning : grant.reply_warnings) out->add_reply_warnings(warning);
  out->set_reply_seq(grant.reply_seq);
  out->set_request_id(grant.request_id);
  out->set_uptime_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(grant.uptime)));
  out->set_end_uptime_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(grant.end_uptime)));
  out->set_checkpoint_step(grant.checkpoint_step);
}

GrantRecord Decode(const record::Grant& in) {
  GrantRecord grant;
  grant.token = in.token();
  grant.digest = in.digest();
  grant.reply_state = static_cast<study::TrialState>(in.reply_state());
  grant.reply_warnings.assign(in.reply_warnings().begin(), in.reply_warnings().end());
  grant.reply_seq = in.reply_seq();
  grant.request_id = in.request_id();
  grant.uptime = absl::Nanoseconds(static_cast<int64_t>(in.uptime_ns()));
  grant.end_uptime = absl::Nanoseconds(static_cast<int64_t>(in.end_uptime_ns()));
  grant.checkpoint_step = in.checkpoint_step();
  return grant;
}

void Encode(const std::string& name, const study::ParameterValue& value, record::Parameter* out) {
  out->set_name(name);
  if (const double* number = std::get_if<double>(&value)) {
    out->set_number(*number);
  } else if (const bool* flag = std::get_if<bool>(&value)) {
    out->set_flag(*flag);
  } else if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
    out->mutable_vector()->mutable_number()->Assign(vector->begin(), vector->end());
  } else {
    out->set_text(std::get<std::string>(value));
  }
}

study::ParameterValue Decode(const record::Parameter& in) {
  switch (in.value_case()) {
    case record::Parameter::kFlag:
      return in.flag();
    case record::Parameter::kText:
      return in.text();
    case record::Parameter::kVector:
      return std::vector<double>(in.vector().number().begin(), in.vector().number().end());
    case record::Parameter::kNumber:
    case record::Parameter::VALUE_NOT_SET:
      break;
  }
  return in.number();
}

// Enums index tables of names elsewhere, so damaged values must be found here.
template <typename E>
bool InRange(int32_t value, E last) {
  return value >= 0 && value <= static_cast<int32_t>(last);
}

bool EnumsInRange(const record::Measurement& in) {
  return !in.has_training() || OutcomeOf(in.training()).ok();
}

bool EnumsInRange(const record::Trial& in) {
  bool valid = !in.has_failure() || InRange(in.failure().kind(), study::FailureKind::kInfra);
  valid = valid && (!in.has_final_measurement() || EnumsInRange(in.final_measurement()));
  for (const record::Attempt& attempt : in.attempts()) {
    valid = valid && InRange(attempt.outcome(), study::AttemptOutcome::kPaused) &&
            (!attempt.has_failure() || InRange(attempt.failure().kind(), study::FailureKind::kInfra));
  }
  for (const record::Grant& grant : in.grants()) {
    valid = valid && InRange(grant.reply_state(), study::TrialState::kPaused);
  }
  return valid;
}

template <typename Message>
bool Parse(absl::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

constexpr size_t kBlockBytes = 8192;  // Bytes of the stack for the parts of a row.

}  // namespace

int64_t TimeToNanos(absl::Time time) {
  return absl::ToUnixNanos(time);
}  // Saturates.

absl::Time TimeFromNanos(int64_t nanos) {
  if (nanos == kPast) return absl::InfinitePast();
  if (nanos == kFuture) return absl::InfiniteFuture();
  return absl::FromUnixNanos(nanos);
}

namespace {

// Encodes everything of the trial but its number and its state.
record::Trial Encode(const study::Trial& trial) {
  record::Trial out;
  for (const auto& [name, value] : trial.parameters) Encode(name, value, out.add_parameters());
  Encode(trial.provenance, out.mutable_provenance());
  for (const study::Provenance& promotion : trial.promotions) Encode(promotion, out.add_promotions());
  if (trial.final_measurement) Encode(*trial.final_measurement, out.mutable_final_measurement());
  if (trial.failure) Encode(*trial.failure, out.mutable_failure());
  for (const study::Attempt& attempt : trial.attempts) Encode(attempt, out.add_attempts());
  out.set_releases(trial.releases);
  out.set_checkpoint(trial.checkpoint);
  out.set_checkpoint_step(trial.checkpoint_step);
  for (const auto& [key, value] : trial.attributes) {
    record::Attribute* attribute = out.add_attributes();
    attribute->set_key(key);
    attribute->set_value(value);
  }
  out.set_create_time_ns(TimeToNanos(trial.create_time));
  out.set_end_time_ns(TimeToNanos(trial.end_time));
  out.set_update_seq(trial.update_seq);
  out.set_retry_of(trial.retry_of);
  out.set_retried_by(trial.retried_by);
  out.set_deleted(trial.deleted);
  out.set_stop_requested(trial.stop_requested);
  for (const std::string& name : trial.declared) out.add_declared(name);
  for (const auto& [name, value] : trial.unused) Encode(name, value, out.add_unused());
  return out;
}

study::Trial Decode(const record::Trial& in) {
  study::Trial trial;
  for (const record::Parameter& parameter : in.parameters()) {
    trial.parameters.emplace_hint(trial.parameters.end(), parameter.name(), Decode(parameter));
  }
  trial.provenance = Decode(in.provenance());
  for (const record::Provenance& promotion : in.promotions()) trial.promotions.push_back(Decode(promotion));
  if (in.has_final_measurement()) trial.final_measurement = Decode(in.final_measurement());
  if (in.has_failure()) trial.failure = Decode(in.failure());
  for (const record::Attempt& attempt : in.attempts()) trial.attempts.push_back(Decode(attempt));
  trial.releases = in.releases();
  trial.checkpoint = in.checkpoint();
  trial.checkpoint_step = in.checkpoint_step();
  for (const record::Attribute& a : in.attributes())
    trial.attributes.emplace_hint(trial.attributes.end(), a.key(), a.value());
  trial.create_time = TimeFromNanos(in.create_time_ns());
  trial.end_time = TimeFromNanos(in.end_time_ns());
  trial.update_seq = in.update_seq();
  trial.retry_of = in.retry_of();
  trial.retried_by = in.retried_by();
  trial.deleted = in.deleted();
  trial.stop_requested = in.stop_requested();
  trial.declared.insert(in.declared().begin(), in.declared().end());
  for (const record::Parameter& parameter : in.unused()) {
    trial.unused.emplace_hint(trial.unused.end(), parameter.name(), Decode(parameter));
  }
  return trial;
}

void EncodeThen(const study::Trial& trial, record::TrialThen* out) {
  out->set_number(trial.number);
  out->set_state(static_cast<int32_t>(trial.state));
  *out->mutable_body() = Encode(trial);
}

bool DecodeThen(const record::TrialThen& in, study::Trial* trial) {
  if (!EnumsInRange(in.body()) || in.state() < 0 || static_cast<size_t>(in.state()) >= study::kTrialStateCount)
    return false;
  *trial = Decode(in.body());
  trial->number = in.number();
  trial->state = static_cast<study::TrialState>(in.state());
  return true;
}

}  // namespace

std::string EncodeTrialBody(const TrialRecord& record) {
  record::Trial out = Encode(record.trial);
  for (const GrantRecord& grant : record.grants) Encode(grant, out.add_grants());
  out.set_removed_seq(record.removed_seq);
  return out.SerializeAsString();
}

absl::StatusOr<TrialRecord> DecodeTrialBody(absl::string_view body) {
  // A row's message has many small parts, and lives no longer than this call: few of them need memory of their own.
  alignas(8) char block[kBlockBytes];
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = sizeof(block);
  google::protobuf::Arena arena(options);
  auto& in = *google::protobuf::Arena::CreateMessage<record::Trial>(&arena);
  if (!Parse(body, &in) || !EnumsInRange(in)) return Unreadable("trial");
  TrialRecord record;
  record.trial = Decode(in);
  for (const record::Grant& grant : in.grants()) record.grants.push_back(Decode(grant));
  record.removed_seq = in.removed_seq();
  return record;
}

absl::StatusOr<int64_t> CountAsks(absl::string_view body) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(body.data()),
                                            static_cast<int>(body.size()));
  // Whole tags are compared, as a parser does: a field of another wire type is an unknown one.
  constexpr auto kDelimited = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  constexpr uint32_t kPromotion = WireFormatLite::MakeTag(record::Trial::kPromotionsFieldNumber, kDelimited);
  constexpr uint32_t kProvenance = WireFormatLite::MakeTag(record::Trial::kProvenanceFieldNumber, kDelimited);
  constexpr uint32_t kAskIndex =
      WireFormatLite::MakeTag(record::Provenance::kAskIndexFieldNumber, WireFormatLite::WIRETYPE_VARINT);
  int64_t asks = 0;
  bool own = false;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == kPromotion) ++asks;
    if (tag != kProvenance) {
      if (!WireFormatLite::SkipField(&in, tag)) return Unreadable("trial");
      continue;
    }
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size)) return Unreadable("trial");
    const auto limit = in.PushLimit(size);
    while (const uint32_t part = in.ReadTag()) {
      if (part == kAskIndex) own = true;
      if (!WireFormatLite::SkipField(&in, part)) return Unreadable("trial");
    }
    if (!in.ConsumedEntireMessage()) return Unreadable("trial");
    in.PopLimit(limit);
  }
  if (!in.ConsumedEntireMessage()) return Unreadable("trial");
  return asks + (own ? 1 : 0);
}

std::string EncodeMeasurement(const study::Measurement& measurement) {
  record::Measurement out;
  Encode(measurement, &out);
  return out.SerializeAsString();
}

absl::StatusOr<study::Measurement> DecodeMeasurement(absl::string_view body) {
  record::Measurement in;
  if (!Parse(body, &in) || !EnumsInRange(in)) return Unreadable("measurement");
  return Decode(in);
}

std::string EncodeEventFacts(const Event& event) {
  record::Event out;
  if (event.step) out.set_step(*event.step);
  if (event.ask_index) out.set_ask_index(*event.ask_index);
  out.mutable_values()->Assign(event.values.begin(), event.values.end());
  return out.SerializeAsString();
}

void DecodeEventFacts(absl::string_view bytes, Event* event) {
  record::Event in;
  if (!Parse(bytes, &in)) return;
  if (in.has_step()) event->step = in.step();
  if (in.has_ask_index()) event->ask_index = in.ask_index();
  event->values.assign(in.values().begin(), in.values().end());
}

std::string EncodeReply(const StoredReply& reply) {
  record::Reply out;
  if (const auto* changed = std::get_if<ChangedStudy>(&reply)) {
    out.set_changed_study_seq(changed->seq);
    out.set_changed_study(changed->study);
    out.set_message(changed->message);
  } else if (const auto* granted = std::get_if<GrantedLeases>(&reply)) {
    out.mutable_leases()->set_study(granted->study);
    out.mutable_leases()->set_seq(granted->seq);
    for (const GrantedLease& lease : granted->leases) {
      record::GrantedLeases::Lease* entry = out.mutable_leases()->add_leases();
      entry->set_trial(lease.trial);
      entry->set_token(lease.token);
      if (lease.granted) EncodeThen(*lease.granted, entry->mutable_granted());
    }
  } else if (const auto* stored = std::get_if<StoredTrials>(&reply)) {
    out.mutable_trials()->set_study(stored->study);
    out.mutable_trials()->set_seq(stored->seq);
    out.mutable_trials()->mutable_trials()->Add(stored->trials.begin(), stored->trials.end());
    for (const study::Trial& trial : stored->whole) EncodeThen(trial, out.mutable_trials()->add_whole());
  }
  return out.SerializeAsString();
}

namespace {

absl::StatusOr<StoredReply> DecodeLeases(const record::GrantedLeases& in) {
  GrantedLeases granted{in.study(), {}, in.seq()};
  for (const record::GrantedLeases::Lease& lease : in.leases()) {
    GrantedLease& entry = granted.leases.emplace_back();
    entry.trial = lease.trial();
    entry.token = lease.token();
    if (lease.has_granted() && !DecodeThen(lease.granted(), &entry.granted.emplace())) {
      return Unreadable("stored reply");
    }
  }
  return granted;
}

absl::StatusOr<StoredReply> DecodeTrials(const record::StoredTrials& in) {
  StoredTrials stored{in.study(), {in.trials().begin(), in.trials().end()}, in.seq(), {}};
  for (const record::TrialThen& trial : in.whole()) {
    if (!DecodeThen(trial, &stored.whole.emplace_back())) return Unreadable("stored reply");
  }
  return stored;
}

}  // namespace

absl::StatusOr<StoredReply> DecodeReply(absl::string_view bytes) {
  record::Reply in;
  if (!Parse(bytes, &in)) return Unreadable("stored reply");
  switch (in.reply_case()) {
    case record::Reply::kChangedStudySeq:
      return ChangedStudy{in.changed_study_seq(), in.changed_study(), in.message()};
    case record::Reply::kLeases:
      return DecodeLeases(in.leases());
    case record::Reply::kTrials:
      return DecodeTrials(in.trials());
    case record::Reply::REPLY_NOT_SET:
      break;
  }
  return Unreadable("stored reply");
}

absl::StatusOr<std::string> EncodeSpec(const study::StudySpec& spec) {
  const v1::StudySpec message = wire::ToProto(spec);
  const absl::StatusOr<study::StudySpec> back = wire::FromProto(message);
  if (!back.ok()) return Violation(absl::StrCat("an invalid spec: ", back.status().message()));
  if (!(*back == spec)) return Violation("a spec that has no exact form in the API");
  return message.SerializeAsString();
}

namespace {

// Programs of schema version 7 and before did not store the version of the rules of `auto`, nor whether history counts
// as initial design. Such studies keep the first rules, and history does not count. Those of a later version that did
// not store the rules of `bo` keep its first ones.
void KeepOldRules(v1::Algorithm* algorithm) {
  const auto bo = [](v1::Algorithm::Bo* options) {
    if (!options->expert().has_count_history()) options->mutable_expert()->set_count_history(false);
    if (!options->expert().has_rules()) options->mutable_expert()->set_rules(0);
  };
  switch (algorithm->kind_case()) {
    case v1::Algorithm::KIND_NOT_SET:
    case v1::Algorithm::kAuto:
      if (!algorithm->auto_().expert().has_rules()) algorithm->mutable_auto_()->mutable_expert()->set_rules(0);
      return;
    case v1::Algorithm::kBo:
      return bo(algorithm->mutable_bo());
    case v1::Algorithm::kHbo:
      return bo(algorithm->mutable_hbo());
    case v1::Algorithm::kLbo:
      return bo(algorithm->mutable_lbo());
    case v1::Algorithm::kFobo:
      return bo(algorithm->mutable_fobo());
    case v1::Algorithm::kAsha:
      if (algorithm->asha().has_sampler()) KeepOldRules(algorithm->mutable_asha()->mutable_sampler());
      return;
    case v1::Algorithm::kHyperband:
      if (algorithm->hyperband().has_sampler()) KeepOldRules(algorithm->mutable_hyperband()->mutable_sampler());
      return;
    case v1::Algorithm::kSuccessiveHalving:
      if (algorithm->successive_halving().has_sampler()) {
        KeepOldRules(algorithm->mutable_successive_halving()->mutable_sampler());
      }
      return;
    case v1::Algorithm::kHarmonica:
      if (algorithm->harmonica().has_base()) KeepOldRules(algorithm->mutable_harmonica()->mutable_base());
      return;
    default:
      return;
  }
}

}  // namespace

absl::StatusOr<study::StudySpec> DecodeSpec(absl::string_view bytes) {
  v1::StudySpec message;
  if (!Parse(bytes, &message)) return Unreadable("study");
  // Options that are no more are named in the spec, and suggestions are made without them.
  for (const wire::RemovedOption& option : wire::MoveOldOptions("algorithm", message.mutable_algorithm())) {
    message.add_removed_options(absl::StrCat(option.field, ": ", option.value));
  }
  KeepOldRules(message.mutable_algorithm());
  absl::StatusOr<study::StudySpec> spec = wire::FromProto(message);
  if (!spec.ok()) {
    return absl::DataLossError(
        absl::StrCat("the database holds a study that this version refuses: ", spec.status().message()));
  }
  return spec;
}

std::string EncodeWayBack(const study::SpecChange& change) {
  study::StudySpec spec;
  if (change.command) spec.objective = *change.command;
  spec.display_name = change.display_name.value_or("");
  spec.description = change.description.value_or("");
  if (change.labels) spec.labels = *change.labels;
  spec.budget.max_parallel = change.max_parallel.value_or(0);
  spec.budget.patience = change.patience.value_or(0);
  spec.budget.target_value = change.target_value.value_or(std::nullopt);
  spec.budget.max_wall = change.max_wall.value_or(std::nullopt);
  spec.budget.until_answered = change.until_answered.value_or(std::nullopt);
  spec.weight = change.weight.value_or(1.0);
  record::WayBack out;
  const v1::StudySpec all = wire::ToProto(spec);
  v1::StudySpec kept;
  kept.set_display_name(all.display_name());
  kept.set_description(all.description());
  *kept.mutable_labels() = all.labels();
  *kept.mutable_budget() = all.budget();
  kept.set_weight(all.weight());
  if (change.command) *kept.mutable_objective() = all.objective();
  out.set_spec(kept.SerializeAsString());
  const auto note = [&](bool changed, const char* path) {
    if (changed) out.add_paths(path);
  };
  note(change.display_name.has_value(), "display_name");
  note(change.description.has_value(), "description");
  note(change.labels.has_value(), "labels");
  note(change.max_parallel.has_value(), "budget.max_parallel");
  note(change.patience.has_value(), "budget.patience");
  note(change.target_value.has_value(), "budget.target_value");
  note(change.max_wall.has_value(), "budget.max_wall");
  note(change.until_answered.has_value(), "budget.until_answered");
  note(change.weight.has_value(), "weight");
  note(change.command.has_value(), "objective.command");
  return out.SerializeAsString();
}

absl::StatusOr<study::SpecChange> DecodeWayBack(absl::string_view bytes) {
  record::WayBack in;
  v1::StudySpec spec;
  if (!Parse(bytes, &in) || !Parse(in.spec(), &spec)) return Unreadable("former spec");
  google::protobuf::FieldMask mask;
  for (const std::string& path : in.paths()) mask.add_paths(path);
  absl::StatusOr<study::SpecChange> change = wire::FromProto(spec, mask);
  if (change.ok()) return change;
  return absl::DataLossError(
      absl::StrCat("the database holds a former spec that this version refuses: ", change.status().message()));
}

}  // namespace luthier::storage
