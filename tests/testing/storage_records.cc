#include "tests/testing/storage_records.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace luthier::testing {
namespace {

// Collects "name=value " in order.
class Printer {
 public:
  template <typename T>
  Printer& Add(const char* name, const T& value) {
    absl::StrAppend(&text_, name, "=");
    Value(value);
    text_ += ' ';
    return *this;
  }
  std::string text() && { return std::move(text_); }

 private:
  template <typename T>
  void Value(const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      absl::StrAppendFormat(&text_, "%016x", std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
      absl::StrAppend(&text_, "#", static_cast<int>(value));
    } else if constexpr (std::is_integral_v<T>) {
      absl::StrAppend(&text_, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      absl::StrAppend(&text_, "'", absl::CEscape(value), "'");
    } else if constexpr (std::is_same_v<T, absl::Time>) {
      text_ += absl::FormatTime(absl::RFC3339_full, value, absl::UTCTimeZone());
    } else {
      Compound(value);
    }
  }
  template <typename T>
  void Compound(const std::optional<T>& value) {
    if (value)
      Value(*value);
    else
      text_ += "none";
  }
  template <typename T>
  void Compound(const std::vector<T>& values) {
    text_ += '[';
    for (const T& value : values) Value(value), text_ += ',';
    text_ += ']';
  }
  template <typename V>
  void Compound(const std::map<std::string, V>& values) {
    text_ += '{';
    for (const auto& [key, value] : values) Value(key), text_ += ':', Value(value), text_ += ',';
    text_ += '}';
  }
  void Compound(const study::ParameterValue& value) {
    absl::StrAppend(&text_, "(", value.index(), ")");
    std::visit([this](const auto& v) { Value(v); }, value);
  }
  void Compound(const study::Gradient& g) {
    Add("values", g.values).Add("direction", g.direction).Add("slope", g.slope).Add("error_bound", g.error_bound);
    if (!g.solve) return;
    Add("tolerance", g.solve->tolerance).Add("inner", g.solve->inner_gradient_norm).Add("residual", g.solve->residual);
    Add("outer", g.solve->outer_gradient_norm).Add("mu", g.solve->strong_convexity);
    Add("log_error", g.solve->log_error_bound).Add("certified", g.solve->certified);
  }
  void Compound(const study::Measurement& m) {
    Add("step", m.step).Add("metrics", m.metrics).Add("elapsed", m.elapsed_seconds).Add("gradient", m.gradient);
    // Texts of databases that were written before there were these stay as they are.
    if (m.training) Add("training", m.training);
    if (m.gradient_seconds) Add("gradient_seconds", m.gradient_seconds);
    if (!m.standard_errors.empty()) Add("standard_errors", m.standard_errors);
  }
  void Compound(const study::TrainingReport& t) {
    Add("outcome", t.outcome).Add("gradient_norm", t.gradient_norm).Add("duality_gap", t.duality_gap);
  }
  void Compound(const study::Failure& f) { Add("kind", f.kind).Add("reason", f.reason).Add("message", f.message); }
  void Compound(const study::Provenance& p) {
    Add("designer", p.designer).Add("version", p.algorithm_version).Add("ask", p.ask_index);
    Add("prefix", p.prefix_seq).Add("origin", p.origin).Add("details", p.details).Add("carry", p.designer_state);
    // Likewise.
    if (!p.direction.empty()) Add("direction", p.direction);
    if (!p.set_aside.empty()) Add("set_aside", p.set_aside);
    if (p.resource != 0) Add("resource", p.resource);
  }
  void Compound(const study::Attempt& a) {
    Add("number", a.number).Add("worker", a.worker).Add("start", a.start).Add("end", a.end);
    Add("outcome", a.outcome).Add("failure", a.failure).Add("tail", a.output_tail);
    if (a.start_step != 0) Add("start_step", a.start_step);
    if (a.last_step != 0) Add("last_step", a.last_step);
  }
  void Compound(const storage::GrantRecord& g) {
    Add("token", g.token).Add("digest", g.digest).Add("state", g.reply_state).Add("warnings", g.reply_warnings);
    Add("seq", g.reply_seq);
    if (!g.request_id.empty()) Add("request", g.request_id);
    if (g.uptime != absl::ZeroDuration()) Add("at", absl::ToInt64Nanoseconds(g.uptime));
    if (g.end_uptime != absl::ZeroDuration()) Add("ended_at", absl::ToInt64Nanoseconds(g.end_uptime));
    if (g.checkpoint_step != 0) Add("checkpoint_step", g.checkpoint_step);
  }

  std::string text_;
};

constexpr char kMetric[] = "loss";

study::ParameterValue RandomValue(base::RandomStream& random) {
  switch (random.UniformInt(4)) {
    case 0:
      return RandomDouble(random);
    case 1:
      return random.UniformInt(2) == 0;
    case 2: {
      std::vector<double> vector(random.UniformInt(4));
      for (double& element : vector) element = RandomDouble(random);
      return vector;
    }
    default:
      return RandomText(random);
  }
}

absl::Time RandomTime(base::RandomStream& random) {
  switch (random.UniformInt(6)) {
    case 0:
      return absl::InfiniteFuture();
    case 1:
      return absl::InfinitePast();
    case 2:
      return absl::UnixEpoch();
    default:
      return absl::FromUnixNanos(static_cast<int64_t>(random.UniformInt(4'000'000'000'000'000'000)));
  }
}

study::Failure RandomFailure(base::RandomStream& random) {
  const auto kind = random.UniformInt(2) == 0 ? study::FailureKind::kConfig : study::FailureKind::kInfra;
  return {kind, RandomText(random), RandomText(random)};
}

std::vector<double> RandomDoubles(base::RandomStream& random, uint64_t most) {
  std::vector<double> values(random.UniformInt(most + 1));
  for (double& value : values) value = RandomDouble(random);
  return values;
}

std::map<std::string, double> RandomNumbers(base::RandomStream& random) {
  std::map<std::string, double> numbers;
  for (uint64_t i = random.UniformInt(4); i > 0; --i) numbers[RandomText(random)] = RandomDouble(random);
  return numbers;
}

template <typename T, typename F>
std::optional<T> Maybe(base::RandomStream& random, F make) {
  return random.UniformInt(2) == 0 ? std::nullopt : std::optional<T>(make());
}

}  // namespace

std::string Text(const study::Measurement& m) {
  Printer printer;
  return std::move(printer.Add("measurement", m)).text();
}

std::string Text(const storage::StudyRecord& r) {
  Printer printer;
  printer.Add("key", r.key).Add("id", r.id).Add("state", r.state).Add("reason", r.state_reason);
  printer.Add("create", r.create_time).Add("update", r.update_time).Add("create_seq", r.create_seq);
  printer.Add("update_seq", r.update_seq).Add("resume_seq", r.resume_seq);
  printer.Add("name", r.spec.display_name).Add("metric", r.spec.metric.name).Add("goal", r.spec.metric.goal);
  printer.Add("seed", r.spec.seed).Add("labels", r.spec.labels);
  if (r.added_trials != 0) printer.Add("added_trials", r.added_trials);
  if (r.bytes != 0) printer.Add("bytes", r.bytes);
  if (r.create_uptime != absl::ZeroDuration()) {
    printer.Add("create_uptime", absl::ToInt64Nanoseconds(r.create_uptime));
  }
  if (!r.created_digest.empty()) printer.Add("created_digest", r.created_digest);
  if (!r.owner.empty()) printer.Add("owner", r.owner);
  if (r.deletion) {
    printer.Add("deleted", r.deletion->time).Add("delete_uptime", absl::ToInt64Nanoseconds(r.deletion->uptime));
  }
  return std::move(printer).text();
}

std::string Text(const storage::TrialRecord& r) {
  const study::Trial& t = r.trial;
  Printer printer;
  printer.Add("number", t.number).Add("state", t.state).Add("parameters", t.parameters);
  printer.Add("provenance", t.provenance).Add("final", t.final_measurement).Add("failure", t.failure);
  printer.Add("attempts", t.attempts).Add("releases", t.releases).Add("checkpoint", t.checkpoint);
  printer.Add("attributes", t.attributes).Add("create", t.create_time).Add("end", t.end_time);
  printer.Add("update_seq", t.update_seq).Add("create_seq", r.create_seq).Add("finish_seq", r.finish_seq);
  printer.Add("grants", r.grants);
  if (!t.promotions.empty()) printer.Add("promotions", t.promotions);
  if (t.checkpoint_step != 0) printer.Add("checkpoint_step", t.checkpoint_step);
  if (t.retry_of != 0) printer.Add("retry_of", t.retry_of);
  if (t.retried_by != 0) printer.Add("retried_by", t.retried_by);
  for (const std::string& name : t.declared) printer.Add("declared", name);
  if (!t.unused.empty()) printer.Add("unused", t.unused);
  if (t.deleted) printer.Add("deleted", t.deleted);
  if (t.stop_requested) printer.Add("stop_requested", t.stop_requested);
  if (r.removed_seq != 0) printer.Add("removed_seq", r.removed_seq);
  return std::move(printer).text();
}

std::string Text(const study::Trial& trial) {
  storage::TrialRecord record;
  record.trial = trial;
  return Text(record);
}

std::string Text(const storage::TrialSketch& sketch) {
  return absl::StrCat(sketch.number, " ", study::TrialStateName(sketch.state), " ", sketch.finish_seq, " ",
                      sketch.value ? absl::StrCat(*sketch.value) : "-", " ", sketch.asks,
                      sketch.removed ? " removed " : " ", Text(sketch.record));
}

std::string Text(const storage::Event& e) {
  Printer printer;
  printer.Add("seq", e.seq).Add("time", e.time).Add("study", e.study).Add("id", e.study_id).Add("trial", e.trial);
  printer.Add("attempt", e.attempt).Add("type", e.type).Add("actor", e.actor).Add("detail", e.detail);
  printer.Add("value", e.value);
  if (e.step) printer.Add("step", *e.step);
  if (e.ask_index) printer.Add("ask", *e.ask_index);
  if (!e.values.empty()) printer.Add("values", e.values);
  return std::move(printer).text();
}

std::string Text(const storage::FormerSpec& f) {
  Printer printer;
  printer.Add("until_seq", f.until_seq).Add("max_trials", f.max_trials);
  if (f.spec) printer.Add("name", f.spec->display_name).Add("seed", f.spec->seed);
  if (f.back) {
    const study::SpecChange& back = *f.back;
    printer.Add("back", back.display_name).Add("description", back.description).Add("labels", back.labels);
    printer.Add("max_parallel", back.max_parallel).Add("patience", back.patience).Add("target", back.target_value);
    printer.Add("weight", back.weight).Add("command", back.command ? back.command->argv : std::vector<std::string>());
    printer.Add("max_wall", back.max_wall && *back.max_wall ? absl::FormatDuration(**back.max_wall) : "");
  }
  return std::move(printer).text();
}

std::string Text(const storage::SetAside& s) {
  Printer printer;
  return std::move(printer.Add("trial", s.trial).Add("worker", s.worker)).text();
}

std::string Text(const storage::StoredReply& reply) {
  Printer printer;
  if (const auto* legacy = std::get_if<storage::LegacyReply>(&reply)) return legacy->text;
  if (std::holds_alternative<storage::DamagedReply>(reply)) return "damaged";
  if (const auto* changed = std::get_if<storage::ChangedStudy>(&reply)) {
    printer.Add("seq", changed->seq);
    if (!changed->message.empty()) printer.Add("study", changed->study).Add("message", changed->message);
  }
  if (const auto* granted = std::get_if<storage::GrantedLeases>(&reply)) {
    printer.Add("study", granted->study);
    for (const storage::GrantedLease& lease : granted->leases) {
      printer.Add("trial", lease.trial).Add("token", lease.token);
      if (lease.granted) printer.Add("granted", Text(*lease.granted));
    }
    if (granted->seq != 0) printer.Add("seq", granted->seq);
  }
  if (const auto* stored = std::get_if<storage::StoredTrials>(&reply)) {
    printer.Add("study", stored->study);
    for (const int64_t trial : stored->trials) printer.Add("trial", trial);
    if (stored->seq != 0) printer.Add("seq", stored->seq);
    for (const study::Trial& trial : stored->whole) printer.Add("whole", Text(trial));
  }
  return std::move(printer).text();
}

std::string Text(const storage::RequestRecord& r) {
  Printer printer;
  printer.Add("id", r.id)
      .Add("digest", r.digest)
      .Add("reply", Text(r.reply))
      .Add("uptime", absl::ToInt64Nanoseconds(r.uptime));
  return std::move(printer).text();
}

std::string Text(const storage::Storage::Summary& s) {
  Printer printer;
  for (const int64_t count : s.by_state) printer.Add("count", count);
  printer.Add("best", s.best_trial).Add("value", s.best_value).Add("resource", s.resource_spent);
  if (std::any_of(s.trainings.begin(), s.trainings.end(), [](int64_t count) { return count > 0; })) {
    for (const int64_t count : s.trainings) printer.Add("trainings", count);
  }
  if (s.deleted != 0) printer.Add("deleted", s.deleted);
  if (s.retried != 0) printer.Add("retried", s.retried);
  return std::move(printer).text();
}

study::StudySpec SmallSpec(study::Goal goal) {
  study::StudySpec spec;
  study::FloatRange range;
  range.min = -1.0;
  spec.space = study::SearchSpace::Create({{"x", range, std::nullopt, std::nullopt}}).value();
  spec.metric = {kMetric, goal};
  return spec;
}

storage::StudyRecord Study(storage::StudyKey key, const std::string& id, study::Goal goal) {
  storage::StudyRecord record;
  record.key = key;
  record.id = id;
  record.spec = SmallSpec(goal);
  return record;
}

storage::TrialRecord Trial(int64_t number, study::TrialState state) {
  storage::TrialRecord record;
  record.trial.number = number;
  record.trial.state = state;
  record.trial.parameters["x"] = 0.5;
  return record;
}

storage::TrialRecord Completed(int64_t number, double loss) {
  storage::TrialRecord record = Trial(number, study::TrialState::kComplete);
  record.trial.final_measurement.emplace().metrics[kMetric] = loss;
  return record;
}

storage::MeasurementRecord Point(storage::StudyKey study, int64_t trial, int32_t attempt, int64_t step, double loss) {
  storage::MeasurementRecord record{study, trial, attempt, {}};
  record.measurement.step = step;
  record.measurement.metrics[kMetric] = loss;
  return record;
}

storage::Event EventAt(uint64_t seq, storage::StudyKey study) {
  storage::Event event;
  event.seq = seq;
  event.study = study;
  event.study_id = "s";
  return event;
}

storage::RequestRecord Request(const std::string& id, int64_t seconds) {
  // One of each type.
  const std::string message = seconds % 2 == 0 ? "" : std::string("\0 message \xff", 11);
  storage::StoredReply reply = storage::ChangedStudy{static_cast<uint64_t>(seconds), message.empty() ? 0 : 5, message};
  study::Trial then = Trial(1).trial;
  then.attributes["who"] = std::string("\0 me \xff", 6);
  if (seconds % 3 == 1) {
    reply = storage::GrantedLeases{seconds, {{1, std::string("\0 token \xff", 9), then}, {-2, ""}}, 7};
  }
  if (seconds % 3 == 2) reply = storage::StoredTrials{seconds, {1, 2, 300}, 8, {then, Completed(2, 0.5).trial}};
  return {id, "digest of " + id, std::move(reply), absl::Seconds(seconds)};
}

double RandomDouble(base::RandomStream& random) {
  static constexpr std::array<double, 12> kSpecial = {0.0,
                                                      -0.0,
                                                      1.0,
                                                      std::numeric_limits<double>::infinity(),
                                                      -std::numeric_limits<double>::infinity(),
                                                      std::numeric_limits<double>::quiet_NaN(),
                                                      std::numeric_limits<double>::denorm_min(),
                                                      -std::numeric_limits<double>::min(),
                                                      std::numeric_limits<double>::max(),
                                                      std::numeric_limits<double>::lowest(),
                                                      9007199254740993.0,
                                                      -3.0};
  const uint64_t pick = random.UniformInt(2 * kSpecial.size());
  if (pick < kSpecial.size()) return kSpecial[pick];
  // Any bits: a signalling NaN may become quiet in a register, so those are made quiet here.
  const double any = std::bit_cast<double>(random.NextU64());
  constexpr uint64_t kQuiet = uint64_t{1} << 51;
  return std::isnan(any) ? std::bit_cast<double>(std::bit_cast<uint64_t>(any) | kQuiet) : any;
}

std::string RandomText(base::RandomStream& random) {
  static const std::array<std::string, 7> kTexts = {"",
                                                    "a",
                                                    "Übergröße – 日本語 🎻",
                                                    std::string("nul\0inside", 10),
                                                    "\xff\xfe no UTF-8 \x80",
                                                    "'; DROP TABLE trial; --",
                                                    std::string(300, 'x')};
  const uint64_t pick = random.UniformInt(kTexts.size() + 3);
  return pick < kTexts.size() ? kTexts[pick] : absl::StrCat("t", random.UniformInt(1000));
}

study::Measurement RandomMeasurement(base::RandomStream& random, int64_t step) {
  study::Measurement m;
  m.step = step;
  m.metrics = RandomNumbers(random);
  if (random.UniformInt(4) != 0) m.metrics[kMetric] = RandomDouble(random);
  m.elapsed_seconds = Maybe<double>(random, [&] { return RandomDouble(random); });
  m.gradient = Maybe<study::Gradient>(random, [&] {
    study::Gradient g;
    g.values = RandomDoubles(random, 5);
    g.direction = RandomDoubles(random, 3);
    g.slope = RandomDouble(random);
    g.error_bound = Maybe<double>(random, [&] { return RandomDouble(random); });
    g.solve = Maybe<study::ImplicitSolve>(random, [&] {
      study::ImplicitSolve solve;
      for (double* number : {&solve.tolerance, &solve.inner_gradient_norm, &solve.residual, &solve.outer_gradient_norm,
                             &solve.strong_convexity}) {
        *number = RandomDouble(random);
      }
      solve.log_error_bound = Maybe<double>(random, [&] { return RandomDouble(random); });
      solve.certified = random.UniformInt(2) == 0;
      return solve;
    });
    return g;
  });
  m.training = Maybe<study::TrainingReport>(random, [&] {
    study::TrainingReport training;
    training.outcome = static_cast<study::TrainingOutcome>(random.UniformInt(study::kTrainingOutcomeCount));
    training.gradient_norm = Maybe<double>(random, [&] { return RandomDouble(random); });
    training.duality_gap = Maybe<double>(random, [&] { return RandomDouble(random); });
    return training;
  });
  m.gradient_seconds = Maybe<double>(random, [&] { return RandomDouble(random); });
  if (step % 3 == 0) m.standard_errors = m.metrics;
  return m;
}

storage::TrialRecord RandomTrial(base::RandomStream& random, int64_t number, study::TrialState state) {
  storage::TrialRecord record;
  study::Trial& trial = record.trial;
  trial.number = number;
  trial.state = state;
  for (uint64_t i = random.UniformInt(6); i > 0; --i) trial.parameters[RandomText(random)] = RandomValue(random);
  trial.provenance.designer = RandomText(random);
  trial.provenance.algorithm_version = static_cast<int32_t>(random.NextU64());
  trial.provenance.ask_index = Maybe<uint64_t>(random, [&] { return random.NextU64(); });
  trial.provenance.prefix_seq = random.NextU64();
  trial.provenance.origin = RandomText(random);
  trial.provenance.details = RandomNumbers(random);
  trial.provenance.designer_state = RandomText(random);
  trial.provenance.direction = RandomDoubles(random, 3);
  for (uint64_t i = random.UniformInt(3); i > 0; --i) {
    trial.provenance.set_aside.push_back(static_cast<int64_t>(random.NextU64()));
  }
  trial.provenance.resource = static_cast<int64_t>(random.UniformInt(10));
  trial.provenance.warm_start = static_cast<int64_t>(random.UniformInt(10));
  trial.provenance.tolerance = Maybe<double>(random, [&] { return RandomDouble(random); });
  for (uint64_t i = random.UniformInt(3); i > 0; --i) {
    study::Provenance promotion;
    promotion.ask_index = random.NextU64();
    promotion.prefix_seq = random.NextU64();
    promotion.details = RandomNumbers(random);
    promotion.resource = static_cast<int64_t>(random.NextU64());
    trial.promotions.push_back(std::move(promotion));
  }
  trial.final_measurement = Maybe<study::Measurement>(
      random, [&] { return RandomMeasurement(random, static_cast<int64_t>(random.NextU64())); });
  trial.failure = Maybe<study::Failure>(random, [&] { return RandomFailure(random); });
  trial.retry_of = static_cast<int64_t>(random.UniformInt(3));
  if (number % 3 == 0 && !trial.parameters.empty()) trial.declared.insert(trial.parameters.begin()->first);
  if (number % 4 == 0) trial.unused = {{"left_out", static_cast<double>(number)}, {"text", std::string("a")}};
  if (random.UniformInt(6) == 0) trial.retried_by = 1 + static_cast<int64_t>(random.UniformInt(9));
  trial.deleted = random.UniformInt(6) == 0;
  trial.stop_requested = random.UniformInt(6) == 0;
  record.removed_seq = random.UniformInt(3);
  for (uint64_t i = random.UniformInt(4); i > 0; --i) {
    study::Attempt attempt;
    attempt.number = static_cast<int32_t>(random.NextU64());
    attempt.worker = RandomText(random);
    attempt.start = RandomTime(random);
    attempt.end = RandomTime(random);
    attempt.outcome = static_cast<study::AttemptOutcome>(random.UniformInt(8));
    attempt.start_step = static_cast<int64_t>(random.NextU64() >> random.UniformInt(64));
    attempt.last_step = static_cast<int64_t>(random.NextU64() >> random.UniformInt(64));
    attempt.failure = Maybe<study::Failure>(random, [&] { return RandomFailure(random); });
    attempt.output_tail = RandomText(random);
    trial.attempts.push_back(std::move(attempt));
    storage::GrantRecord grant;
    if (random.UniformInt(2) == 0) grant.request_id = "ask";
    if (random.UniformInt(2) == 0) {
      grant.uptime = absl::Nanoseconds(static_cast<int64_t>(random.UniformInt(1'000'000)));
      grant.end_uptime = grant.uptime + absl::Hours(24 * 365);
      grant.checkpoint_step = static_cast<int64_t>(random.NextU64());
    }
    grant.token = RandomText(random);
    grant.digest = RandomText(random);
    grant.reply_state = static_cast<study::TrialState>(random.UniformInt(study::kTrialStateCount));
    for (uint64_t w = random.UniformInt(3); w > 0; --w) grant.reply_warnings.push_back(RandomText(random));
    grant.reply_seq = random.NextU64();
    record.grants.push_back(std::move(grant));
  }
  trial.releases = static_cast<int32_t>(random.NextU64());
  trial.checkpoint = RandomText(random);
  trial.checkpoint_step = static_cast<int64_t>(random.NextU64());
  for (uint64_t i = random.UniformInt(3); i > 0; --i) trial.attributes[RandomText(random)] = RandomText(random);
  trial.create_time = RandomTime(random);
  trial.end_time = RandomTime(random);
  trial.update_seq = random.NextU64();
  record.create_seq = random.NextU64() >> 1;
  record.finish_seq = random.NextU64() >> 1;
  return record;
}

storage::Event RandomEvent(base::RandomStream& random, uint64_t seq, storage::StudyKey study) {
  storage::Event event;
  event.seq = seq;
  event.time = RandomTime(random);
  event.study = study;
  event.study_id = RandomText(random);
  event.trial = static_cast<int64_t>(random.UniformInt(10));
  event.attempt = static_cast<int32_t>(random.UniformInt(4));
  event.type = static_cast<storage::EventType>(1 + random.UniformInt(24));
  event.actor = RandomText(random);
  event.detail = RandomText(random);
  event.value = Maybe<double>(random, [&] { return RandomDouble(random); });
  event.step = Maybe<int64_t>(random, [&] { return static_cast<int64_t>(random.NextU64()); });
  event.ask_index = Maybe<uint64_t>(random, [&] { return random.NextU64(); });
  base::RandomStream values(seq, "tests/event_values", 0);
  for (uint64_t n = values.UniformInt(3); n > 0; --n) event.values.push_back(RandomDouble(values));
  return event;
}

}  // namespace luthier::testing
