#include "lib/objectives/crf_objective.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/crf/attribute_text.h"
#include "lib/crf/column_text.h"
#include "lib/crf/data_file.h"
#include "lib/crf/features.h"
#include "lib/crf/letters_reader.h"
#include "lib/crf/synth_chains.h"
#include "lib/crf/trainer.h"
#include "lib/learn/split.h"
#include "lib/learn/synth_uri.h"
#include "lib/learn/text_source.h"
#include "lib/objectives/parameter_info.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {
namespace {

using crf::ChainData;
using crf::ChainOutcome;

constexpr char kCheckpointKind[] = "objective.crf/3";
constexpr size_t kKeptEncodings = 3;

// Training and validation sequences, encoded.
struct ChainFold {
  ChainData train, validation;
};

// Every fold with the attributes of one choice of feature settings.
struct Encoded {
  std::string key;
  std::vector<ChainFold> folds;
  std::string identity;  // Fingerprints of all.
};

// Where encoded data are kept for later processes.
struct Kept {
  const learn::DataCache* cache = nullptr;
  learn::UniqueFd fd;  // Of the training data.
  learn::DataCache::Source source;
  std::string key;  // All that the encoded data depend on beside that file and the feature settings.
};

// What was read: columns of text or tokens with attributes, whose encoding depends on the trial, or letters, whose does
// not.
struct Source {
  std::optional<crf::ColumnText> columns, columns_validation;  // The second: from a file of its own.
  std::optional<crf::AttributeText> tokens, tokens_validation;
  std::vector<learn::Partition> parts;  // Sequences; `validation` of the second file if there is one.
  std::shared_ptr<const Encoded> letters;
  std::vector<crf::Template> templates;
  std::optional<Kept> kept;
};

class CrfObjective final : public Objective {
 public:
  CrfObjective(const ObjectiveInfo& info, study::Parameters options, Source source)
      : info_(info), options_(std::move(options)), source_(std::move(source)) {}

  const ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  absl::StatusOr<std::shared_ptr<const Encoded>> Encode(const Settings& settings) const;
  void Remember(std::shared_ptr<const Encoded> encoded) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ObjectiveInfo& info_;
  const study::Parameters options_;
  const Source source_;
  mutable base::Mutex mutex_;
  mutable std::deque<std::shared_ptr<const Encoded>> encoded_ ABSL_GUARDED_BY(mutex_);  // Newest last.
};

void Keep(const Kept& kept, const Encoded& encoded) {
  kept.cache->Put(absl::StrCat(kept.key, "\n", encoded.key), kept.fd.get(), kept.source,
                  [&](learn::CheckpointWriter* writer) {
                    writer->U64(encoded.folds.size());
                    for (const ChainFold& fold : encoded.folds) {
                      crf::SaveData(fold.train, writer);
                      crf::SaveData(fold.validation, writer);
                    }
                    writer->Text(encoded.identity);
                  });
}

// Fills what an earlier process kept; false leaves it as new.
bool FindKept(const Kept& kept, const std::string& key, Encoded* encoded) {
  std::optional<learn::DataCache::Entry> entry =
      kept.cache->Find(absl::StrCat(kept.key, "\n", key), kept.fd.get(), kept.source);
  if (!entry) return false;
  Encoded found;
  found.key = key;
  const uint64_t folds = entry->reader().U64();
  for (uint64_t k = 0; k < folds && entry->reader().ok(); ++k) {
    ChainFold& fold = found.folds.emplace_back();
    if (!crf::LoadData(&entry->reader(), &fold.train) || !crf::LoadData(&entry->reader(), &fold.validation)) {
      return false;
    }
  }
  found.identity = entry->reader().Text();
  if (!entry->reader().Done() || found.folds.empty()) return false;
  *encoded = std::move(found);
  return true;
}

absl::StatusOr<std::shared_ptr<const Encoded>> CrfObjective::Encode(const Settings& settings) const {
  if (source_.letters != nullptr) return source_.letters;
  const crf::FeatureOptions options = ChainFeatureOptions(settings, source_.templates);
  const std::string key =
      absl::StrCat(settings.Int("window"), " ", settings.Int("max_positions"), " ", options.lower_words, " ",
                   settings.Text("boundary"), " ", options.min_count, " ", options.hash_bits);
  // Trials that need the same encoding at once wait for one of them: it costs time and memory.
  base::MutexLock lock(&mutex_);
  for (const std::shared_ptr<const Encoded>& one : encoded_) {
    if (one->key == key) return one;
  }
  auto encoded = std::make_shared<Encoded>();
  if (source_.kept && FindKept(*source_.kept, key, encoded.get())) {
    Remember(encoded);
    return std::shared_ptr<const Encoded>(encoded);
  }
  encoded->key = key;
  for (const learn::Partition& part : source_.parts) {
    constexpr auto kKeep = crf::FeatureMap::UnknownLabels::kKeep;
    ChainFold fold;
    if (source_.columns) {
      const crf::ColumnText& other = source_.columns_validation ? *source_.columns_validation : *source_.columns;
      LUTHIER_ASSIGN_OR_RETURN(const auto map, crf::FeatureMap::Fit(*source_.columns, part.train, options));
      LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(*source_.columns, part.train));
      LUTHIER_ASSIGN_OR_RETURN(fold.validation, map.Encode(other, part.validation, kKeep));
    } else {
      const crf::AttributeText& other = source_.tokens_validation ? *source_.tokens_validation : *source_.tokens;
      LUTHIER_ASSIGN_OR_RETURN(const auto map, crf::AttributeMap::Fit(*source_.tokens, part.train, options.min_count));
      LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(*source_.tokens, part.train));
      LUTHIER_ASSIGN_OR_RETURN(fold.validation, map.Encode(other, part.validation, kKeep));
    }
    absl::StrAppend(&encoded->identity, crf::Fingerprint(fold.train), " ", crf::Fingerprint(fold.validation), " ");
    encoded->folds.push_back(std::move(fold));
  }
  if (source_.kept) Keep(*source_.kept, *encoded);
  Remember(encoded);
  return std::shared_ptr<const Encoded>(encoded);
}

