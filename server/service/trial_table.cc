#include "server/service/trial_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/printable.h"
#include "lib/base/status_macros.h"
#include "lib/base/team.h"
#include "lib/study/metrics.h"
#include "server/service/lookup.h"
#include "server/service/pages.h"

namespace luthier::service {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are sent as they lie in memory");

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr uint32_t kNoWord = std::numeric_limits<uint32_t>::max();
constexpr int kMaxMetrics = 256;
constexpr int kMaxAttributes = 64;
constexpr size_t kMaxComparedBytes = 1024;
constexpr size_t kPageBytes = size_t{3} << 20;
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr absl::Duration kKeptUnused = absl::Minutes(1);
constexpr int kRead = 1000;
// A large study is read by several threads, some pages ahead of each other, unless its trials are large.
constexpr int kReadingThreads = 2;
constexpr int64_t kPagesAtOnce = 8;
constexpr int kMostShared = 200;  // Scalars of a setting.
constexpr char kDeleted[] = "DELETED";
constexpr char kFeasible[] = "feasible";
constexpr char kReason[] = "reason";
constexpr size_t kMostReason = 160;  // Bytes.
constexpr char kMetricPrefix[] = "metrics.";
constexpr size_t kMostNamed = 20;

const char* const kFixed[] = {"number",  "state",    "update_seq", "create_time", "start_time", "end_time",
                              "seconds", "attempts", "worker",     "designer",    "origin",     "step"};

double Seconds(absl::Time time) {
  if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return kNone;
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

// Returns the time that the trial's attempts took together by the wall clock, but for each not less than the time that
// coordinators ran meanwhile: the clock may have been set back. Time in which the trial was paused, or waited to be
// tried again, does not count. NaN while an attempt runs.
double SecondsTaken(const storage::TrialRecord& record) {
  const std::vector<study::Attempt>& attempts = record.trial.attempts;
  double sum = 0.0;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const absl::Time end = attempts[i].end == absl::InfiniteFuture() ? record.trial.end_time : attempts[i].end;
    double taken = Seconds(end) - Seconds(attempts[i].start);
    // Grants of older programs have no uptime.
    if (record.grants.size() == attempts.size() && record.grants[i].uptime > absl::ZeroDuration()) {
      const double at_least = absl::ToDoubleSeconds(record.grants[i].end_uptime - record.grants[i].uptime);
      if (taken < at_least) taken = at_least;
    }
    sum += taken;
  }
  return sum;
}

bool IsCoded(const study::ParameterDomain& domain) {
  return std::holds_alternative<study::OrdinalLabels>(domain) ||
         std::holds_alternative<study::CategoricalLabels>(domain) || std::holds_alternative<study::BoolSwitch>(domain);
}

// Returns the failure's reason and its message's last line that is not empty, at most kMostReason bytes.
std::string ReasonOf(const study::Failure& failure) {
  absl::string_view message = absl::StripAsciiWhitespace(failure.message);
  if (const size_t line = message.rfind('\n'); line != absl::string_view::npos) message.remove_prefix(line + 1);
  const std::string whole = absl::StrCat(failure.reason, message.empty() ? "" : ": ", message);
  if (whole.size() <= kMostReason) return whole;
  constexpr absl::string_view kMore = "…";
  size_t end = 0;
  for (size_t next = 0; next + kMore.size() <= kMostReason; next += base::FirstCharacter(whole.c_str() + next).bytes) {
    end = next;
  }
  return absl::StrCat(whole.substr(0, end), kMore);
}

std::string WordOf(const study::ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "";
}

}  // namespace

TrialTable::Column* TrialTable::Find(const std::string& name, bool coded, size_t row) {
  auto found = columns_.find(name);
  if (found == columns_.end()) {
    if (absl::StartsWith(name, "metrics.") && metrics_++ >= kMaxMetrics) return nullptr;
    if (absl::StartsWith(name, "attributes.") && attributes_++ >= kMaxAttributes) return nullptr;
    found = columns_.emplace(name, Column()).first;
    found->second.coded = coded;
  }
  Column& column = found->second;
  if (column.coded) {
    if (column.indexes.size() <= row) column.indexes.resize(row + 1, kNoWord);
  } else if (column.numbers.size() <= row) {
    column.numbers.resize(row + 1, kNone);
  }
  return &column;
}