void CrfObjective::Remember(std::shared_ptr<const Encoded> encoded) const {
  encoded_.push_back(std::move(encoded));
  if (encoded_.size() > kKeptEncodings) encoded_.pop_front();
}

// One fold's training.
struct ChainRun {
  const ChainFold* fold;
  crf::ChainTrainer trainer;
  int64_t quanta = 0;  // Finished calls of Advance.

  bool running() const {
    return trainer.outcome() == ChainOutcome::kRunning || trainer.outcome() == ChainOutcome::kStopped;
  }
};

// Of the curve: the mean over folds, whole.
int64_t StepOf(const std::vector<ChainRun>& runs) {
  double passes = 0.0;
  for (const ChainRun& run : runs) passes += run.trainer.passes() / static_cast<double>(runs.size());
  return static_cast<int64_t>(passes);
}

// Over all folds' held-out tokens and segments.
study::Measurement Measure(const std::vector<ChainRun>& runs) {
  double loss = 0.0, known = 0.0, right = 0.0, tokens = 0.0;
  crf::SegmentCounts segments;
  for (const ChainRun& run : runs) {
    const crf::ChainLoss::Metrics m = crf::ChainLoss(&run.fold->validation).Evaluate(run.trainer.Weights());
    loss += m.loss_nats * static_cast<double>(m.known_tokens);
    known += static_cast<double>(m.known_tokens);
    right += m.accuracy * static_cast<double>(m.tokens);
    tokens += static_cast<double>(m.tokens);
    segments.found += m.segments.all.found;
    segments.gold += m.segments.all.gold;
    segments.correct += m.segments.all.correct;
  }
  study::Measurement point;
  point.step = StepOf(runs);
  point.metrics["validation_loss"] = loss / std::max(known, 1.0);
  point.metrics["validation_accuracy"] = right / tokens;
  point.metrics["validation_f1"] = segments.f1();
  return point;
}

absl::StatusOr<std::vector<ChainRun>> MakeRuns(const Encoded& data, double l2,
                                               const crf::ChainTrainerOptions& options) {
  std::vector<ChainRun> runs;
  for (const ChainFold& fold : data.folds) {
    LUTHIER_ASSIGN_OR_RETURN(crf::ChainTrainer trainer, crf::ChainTrainer::Create(&fold.train, l2, options));
    runs.push_back({&fold, std::move(trainer), 0});
  }
  return runs;
}

std::string SaveRuns(const std::vector<ChainRun>& runs, const std::string& identity) {
  learn::CheckpointWriter writer(kCheckpointKind);
  for (size_t k = 0; k < runs.size(); ++k) {
    writer.U64(static_cast<uint64_t>(runs[k].quanta));
    runs[k].trainer.Save(&writer, absl::StrCat(identity, " fold ", k));
  }
  return std::move(writer).Finish();
}

// Whether `bytes` fitted; else the runs are of no use.
bool LoadRuns(const std::string& bytes, const std::string& identity, std::vector<ChainRun>* runs) {
  absl::StatusOr<learn::CheckpointReader> reader = learn::CheckpointReader::Open(bytes, kCheckpointKind);
  if (!reader.ok()) return false;
  for (size_t k = 0; k < runs->size(); ++k) {
    ChainRun& run = (*runs)[k];
    run.quanta = static_cast<int64_t>(reader->U64());
    if (run.quanta < 0 || !run.trainer.Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
  }
  return reader->Done();
}

absl::StatusOr<EvaluationResult> CrfObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const Settings settings, Settings::Resolve(info_, options_, context.parameters));
  LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<const Encoded> data, Encode(settings));
  LUTHIER_ASSIGN_OR_RETURN(const crf::ChainTrainerOptions options, ChainTrainingOptions(settings, context.seed));
  const std::atomic<bool>* stop = context.cancellation == nullptr ? nullptr : &context.cancellation->flag();
  const double l2 = settings.Number("l2");
  const int64_t report_every = settings.Int("report_every");
  const int64_t checkpoint_every = settings.Int("checkpoint_every");
  study::Parameters relevant = settings.values();
  for (const char* name : {"report_every", "checkpoint_every", "max_memory_mib"}) relevant.erase(name);
  const std::string identity =
      absl::StrCat(data->identity, " seed ", context.seed, " ", study::FormatParameters(relevant));

  EvaluationResult result;
  const auto fail = [&](const char* reason, const std::string& message) {
    result.outcome = EvaluationOutcome::kFailed;
    result.failure = study::Failure{study::FailureKind::kConfig, reason, message};
    return result;
  };
  absl::StatusOr<std::vector<ChainRun>> made = MakeRuns(*data, l2, options);
  if (!made.ok()) return fail(study::failure::kBadObjective, std::string(made.status().message()));
  std::vector<ChainRun> runs = std::move(*made);
  if (!context.checkpoint.empty()) {
    result.resumed = LoadRuns(context.checkpoint, identity, &runs);
    if (!result.resumed) {
      LUTHIER_ASSIGN_OR_RETURN(runs, MakeRuns(*data, l2, options));
    }
  }
  if (context.started) context.started(result.resumed, StepOf(runs));
  const auto save = [&] {
    if (context.save_checkpoint) context.save_checkpoint(SaveRuns(runs, identity));
  };
  // All folds advance side by side, a pass or so each a round, so the curve is that of the whole cross-validation.
  // After a cancellation some are a round ahead: they wait.
  int64_t round = runs[0].quanta;
  for (const ChainRun& run : runs) {
    if (run.running()) round = run.quanta;
  }
  for (const ChainRun& run : runs) {
    if (run.running()) round = std::min(round, run.quanta);
  }
  if (context.first_gradient) runs[0].trainer.OnFirstGradient(context.first_gradient);
  while (true) {
    bool any_running = false;
    ++round;
    for (ChainRun& run : runs) {
      if (run.running() && run.quanta < round) {
        const ChainOutcome outcome = run.trainer.Advance(stop);
        if (outcome == ChainOutcome::kStopped) {
          save();
          result.outcome = EvaluationOutcome::kCancelled;
          return result;
        }
        if (outcome == ChainOutcome::kDiverged) {
          return fail(study::failure::kDiverged,
                      absl::StrCat("a loss is not finite after ", static_cast<int64_t>(run.trainer.passes()),
                                   " passes; shorten the step (step_rule lmax, constant_step) or raise l2"));
        }
        ++run.quanta;
      }
      any_running = any_running || run.running();
    }
    if (!any_running) break;
    const bool pause = context.target > 0 && StepOf(runs) >= context.target;
    if (pause || (context.report && round % report_every == 0)) {
      study::Measurement point = Measure(runs);
      const bool go_on = !context.report || context.report(point);
      if (!go_on || pause) {
        result.outcome = go_on ? EvaluationOutcome::kPaused : EvaluationOutcome::kStopped;
        result.measurement = std::move(point);
      }
      if (!go_on) return result;
    }
    if (pause || round % checkpoint_every == 0) save();
    if (pause) return result;
  }
  study::Measurement last = Measure(runs);
  double train_loss = 0.0, train_tokens = 0.0, active = 0.0;
  for (const ChainRun& run : runs) {
    const Eigen::VectorXd w = run.trainer.Weights();
    train_loss += crf::ChainLoss(&run.fold->train).Value(w, nullptr);
    train_tokens += static_cast<double>(run.fold->train.tokens());
    active += static_cast<double>((w.array() != 0.0).count()) / static_cast<double>(runs.size());
  }
  last.metrics["train_loss"] = train_loss / train_tokens;
  last.metrics["active_weights"] = active;
  for (const auto& [name, value] : last.metrics) {
    if (!std::isfinite(value)) {
      return fail(study::failure::kNonFinite, absl::StrCat(name, " is ", study::FormatDouble(value)));
    }
  }
  result.measurement = std::move(last);
  return result;
}