void TrialTable::Put(Column* column, size_t row, double value) {
  if (column == nullptr) return;
  if (column->numbers.size() <= row) column->numbers.resize(row + 1, kNone);
  column->numbers[row] = value;
}

void TrialTable::Put(Column* column, size_t row, const std::string& word) {
  if (column == nullptr) return;
  if (column->indexes.size() <= row) column->indexes.resize(row + 1, kNoWord);
  const auto [place, fresh] = column->places.try_emplace(word, static_cast<uint32_t>(column->words.size()));
  if (fresh) {
    column->words.push_back(word);
    column->word_bytes += word.size();
  }
  column->indexes[row] = place->second;
}

void TrialTable::Clear(size_t row) {
  for (auto& [name, column] : columns_) {
    if (column.coded && row < column.indexes.size()) column.indexes[row] = kNoWord;
    if (!column.coded && row < column.numbers.size()) column.numbers[row] = kNone;
  }
}

void TrialTable::StoreParameters(size_t row, const study::Trial& trial, const storage::StudyRecord& study) {
  auto column = own_.parameters.begin();
  for (const study::ParameterSpec& p : study.spec.space.parameters()) {
    const auto own = column;
    column += p.is_vector() ? 3 : 1;
    const auto found = trial.parameters.find(p.name);
    if (found == trial.parameters.end()) continue;
    if (const auto* vector = std::get_if<std::vector<double>>(&found->second)) {
      std::vector<double> sorted = *vector;
      std::sort(sorted.begin(), sorted.end());
      const size_t n = sorted.size();
      if (n == 0 || !p.is_vector()) continue;
      Put(own[0], row, sorted.front());
      Put(own[1], row, 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]));
      Put(own[2], row, sorted.back());
    } else if (const auto* number = std::get_if<double>(&found->second)) {
      Put(*own, row, *number);
    } else {
      Put(*own, row, WordOf(found->second));
    }
  }
}

void TrialTable::Store(const storage::TrialRecord& record, const storage::StudyRecord& study) {
  const study::Trial& trial = record.trial;
  const auto row = static_cast<size_t>(trial.number - 1);
  rows_ = std::max(rows_, row + 1);
  Clear(row);
  Put(own_.number, row, static_cast<double>(trial.number));
  Put(own_.state, row, trial.deleted ? std::string(kDeleted) : std::string(study::TrialStateName(trial.state)));
  Put(own_.update_seq, row, static_cast<double>(trial.update_seq));
  if (trial.deleted) return;
  Put(own_.create_time, row, Seconds(trial.create_time));
  Put(own_.end_time, row, Seconds(trial.end_time));
  Put(own_.attempts, row, static_cast<double>(trial.attempts.size()));
  if (!trial.attempts.empty()) {
    Put(own_.start_time, row, Seconds(trial.attempts.front().start));
    Put(own_.seconds, row, SecondsTaken(record));
    Put(own_.worker, row, trial.attempts.back().worker);
  }
  Put(own_.designer, row, trial.provenance.designer);
  Put(own_.origin, row, trial.provenance.origin);
  StoreParameters(row, trial, study);
  if (trial.final_measurement) {
    Put(own_.step, row, static_cast<double>(trial.final_measurement->step));
    for (const auto& [name, value] : trial.final_measurement->metrics) Set("metrics." + name, row, value);
    const std::optional<bool> feasible = FeasibleOf(study.spec, trial);
    if (feasible) Set(kFeasible, row, std::string(*feasible ? "true" : "false"));
  }
  if (trial.failure) Set(kReason, row, ReasonOf(*trial.failure));
  for (const auto& [key, value] : trial.attributes) {
    if (value.size() <= kMaxComparedBytes) Set("attributes." + key, row, value);
  }
}