// The columns of a file, from the cache if it has them. `name` is for messages.
absl::StatusOr<crf::ColumnText> ReadText(learn::UniqueFd fd, const std::string& name, const learn::DataCache* cache,
                                         const std::optional<learn::DataCache::Source>& source) {
  const std::string key = absl::StrCat("columns/1\n", name);
  if (source) {
    crf::ColumnText text;
    std::optional<learn::DataCache::Entry> entry = cache->Find(key, fd.get(), *source);
    if (entry && crf::LoadText(&entry->reader(), &text) && entry->reader().Done()) {
      text.name = name;
      return text;
    }
  }
  learn::UniqueFd again(source ? fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<learn::ByteSource> bytes, learn::OpenBytes(std::move(fd), name));
  learn::LineReader lines(std::move(bytes), name);
  LUTHIER_ASSIGN_OR_RETURN(crf::ColumnText text, crf::ReadColumnText(lines));
  if (again.get() >= 0) {
    cache->Put(key, again.get(), *source, [&](learn::CheckpointWriter* writer) { crf::SaveText(text, writer); });
  }
  return text;
}

// One part of round(fraction * n) of the sequences, at least one, at most all but one; or folds.
absl::StatusOr<std::vector<learn::Partition>> SplitSequences(int64_t n, const study::Split& split) {
  if (split.folds > 0) {
    const std::vector<int32_t> one_class(static_cast<size_t>(n), 0);
    return learn::SplitFolds(one_class, 1, split.folds, split.seed);
  }
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  base::RandomStream(split.seed, "crf.split").Shuffle(rows);
  const int64_t held_out =
      std::clamp<int64_t>(std::llround(split.validation * static_cast<double>(n)), 1, std::max<int64_t>(1, n - 1));
  learn::Partition part;
  part.validation.assign(rows.begin(), rows.begin() + held_out);
  part.train.assign(rows.begin() + held_out, rows.end());
  std::sort(part.validation.begin(), part.validation.end());
  std::sort(part.train.begin(), part.train.end());
  return std::vector<learn::Partition>{std::move(part)};
}

std::vector<int32_t> AllRows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

absl::Status NoRoot(const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat("data set ", base::Quote(name),
                                                    " cannot be opened: no data root is set; only synth:… data are "
                                                    "available"));
}

// Columns of text, and which of them are held out; from `validation_data` unless that is empty. `key`: what the encoded
// data depend on beside the files and the split.
absl::Status ReadColumns(const study::BuiltinObjective& objective, const std::string& validation_data,
                         const learn::DataRoot* root, const learn::DataCache* cache, std::string key, Source* source) {
  const bool generated = learn::IsSynth(objective.data);
  if (root == nullptr && (!generated || !validation_data.empty())) {
    return NoRoot(generated ? validation_data : objective.data);
  }
  std::optional<learn::DataCache::Source> state;
  learn::UniqueFd kept_fd(-1);
  if (generated) {
    LUTHIER_ASSIGN_OR_RETURN(learn::LineReader lines, OpenChains(objective.data, "columns", nullptr));
    LUTHIER_ASSIGN_OR_RETURN(source->columns, crf::ReadColumnText(lines));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd fd, root->OpenFile(objective.data));
    if (cache != nullptr) state = cache->Look(fd.get());
    if (state) kept_fd = learn::UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    LUTHIER_ASSIGN_OR_RETURN(source->columns, ReadText(std::move(fd), objective.data, cache, state));
  }
  absl::StrAppend(&key, "\n", objective.data, "\n", study::FormatDouble(objective.split.validation), " ",
                  objective.split.folds, " ", objective.split.seed, "\n", validation_data);
  if (validation_data.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(source->parts, SplitSequences(source->columns->sequences(), objective.split));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd more, root->OpenFile(validation_data));
    std::optional<learn::DataCache::Source> other;
    std::string further;
    if (cache != nullptr) {
      other = cache->Look(more.get());
      further = cache->StateOf(more.get());
    }
    LUTHIER_ASSIGN_OR_RETURN(source->columns_validation, ReadText(std::move(more), validation_data, cache, other));
    if (source->columns_validation->columns != source->columns->columns) {
      return absl::InvalidArgumentError(absl::StrCat(validation_data, ": has ", source->columns_validation->columns + 1,
                                                     " columns, but ", objective.data, " has ",
                                                     source->columns->columns + 1));
    }
    source->parts.push_back({AllRows(source->columns->sequences()), AllRows(source->columns_validation->sequences())});
    // One that may still change leaves nothing to keep.
    if (further.empty()) state.reset();
    absl::StrAppend(&key, "\n", further);
  }
  if (state && kept_fd.get() >= 0) source->kept = Kept{cache, std::move(kept_fd), *state, std::move(key)};
  return absl::OkStatus();
}

// The templates that the trial's switches leave.
std::vector<crf::Template> Reduce(const std::vector<crf::Template>& all, int64_t window, int64_t max_positions) {
  std::vector<crf::Template> kept;
  for (const crf::Template& one : all) {
    const bool inside = std::all_of(one.positions.begin(), one.positions.end(),
                                    [&](const crf::Position& p) { return std::abs(p.offset) <= window; });
    if (inside && static_cast<int64_t>(one.positions.size()) <= max_positions) kept.push_back(one);
  }
  return kept;
}

}  // namespace

crf::FeatureOptions ChainFeatureOptions(const Settings& settings, const std::vector<crf::Template>& templates) {
  crf::FeatureOptions options;
  options.templates = Reduce(templates, settings.Int("window"), settings.Int("max_positions"));
  options.lower_words = settings.Bool("lower_words");
  const std::string& boundary = settings.Text("boundary");
  options.boundary = boundary == "single"     ? crf::Boundary::kSingle
                     : boundary == "numbered" ? crf::Boundary::kNumbered
                                              : crf::Boundary::kSkip;
  options.min_count = settings.Int("min_count");
  options.hash_bits = static_cast<int>(settings.Int("hash_bits"));
  return options;
}

absl::Status CheckSynthChains(const std::string& uri, absl::string_view format) {
  if (format == "letters") return crf::ParseSynthLetters(uri).status();
  if (format == "attributes") {
    return learn::SynthError(uri, "there are no generated data of format attributes; use synth:sequences");
  }
  return crf::ParseSynthSequences(uri).status();
}

absl::StatusOr<learn::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                             const learn::DataRoot* root) {
  if (learn::IsSynth(name)) {
    LUTHIER_RETURN_IF_ERROR(CheckSynthChains(name, format));
    std::string text = format == "letters" ? crf::SynthesizeLetters(crf::ParseSynthLetters(name).value())
                                           : crf::SynthesizeSequences(crf::ParseSynthSequences(name).value());
    return learn::LineReader(learn::BytesOf(std::move(text)), name);
  }
  if (root == nullptr) return NoRoot(name);
  LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd fd, root->OpenFile(name));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<learn::ByteSource> bytes, learn::OpenBytes(std::move(fd), name));
  return learn::LineReader(std::move(bytes), name);
}