void TrialTable::FindOwn(const study::StudySpec& spec) {
  parameters_.clear();
  own_.parameters.clear();
  for (const study::ParameterSpec& p : spec.space.parameters()) {
    const std::string name = absl::StrCat("params.", p.name);
    const size_t before = parameters_.size();
    if (p.is_vector()) {
      for (const char* part : {".min", ".median", ".max"}) parameters_.push_back(name + part);
    } else {
      parameters_.push_back(name);
    }
    for (size_t i = before; i < parameters_.size(); ++i) {
      own_.parameters.push_back(Find(parameters_[i], IsCoded(p.domain), 0));
    }
  }
  Column** const fixed[] = {&own_.number,     &own_.state,    &own_.update_seq, &own_.create_time,
                            &own_.start_time, &own_.end_time, &own_.seconds,    &own_.attempts,
                            &own_.worker,     &own_.designer, &own_.origin,     &own_.step};
  static_assert(std::size(fixed) == std::size(kFixed));
  for (size_t i = 0; i < std::size(kFixed); ++i) {
    const std::string name = kFixed[i];
    *fixed[i] = Find(name, name == "state" || name == "worker" || name == "designer" || name == "origin", 0);
  }
  if (study::HasBounds(spec)) Find(kFeasible, true, 0);
  for (const study::MetricSpec& metric : study::MetricsOf(spec)) Find("metrics." + metric.name, false, 0);
}

absl::Status TrialTable::Update(storage::Storage* storage, const storage::StudyRecord& study,
                                const MemoryGuard* memory) {
  FindOwn(study.spec);
  const absl::Status status = read_ ? ReadChanges(storage, study, memory) : ReadAll(storage, study, memory);
  if (!status.ok()) *this = TrialTable();
  return status;
}

absl::Status TrialTable::ReadAll(storage::Storage* storage, const storage::StudyRecord& study,
                                 const MemoryGuard* memory) {
  const bool together = study.spec.space.scalars() <= kMostShared;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study.key, {}, after, kRead));
    for (const storage::TrialRecord& record : page) {
      after = record.trial.number;
      Store(record, study);
    }
    if (page.size() < kRead) break;
    if (memory != nullptr) LUTHIER_RETURN_IF_ERROR(memory->Admit(MemoryGuard::Kind::kWork));
    if (!together) continue;
    LUTHIER_RETURN_IF_ERROR(ReadTogether(storage, study, memory));
    break;
  }
  read_ = true;
  seq_ = study.update_seq;
  return absl::OkStatus();
}

// Page k has the trials after number k · kRead, at most kRead of them. Where numbers are missing it reaches into the
// next one, and these trials are stored twice, which changes nothing. Pages are stored in order, so that the words of
// columns have the same order each time.
absl::Status TrialTable::ReadTogether(storage::Storage* storage, const storage::StudyRecord& study,
                                      const MemoryGuard* memory) {
  base::Team team(kReadingThreads);
  bool ended = false;
  for (int64_t first = 1; !ended; first += kPagesAtOnce) {
    base::Mutex mutex;
    std::map<int64_t, std::vector<storage::TrialRecord>> ready;  // Pages that wait for those before them.
    int64_t next = 0;
    absl::Status status;
    team.Run(kPagesAtOnce, [&](int64_t task, int) {
      absl::StatusOr<std::vector<storage::TrialRecord>> page =
          storage->ListTrials(study.key, {}, (first + task) * kRead, kRead);
      const base::MutexLock lock(&mutex);
      if (!page.ok()) {
        status.Update(page.status());
        return;
      }
      ready.emplace(task, *std::move(page));
      for (auto least = ready.begin(); least != ready.end() && least->first == next; least = ready.begin(), ++next) {
        for (const storage::TrialRecord& record : least->second) Store(record, study);
        ended = ended || least->second.size() < kRead;
        ready.erase(least);
      }
    });
    LUTHIER_RETURN_IF_ERROR(status);
    if (memory != nullptr && !ended) LUTHIER_RETURN_IF_ERROR(memory->Admit(MemoryGuard::Kind::kWork));
  }
  return absl::OkStatus();
}

absl::Status TrialTable::ReadChanges(storage::Storage* storage, const storage::StudyRecord& study,
                                     const MemoryGuard* memory) {
  // Rows may be newer than the event that leads to them; a later event then leads to them again.
  while (seq_ < study.update_seq) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::Event> events, storage->ListEvents(study.key, seq_, kRead));
    std::set<int64_t> changed;
    for (const storage::Event& event : events) {
      seq_ = event.seq;
      if (event.trial != 0) changed.insert(event.trial);
    }
    for (const int64_t number : changed) {
      LUTHIER_ASSIGN_OR_RETURN(const storage::TrialRecord record, storage->GetTrial(study.key, number));
      Store(record, study);
    }
    if (events.size() < kRead) break;
    if (memory != nullptr) LUTHIER_RETURN_IF_ERROR(memory->Admit(MemoryGuard::Kind::kWork));
  }
  seq_ = std::max(seq_, study.update_seq);
  return absl::OkStatus();
}

std::vector<std::string> TrialTable::Names() const {
  std::vector<std::string> names(std::begin(kFixed), std::end(kFixed));
  if (columns_.contains(kFeasible)) names.emplace_back(kFeasible);
  if (columns_.contains(kReason)) names.emplace_back(kReason);
  names.insert(names.end(), parameters_.begin(), parameters_.end());
  for (const auto& [name, column] : columns_) {
    if (absl::StartsWith(name, "metrics.")) names.push_back(name);
  }
  return names;
}

std::string TrialTable::NoColumn(const std::string& name) const {
  // All metrics are named, which are few.
  const bool metric = absl::StartsWith(name, kMetricPrefix);
  std::vector<std::string> known;
  for (const auto& [other, column] : columns_) {
    if (!metric || absl::StartsWith(other, kMetricPrefix)) known.push_back(other);
  }
  const bool told = metric && !known.empty() && known.size() <= kMostNamed;
  return absl::StrCat(base::Quote(name), " is no column of this study's table",
                      told ? absl::StrCat("; it has ", absl::StrJoin(known, ", ")) : base::DidYouMean(name, known));
}

absl::StatusOr<int64_t> TrialTable::Fill(const Query& query, v1::GetTrialTableResponse* response) const {
  std::vector<std::string> names = query.columns.empty() ? Names() : query.columns;
  std::vector<const Column*> columns;
  base::Violations violations;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = columns_.find(names[i]);
    if (found == columns_.end()) {
      violations.Add(absl::StrCat("columns[", i, "]"), NoColumn(names[i]));
    } else {
      columns.push_back(&found->second);
    }
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  const Column& seqs = columns_.at("update_seq");
  const Column& states = columns_.at("state");
  const auto deleted = states.places.find(kDeleted);
  // Rows of the page: as many as fit, with the words that they are the first to need.
  std::vector<size_t> rows;
  std::vector<std::vector<uint32_t>> places(columns.size());  // Index on the page of each of a column's words.
  for (size_t k = 0; k < columns.size(); ++k) places[k].assign(columns[k]->words.size(), kNoWord);
  std::vector<std::vector<uint32_t>> words(columns.size());
  size_t bytes = 0;
  int64_t last = 0;
  const auto value_of = [&](size_t k, size_t row) {
    return row < columns[k]->indexes.size() ? columns[k]->indexes[row] : kNoWord;
  };
  for (auto row = static_cast<size_t>(query.after_number); row < rows_; ++row) {
    const bool is_deleted = deleted != states.places.end() && states.indexes[row] == deleted->second;
    const bool changed = seqs.numbers[row] > static_cast<double>(query.after_seq);
    if (!changed || (is_deleted && query.after_seq == 0)) continue;
    size_t more = 0;
    for (size_t k = 0; k < columns.size(); ++k) {
      more += columns[k]->coded ? 4 : 8;
      const uint32_t word = columns[k]->coded ? value_of(k, row) : kNoWord;
      if (word != kNoWord && places[k][word] == kNoWord) more += columns[k]->words[word].size() + 4;
    }
    if (!rows.empty() && bytes + more > query.bytes) {
      last = static_cast<int64_t>(rows.back()) + 1;
      break;
    }
    for (size_t k = 0; k < columns.size(); ++k) {
      const uint32_t word = columns[k]->coded ? value_of(k, row) : kNoWord;
      if (word == kNoWord || places[k][word] != kNoWord) continue;
      places[k][word] = static_cast<uint32_t>(words[k].size());
      words[k].push_back(word);
    }
    bytes += more;
    rows.push_back(row);
  }
  for (size_t k = 0; k < columns.size(); ++k) {
    v1::TrialColumn& out = *response->add_columns();
    out.set_name(names[k]);
    if (columns[k]->coded) {
      std::string& packed = *out.mutable_words()->mutable_indexes();
      packed.reserve(4 * rows.size());
      for (const size_t row : rows) {
        const uint32_t word = value_of(k, row);
        const uint32_t place = word == kNoWord ? kNoWord : places[k][word];
        packed.append(reinterpret_cast<const char*>(&place), sizeof(place));
      }
      for (const uint32_t word : words[k]) out.mutable_words()->add_words(columns[k]->words[word]);
    } else {
      std::string& packed = *out.mutable_numbers();
      packed.reserve(8 * rows.size());
      for (const size_t row : rows) {
        const double value = row < columns[k]->numbers.size() ? columns[k]->numbers[row] : kNone;
        packed.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
  }
  response->set_rows(static_cast<int64_t>(rows.size()));
  return last;
}

struct TrialTable::BoundTerm {
  const Column* column = nullptr;  // Null: no trial has a value.
  FilterOp op = FilterOp::kEqual;
  bool any = false;
  double number = 0.0;
  std::vector<bool> words;  // By index: true if the word equals the value, or contains it.

  bool Holds(size_t row) const {
    const bool absent_holds = op == FilterOp::kNotEqual;
    if (column == nullptr) return absent_holds;
    if (column->coded) {
      const uint32_t word = row < column->indexes.size() ? column->indexes[row] : kNoWord;
      if (word == kNoWord) return absent_holds;
      return any || words[word] == (op != FilterOp::kNotEqual);
    }
    const double value = row < column->numbers.size() ? column->numbers[row] : kNone;
    if (std::isnan(value)) return absent_holds;
    switch (op) {
      case FilterOp::kEqual:
        return value == number;
      case FilterOp::kNotEqual:
        return value != number;
      case FilterOp::kLess:
        return value < number;
      case FilterOp::kAtMost:
        return value <= number;
      case FilterOp::kMore:
        return value > number;
      case FilterOp::kAtLeast:
        return value >= number;
      case FilterOp::kHas:
        return true;
    }
    return false;
  }
};

TrialTable::BoundTerm TrialTable::Bind(const FilterTerm& term) const {
  BoundTerm bound;
  bound.op = term.op;
  bound.any = term.any;
  bound.number = term.number.value_or(0.0);
  const auto found = columns_.find(term.field);
  if (found == columns_.end()) return bound;
  bound.column = &found->second;
  for (const std::string& word : found->second.words) {
    bound.words.push_back(term.op == FilterOp::kHas ? absl::StrContains(word, term.value) : word == term.value);
  }
  return bound;
}

// The value of the field to order by, then the number.
struct TrialTable::Key {
  int64_t number = 0;
  bool has_value = false;
  double value = 0.0;
  const std::string* word = nullptr;

  // True if this comes before `other`.
  bool Before(const Key& other, bool descending) const {
    if (has_value != other.has_value) return has_value;
    if (has_value && word != nullptr) {
      if (const int order = word->compare(*other.word); order != 0) return (order < 0) != descending;
    } else if (has_value && value != other.value) {
      return (value < other.value) != descending;
    }
    return number < other.number;
  }
  // Returns its text: "n", "wHEX" or "-", then the number.
  std::string Place() const {
    if (!has_value) return absl::StrCat(number, "-");
    if (word != nullptr) return absl::StrCat(number, "-w", absl::BytesToHexString(*word));
    return absl::StrCat(number, "-n", absl::Hex(std::bit_cast<uint64_t>(value)));
  }
};

absl::StatusOr<std::vector<TrialTable::Selected>> TrialTable::Select(const Wanted& wanted) const {
  std::vector<BoundTerm> terms;
  for (const FilterTerm& term : wanted.filter->terms()) terms.push_back(Bind(term));
  const Column& states = columns_.at("state");
  std::vector<bool> state_wanted;  // By index of the state's word.
  for (const std::string& word : states.words) {
    const std::optional<study::TrialState> state = study::ParseTrialState(word);
    state_wanted.push_back(state && (wanted.states.empty() || std::find(wanted.states.begin(), wanted.states.end(),
                                                                        *state) != wanted.states.end()));
  }
  const bool by_number = wanted.order.field.empty() || (wanted.order.field == "number" && !wanted.order.descending);
  const auto ordered_by = columns_.find(by_number ? "number" : wanted.order.field);
  const auto key_of = [&](size_t row) {
    Key key{static_cast<int64_t>(row) + 1};
    if (by_number || ordered_by == columns_.end()) return key;
    const Column& column = ordered_by->second;
    if (column.coded) {
      const uint32_t word = row < column.indexes.size() ? column.indexes[row] : kNoWord;
      key.has_value = word != kNoWord;
      if (key.has_value) key.word = &column.words[word];
    } else {
      key.value = row < column.numbers.size() ? column.numbers[row] : kNone;
      key.has_value = !std::isnan(key.value);
    }
    return key;
  };
  std::string after_word;
  std::optional<Key> after;
  if (!wanted.after.empty()) {
    after.emplace();
    const size_t dash = wanted.after.find('-');
    const absl::string_view value = absl::string_view(wanted.after).substr(std::min(dash, wanted.after.size() - 1) + 1);
    uint64_t bits = 0;
    bool good = dash != std::string::npos && absl::SimpleAtoi(wanted.after.substr(0, dash), &after->number);
    after->has_value = !value.empty();
    const bool coded = ordered_by != columns_.end() && ordered_by->second.coded;
    if (value.empty()) {
      good = good && after->number > 0;
    } else if (value[0] == 'w' && coded) {
      after_word = absl::HexStringToBytes(value.substr(1));
      after->word = &after_word;
    } else {
      good = good && value[0] == 'n' && !coded && absl::SimpleHexAtoi(value.substr(1), &bits);
      after->value = std::bit_cast<double>(bits);
    }
    if (!good) return base::BadField("page_token", "is not a token of ours");
  }
  std::vector<Key> keys;
  const size_t first = by_number && after ? static_cast<size_t>(after->number) : 0;
  for (size_t row = first; row < rows_ && !(by_number && keys.size() >= wanted.limit); ++row) {
    const uint32_t state = row < states.indexes.size() ? states.indexes[row] : kNoWord;
    if (state == kNoWord || !state_wanted[state]) continue;
    if (!wanted.filter->Matches([&](size_t term) { return terms[term].Holds(row); })) continue;
    const Key key = key_of(row);
    if (!after || by_number || after->Before(key, wanted.order.descending)) keys.push_back(key);
  }
  const size_t count = std::min(keys.size(), wanted.limit);
  if (!by_number) {
    std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end(),
                      [&](const Key& a, const Key& b) { return a.Before(b, wanted.order.descending); });
  }
  std::vector<Selected> selected;
  for (size_t i = 0; i < count; ++i) selected.push_back({keys[i].number, keys[i].Place()});
  return selected;
}

std::vector<TrialValues> TrialTable::Results(const study::StudySpec& spec) const {
  std::vector<const Column*> columns;
  for (const study::MetricSpec& metric : study::MetricsOf(spec)) {
    const auto column = columns_.find("metrics." + metric.name);
    if (column == columns_.end()) return {};
    columns.push_back(&column->second);
  }
  const Column& states = columns_.at("state");
  const auto complete = states.places.find(std::string(study::TrialStateName(study::TrialState::kComplete)));
  std::vector<TrialValues> results;
  for (size_t row = 0; row < rows_ && complete != states.places.end(); ++row) {
    if (row >= states.indexes.size() || states.indexes[row] != complete->second) continue;
    TrialValues result{static_cast<int64_t>(row) + 1, {}};
    for (const Column* column : columns) {
      if (row < column->numbers.size() && std::isfinite(column->numbers[row])) {
        result.values.push_back(column->numbers[row]);
      }
    }
    if (result.values.size() == columns.size()) results.push_back(std::move(result));
  }
  return results;
}

size_t TrialTable::bytes() const {
  size_t bytes = 0;
  for (const auto& [name, column] : columns_) {
    bytes += 256 + 8 * column.numbers.capacity() + 4 * column.indexes.capacity() + 2 * column.word_bytes +
             160 * column.words.size();
  }
  return bytes;
}

std::shared_ptr<TrialTables::Entry> TrialTables::Find(storage::StudyKey study) {
  base::MutexLock lock(&mutex_);
  DropUnused();
  const auto [place, fresh] = kept_.try_emplace(study);
  Kept& kept = place->second;
  if (fresh) {
    kept.entry = std::make_shared<Entry>();
    kept.in_used = used_.insert(used_.begin(), study);
  } else {
    used_.splice(used_.begin(), used_, kept.in_used);
  }
  kept.used = clock_->Monotonic();
  return kept.entry;
}

void TrialTables::Drop(storage::StudyKey study) {
  const auto place = kept_.find(study);
  bytes_ -= place->second.bytes;
  used_.erase(place->second.in_used);
  kept_.erase(place);
}

void TrialTables::DropUnused() {
  const absl::Duration now = clock_->Monotonic();
  while (!used_.empty() && kept_.at(used_.back()).used + kKeptUnused <= now) Drop(used_.back());
}

void TrialTables::Keep(storage::StudyKey study, size_t bytes) {
  base::MutexLock lock(&mutex_);
  DropUnused();
  const auto place = kept_.find(study);
  if (place == kept_.end()) return;
  bytes_ += bytes - place->second.bytes;
  place->second.bytes = bytes;
  const int64_t limit = memory_ == nullptr ? 0 : memory_->limit();
  const size_t most = limit == 0 ? kMostBytes : std::min(kMostBytes, static_cast<size_t>(limit) / 8);
  while (bytes_ > most && !used_.empty()) Drop(used_.back());
}

absl::StatusOr<std::vector<TrialTable::Selected>> TrialTables::Select(storage::Storage* storage,
                                                                      const storage::StudyRecord& study,
                                                                      const TrialTable::Wanted& wanted) {
  const std::shared_ptr<Entry> entry = Find(study.key);
  absl::StatusOr<std::vector<TrialTable::Selected>> selected;
  size_t bytes = 0;
  {
    base::MutexLock lock(&entry->mutex);
    LUTHIER_RETURN_IF_ERROR(entry->table.Update(storage, study, memory_));
    selected = entry->table.Select(wanted);
    bytes = entry->table.bytes();
  }
  Keep(study.key, bytes);
  return selected;
}

absl::StatusOr<std::vector<TrialValues>> TrialTables::Results(storage::Storage* storage,
                                                              const storage::StudyRecord& study) {
  const std::shared_ptr<Entry> entry = Find(study.key);
  std::vector<TrialValues> results;
  size_t bytes = 0;
  {
    base::MutexLock lock(&entry->mutex);
    LUTHIER_RETURN_IF_ERROR(entry->table.Update(storage, study, memory_));
    results = entry->table.Results(study.spec);
    bytes = entry->table.bytes();
  }
  Keep(study.key, bytes);
  return results;
}

absl::Status TrialTables::Read(storage::Storage* storage, const std::string& id,
                               const v1::GetTrialTableRequest& request, v1::GetTrialTableResponse* response) {
  constexpr int kMaxColumns = 4096;
  if (request.columns_size() > kMaxColumns) {
    return base::BadField("columns", absl::StrCat("has more than ", kMaxColumns, " entries"));
  }
  std::string query = absl::StrCat("table ", id, " ", request.after_seq());
  for (const std::string& column : request.columns()) absl::StrAppend(&query, " ", column);
  LUTHIER_ASSIGN_OR_RETURN(const std::string position, ParsePageToken(query, request.page_token()));
  TrialTable::Query page;
  page.columns.assign(request.columns().begin(), request.columns().end());
  page.after_seq = request.after_seq();
  page.bytes = kPageBytes;
  uint64_t seq = 0;
  if (!position.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(position, '-');
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &page.after_number) || page.after_number < 0 ||
        !absl::SimpleAtoi(parts[1], &seq)) {
      return base::BadField("page_token", absl::StrCat(base::Quote(request.page_token()), " is not a token of ours"));
    }
  }
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id));
  const std::shared_ptr<Entry> entry = Find(study.key);
  size_t bytes = 0;
  {
    base::MutexLock lock(&entry->mutex);
    LUTHIER_RETURN_IF_ERROR(entry->table.Update(storage, study, memory_));
    LUTHIER_ASSIGN_OR_RETURN(const int64_t last, entry->table.Fill(page, response));
    response->set_seq(position.empty() ? entry->table.seq() : seq);
    if (last != 0) {
      response->set_next_page_token(MakePageToken(query, absl::StrCat(last, "-", response->seq())));
    }
    bytes = entry->table.bytes();
  }
  Keep(study.key, bytes);
  return absl::OkStatus();
}

}  // namespace luthier::service