absl::StatusOr<std::vector<crf::Template>> ChainTemplates(const std::string& templates, const std::string& columns) {
  const std::vector<std::string> names = absl::StrSplit(columns, ',', absl::SkipWhitespace());
  return crf::ParseTemplates(templates.empty() ? "chunking" : templates, names);
}

absl::StatusOr<crf::ChainTrainerOptions> ChainTrainingOptions(const Settings& settings, uint64_t seed) {
  crf::ChainTrainerOptions options;
  LUTHIER_ASSIGN_OR_RETURN(options.method, crf::ParseChainMethod(settings.Text("solver")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.sampling, stochastic::ParseSampling(settings.Text("sampling")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.step, stochastic::ParseStepRule(settings.Text("step_rule")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.memory, crf::ParseMemoryMode(settings.Text("memory")));
  options.average.constant_step = options.rate = settings.Number("constant_step");
  options.average.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  options.average.seed = seed;
  options.l1 = settings.Number("l1");
  options.threads = static_cast<int>(settings.Int("threads"));
  options.tolerance = settings.Number("tolerance");
  options.max_passes = static_cast<double>(settings.Int("max_passes"));
  return options;
}

ObjectiveInfo CrfInfo() {
  ObjectiveInfo info;
  info.model = "crf";
  info.description =
      "Linear-chain conditional random field (tagging, chunking, names, letters): tunes it on held-out data";
  info.details =
      "Minimises the sum over training sequences of -log p(labels | tokens) plus l2/2 times the squared norm of all "
      "weights, and l1 times their sum of absolute values: l2 = 1 is lambda = 1/n of a mean loss, CRFsuite's c2 = 1/2. "
      "Attributes of a token come from templates "
      "over columns of text, or are the pixels of letters. Trained by a stochastic average gradient method, or L-BFGS. "
      "Intermediate reports count passes over the training data, a loss of a line search as a whole pass of one "
      "sequence.";
  info.needs_data = true;
  info.data_example = "synth:sequences?sentences=500";
  info.data_formats =
      "A file of sequences below the worker's --data-root, plain, .gz or .xz, in the format of option `format`, or "
      "generated: synth:sequences?sentences=500&length=12&types=3&words=2000&noise=0.1&seed=1 for columns, "
      "synth:letters?words=300&letters=26&length=7&noise=0.05&seed=1 for letters. Split by share (split.validation) or "
      "into folds (split.folds), from split.seed.";
  auto& list = info.parameters;
  ParameterInfo l2 = MakeNumber("l2", ParameterKind::kFloat, "Strength of the L2 penalty. Search it on a log scale.",
                                1.0, true, 1e-8, 1e8);
  l2.default_value.reset();
  l2.suggested_min = 1e-2;
  l2.suggested_max = 1e2;
  l2.suggested_scale = study::Scale::kLog;
  l2.units = "nats per squared weight";
  list.push_back(std::move(l2));
  list.push_back(MakeNumber("l1", ParameterKind::kFloat,
                            "Strength of an l1 penalty beside l2 (elastic net): unneeded weights become 0. Solvers sag "
                            "and saga only.",
                            0.0, true, 0.0, 1e8));
  list.back().suggested_min = 1e-2;
  list.back().suggested_max = 1e2;
  list.back().suggested_scale = study::Scale::kLog;
  list.back().units = "nats per absolute weight";
  list.push_back(MakeNumber("min_count", ParameterKind::kInt,
                            "Attributes that occur less often in the training data are dropped.", 1.0, true, 1.0, 1e6));
  list.back().suggested_max = 10.0;
  list.push_back(MakeNumber("window", ParameterKind::kInt,
                            "Templates that look farther than so many tokens are dropped.", 100.0, true, 0.0, 100.0));
  list.back().suggested_max = 3.0;
  list.push_back(MakeNumber("max_positions", ParameterKind::kInt,
                            "Templates that join more texts than this are dropped.", 10.0, true, 1.0, 10.0));
  list.back().suggested_max = 3.0;
  list.push_back(
      Make("lower_words", ParameterKind::kBool, "Capitals of the first column are read as small letters.", true, true));
  list.push_back(MakeChoice("boundary",
                            "What templates see outside of a sequence: one text, one for each side and "
                            "distance, or nothing (the template gives no attribute).",
                            {"single", "numbered", "skip"}, true));
  list.push_back(MakeNumber("hash_bits", ParameterKind::kInt,
                            "0: a dictionary of attributes; else 2^hash_bits rows found by hashing.", 0.0, true, 0.0,
                            28.0));
  list.push_back(MakeChoice("solver",
                            "Training algorithm; all go to the same optimum, but sg, asg, pegasos, adagrad and smd "
                            "not all the way, and use up max_passes.",
                            crf::ChainMethodNames(), true));
  list.push_back(MakeChoice("sampling",
                            "Which sequence comes next: a mixture of uniform and by Lipschitz constants "
                            "(ms), by constants (pl), uniform (u), permutations (rp), fixed orders. Without "
                            "constants (sg, asg, pegasos, adagrad, oeg) ms and pl are u.",
                            {"ms", "pl", "u", "rp", "cyclic", "cyclic2"}, true));
  list.push_back(MakeChoice("step_rule", "How the step follows from the largest and the mean Lipschitz constant.",
                            {"hedge", "lmax", "lmean", "opt", "averagehedgeopt1", "averagehedgeopt2", "const"}, true));
  list.push_back(MakeNumber(
      "constant_step", ParameterKind::kFloat,
      "The step of step_rule const, of sg, asg, pegasos (1 is the classic one) and adagrad, and the first of smd.", 0.1,
      true, 1e-10, 1e10));
  list.back().suggested_min = 1e-4;
  list.back().suggested_max = 10.0;
  list.back().suggested_scale = study::Scale::kLog;
  list.push_back(MakeNumber("max_passes", ParameterKind::kInt, "Training ends after so many passes over the data.",
                            50.0, true, 1.0, 1e6));
  list.back().suggested_min = 5.0;
  list.back().suggested_max = 100.0;
  list.back().suggested_scale = study::Scale::kLog;
  list.push_back(MakeNumber("tolerance", ParameterKind::kFloat,
                            "Training has converged when the largest gradient entry is at most this times the one at "
                            "zero weights.",
                            1e-5, false, 0.0, 0.1));
  list.push_back(MakeChoice("memory", "What is kept of each sequence's last gradient; mixed needs least.",
                            {"mixed", "marginals", "sparse", "absolute"}, false));
  list.push_back(
      MakeNumber("max_memory_mib", ParameterKind::kInt, "Limit for these gradients.", 4096.0, false, 1.0, 1 << 20));
  list.push_back(Make("templates", ParameterKind::kText,
                      "Templates: \"chunking\" (19 over words and tags), CRF++ lines (U01:%x[-1,0]/%x[0,0]) or names "
                      "(w[-1]|w[0]), separated by commas.",
                      std::string("chunking"), false));
  list.push_back(Make("columns", ParameterKind::kText,
                      "Names of the columns for templates, separated by commas; empty: w, pos, c2, c3, ...",
                      std::string(), false));
  list.push_back(Make("validation_data", ParameterKind::kText,
                      "File of the sequences to validate on; empty: a random part of the data (split.validation).",
                      std::string(), false));
  list.push_back(MakeChoice("format",
                            "columns: CoNLL, a token a line, the label last; attributes: CRFsuite, a token a line, the "
                            "label first, then attributes with values (name:value); letters: OCR.",
                            {"columns", "attributes", "letters"}, false));
  list.push_back(MakeNumber("threads", ParameterKind::kInt,
                            "Threads of one fold's training. lbfgs: results depend on their number. sag, saga, saga2 "
                            "(without l1): above 1 a variant that goes by blocks of sequences, the same for any number "
                            "above 1. The others use one.",
                            1.0, false, 1.0, 256.0));
  list.push_back(
      MakeNumber("report_every", ParameterKind::kInt, "Passes between intermediate reports.", 1.0, false, 1.0, 1e6));
  list.push_back(
      MakeNumber("checkpoint_every", ParameterKind::kInt, "Passes between checkpoints.", 20.0, false, 1.0, 1e6));
  info.metrics.push_back(
      {"validation_loss", study::Goal::kMinimize, "Mean of -log p(labels | tokens) a held-out token, nats.", false});
  info.metrics.push_back(
      {"validation_accuracy", study::Goal::kMaximize, "Share of held-out tokens labelled right.", false});
  info.metrics.push_back({"validation_f1", study::Goal::kMaximize,
                          "F1 of segments (labels B-type, I-type, O), as conlleval has it.", false});
  info.metrics.push_back({"train_loss", study::Goal::kMinimize,
                          "Mean of -log p a training token, nats; only at the end of training.", false});
  info.metrics.push_back(
      {"active_weights", study::Goal::kMinimize, "Weights other than 0; only at the end of training.", false});
  return info;
}

absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const ObjectiveInfo& info,
                                                              const study::BuiltinObjective& objective,
                                                              const learn::DataRoot* root,
                                                              const learn::DataCache* cache) {
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
  };
  const std::string validation_data = text("validation_data");
  const bool letters = text("format") == "letters";
  if (objective.split.folds > 0 && !validation_data.empty()) {
    return absl::InvalidArgumentError("validation_data is what is held out: leave out split.folds");
  }
  if (letters && !validation_data.empty()) {
    return absl::InvalidArgumentError(
        "validation_data is not for letters, which are split by split.validation or folds");
  }
  Source source;
  if (letters) {
    LUTHIER_ASSIGN_OR_RETURN(learn::LineReader lines, OpenChains(objective.data, "letters", root));
    LUTHIER_ASSIGN_OR_RETURN(const crf::Letters read, crf::ReadLetters(lines));
    LUTHIER_ASSIGN_OR_RETURN(source.parts, SplitSequences(read.data.sequences(), objective.split));
    auto encoded = std::make_shared<Encoded>();
    for (const learn::Partition& part : source.parts) {
      ChainFold fold = {crf::Select(read.data, part.train), crf::Select(read.data, part.validation)};
      LUTHIER_RETURN_IF_ERROR(crf::CheckChainData(fold.train));
      absl::StrAppend(&encoded->identity, crf::Fingerprint(fold.train), " ", crf::Fingerprint(fold.validation), " ");
      encoded->folds.push_back(std::move(fold));
    }
    source.letters = std::move(encoded);
  } else if (text("format") == "attributes") {
    LUTHIER_ASSIGN_OR_RETURN(learn::LineReader lines, OpenChains(objective.data, "attributes", root));
    LUTHIER_ASSIGN_OR_RETURN(source.tokens, crf::ReadAttributeText(lines));
    if (validation_data.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(source.parts, SplitSequences(source.tokens->sequences(), objective.split));
    } else {
      LUTHIER_ASSIGN_OR_RETURN(learn::LineReader more, OpenChains(validation_data, "attributes", root));
      LUTHIER_ASSIGN_OR_RETURN(source.tokens_validation, crf::ReadAttributeText(more));
      source.parts.push_back({AllRows(source.tokens->sequences()), AllRows(source.tokens_validation->sequences())});
    }
    for (const learn::Partition& part : source.parts) {
      LUTHIER_RETURN_IF_ERROR(crf::AttributeMap::Fit(*source.tokens, part.train, 1).status());
    }
  } else {
    const std::string templates = text("templates"), columns = text("columns");
    LUTHIER_ASSIGN_OR_RETURN(source.templates, ChainTemplates(templates, columns));
    LUTHIER_RETURN_IF_ERROR(ReadColumns(objective, validation_data, root, cache,
                                        absl::StrCat("chains/2\n", templates, "\n", columns), &source));
    // What does not depend on the trial is found wrong now.
    crf::FeatureOptions options;
    options.templates = source.templates;
    for (const learn::Partition& part : source.parts) {
      LUTHIER_RETURN_IF_ERROR(crf::FeatureMap::Check(*source.columns, part.train, options));
    }
  }
  return std::unique_ptr<Objective>(std::make_unique<CrfObjective>(info, objective.options, std::move(source)));
}

}  // namespace luthier::objectives
