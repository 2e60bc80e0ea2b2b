#include "lib/objectives/crf_objective.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/crf/column_text.h"
#include "lib/crf/features.h"
#include "lib/crf/letters_reader.h"
#include "lib/crf/trainer.h"
#include "lib/learn/text_source.h"
#include "lib/objectives/parameter_info.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {
namespace {

using crf::ChainData;
using crf::ChainOutcome;

constexpr char kCheckpointKind[] = "objective.crf/2";
constexpr size_t kKeptEncodings = 3;

// Training and validation sequences with the attributes of one choice of feature settings.
struct Encoded {
  std::string key;
  ChainData train, validation;
  std::string identity;  // Fingerprints of both.
};

// What was read: columns of text, whose attributes depend on the trial, or letters, whose do not.
struct Source {
  std::optional<crf::ColumnText> train, validation;  // `validation`: from a file of its own.
  std::vector<int32_t> train_rows, validation_rows;
  std::shared_ptr<const Encoded> letters;
  std::vector<crf::Template> templates;
};

class CrfObjective final : public Objective {
 public:
  CrfObjective(const ObjectiveInfo& info, study::Parameters options, Source source)
      : info_(info), options_(std::move(options)), source_(std::move(source)) {}

  const ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  absl::StatusOr<std::shared_ptr<const Encoded>> Encode(const Settings& settings) const;

  const ObjectiveInfo& info_;
  const study::Parameters options_;
  const Source source_;
  mutable base::Mutex mutex_;
  mutable std::deque<std::shared_ptr<const Encoded>> encoded_ ABSL_GUARDED_BY(mutex_);  // Newest last.
};

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

absl::StatusOr<std::shared_ptr<const Encoded>> CrfObjective::Encode(const Settings& settings) const {
  if (source_.letters != nullptr) return source_.letters;
  crf::FeatureOptions options;
  options.templates = Reduce(source_.templates, settings.Int("window"), settings.Int("max_positions"));
  options.lower_words = settings.Bool("lower_words");
  const std::string& boundary = settings.Text("boundary");
  options.boundary = boundary == "single"     ? crf::Boundary::kSingle
                     : boundary == "numbered" ? crf::Boundary::kNumbered
                                              : crf::Boundary::kSkip;
  options.min_count = settings.Int("min_count");
  options.hash_bits = static_cast<int>(settings.Int("hash_bits"));
  const std::string key =
      absl::StrCat(settings.Int("window"), " ", settings.Int("max_positions"), " ", options.lower_words, " ", boundary,
                   " ", options.min_count, " ", options.hash_bits);
  // Trials that need the same encoding at once wait for one of them: it costs time and memory.
  base::MutexLock lock(&mutex_);
  for (const std::shared_ptr<const Encoded>& one : encoded_) {
    if (one->key == key) return one;
  }
  auto encoded = std::make_shared<Encoded>();
  encoded->key = key;
  LUTHIER_ASSIGN_OR_RETURN(const crf::FeatureMap map,
                           crf::FeatureMap::Fit(*source_.train, source_.train_rows, std::move(options)));
  LUTHIER_ASSIGN_OR_RETURN(encoded->train, map.Encode(*source_.train, source_.train_rows));
  LUTHIER_ASSIGN_OR_RETURN(encoded->validation,
                           map.Encode(source_.validation ? *source_.validation : *source_.train,
                                      source_.validation_rows, crf::FeatureMap::UnknownLabels::kKeep));
  encoded->identity = absl::StrCat(crf::Fingerprint(encoded->train), " ", crf::Fingerprint(encoded->validation));
  encoded_.push_back(encoded);
  if (encoded_.size() > kKeptEncodings) encoded_.pop_front();
  return std::shared_ptr<const Encoded>(encoded);
}

absl::StatusOr<crf::ChainTrainerOptions> TrainerOptions(const Settings& settings, uint64_t seed) {
  crf::ChainTrainerOptions options;
  LUTHIER_ASSIGN_OR_RETURN(options.method, crf::ParseChainMethod(settings.Text("solver")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.sampling, stochastic::ParseSampling(settings.Text("sampling")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.step, stochastic::ParseStepRule(settings.Text("step_rule")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.memory, crf::ParseMemoryMode(settings.Text("memory")));
  options.average.constant_step = options.rate = settings.Number("constant_step");
  options.average.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  options.average.seed = seed;
  options.tolerance = settings.Number("tolerance");
  options.max_passes = static_cast<double>(settings.Int("max_passes"));
  return options;
}

study::Measurement Measure(const ChainData& validation, const crf::ChainTrainer& trainer) {
  const crf::ChainLoss::Metrics m = crf::ChainLoss(&validation).Evaluate(trainer.Weights());
  study::Measurement point;
  point.step = static_cast<int64_t>(trainer.passes());
  point.metrics["validation_loss"] = m.loss_nats;
  point.metrics["validation_accuracy"] = m.accuracy;
  point.metrics["validation_f1"] = m.segments.all.f1();
  return point;
}

absl::StatusOr<EvaluationResult> CrfObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const Settings settings, Settings::Resolve(info_, options_, context.parameters));
  LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<const Encoded> data, Encode(settings));
  LUTHIER_ASSIGN_OR_RETURN(const crf::ChainTrainerOptions options, TrainerOptions(settings, context.seed));
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
  absl::StatusOr<crf::ChainTrainer> made = crf::ChainTrainer::Create(&data->train, l2, options);
  if (!made.ok()) return fail(study::failure::kBadObjective, std::string(made.status().message()));
  crf::ChainTrainer trainer = std::move(*made);
  // The quantum after which the last report was made is that of the checkpoint, so the curve goes on where it was.
  int64_t quantum = 0;
  if (!context.checkpoint.empty()) {
    absl::StatusOr<learn::CheckpointReader> reader = learn::CheckpointReader::Open(context.checkpoint, kCheckpointKind);
    if (reader.ok()) {
      const auto saved = static_cast<int64_t>(reader->U64());
      result.resumed = trainer.Load(&*reader, identity).ok() && reader->Done() && saved >= 0;
      if (result.resumed) {
        quantum = saved;
      } else {
        LUTHIER_ASSIGN_OR_RETURN(trainer, crf::ChainTrainer::Create(&data->train, l2, options));
      }
    }
  }
  const auto save = [&] {
    if (!context.save_checkpoint) return;
    learn::CheckpointWriter writer(kCheckpointKind);
    writer.U64(static_cast<uint64_t>(quantum));
    trainer.Save(&writer, identity);
    context.save_checkpoint(std::move(writer).Finish());
  };
  while (true) {
    const ChainOutcome outcome = trainer.Advance(stop);
    if (outcome == ChainOutcome::kStopped) {
      save();
      result.outcome = EvaluationOutcome::kCancelled;
      return result;
    }
    if (outcome == ChainOutcome::kDiverged) {
      return fail(study::failure::kDiverged,
                  absl::StrCat("a loss is not finite after ", static_cast<int64_t>(trainer.passes()),
                               " passes; shorten the step (step_rule lmax) or raise l2"));
    }
    if (outcome != ChainOutcome::kRunning) break;
    ++quantum;
    if (context.report && quantum % report_every == 0) {
      study::Measurement point = Measure(data->validation, trainer);
      if (!context.report(point)) {
        result.outcome = EvaluationOutcome::kStopped;
        result.measurement = std::move(point);
        return result;
      }
    }
    if (quantum % checkpoint_every == 0) save();
  }
  study::Measurement last = Measure(data->validation, trainer);
  crf::ChainLoss train(&data->train);
  last.metrics["train_loss"] = train.Value(trainer.Weights(), nullptr) / static_cast<double>(data->train.tokens());
  for (const auto& [name, value] : last.metrics) {
    if (!std::isfinite(value)) {
      return fail(study::failure::kNonFinite, absl::StrCat(name, " is ", study::FormatDouble(value)));
    }
  }
  result.measurement = std::move(last);
  return result;
}

// round(fraction * n) of the sequences, at least one, at most all but one.
void SplitRows(int64_t n, const study::Split& split, Source* source) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  base::RandomStream(split.seed, "crf.split").Shuffle(rows);
  const int64_t held_out =
      std::clamp<int64_t>(std::llround(split.validation * static_cast<double>(n)), 1, std::max<int64_t>(1, n - 1));
  source->validation_rows.assign(rows.begin(), rows.begin() + held_out);
  source->train_rows.assign(rows.begin() + held_out, rows.end());
  std::sort(source->validation_rows.begin(), source->validation_rows.end());
  std::sort(source->train_rows.begin(), source->train_rows.end());
}

std::vector<int32_t> AllRows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

ObjectiveInfo CrfInfo() {
  ObjectiveInfo info;
  info.model = "crf";
  info.description =
      "Linear-chain conditional random field (tagging, chunking, names, letters): tunes it on held-out data";
  info.details =
      "Minimises the sum over training sequences of -log p(labels | tokens) plus l2/2 times the squared norm of all "
      "weights: l2 = 1 is lambda = 1/n of a mean loss, CRFsuite's c2 = 1/2. Attributes of a token come from templates "
      "over columns of text, or are the pixels of letters. Trained by a stochastic average gradient method, or L-BFGS. "
      "Intermediate reports count passes over the training data, a loss of a line search as a whole pass of one "
      "sequence.";
  info.needs_data = true;
  auto& list = info.parameters;
  ParameterInfo l2 = MakeNumber("l2", ParameterKind::kFloat, "Strength of the L2 penalty. Search it on a log scale.",
                                1.0, true, 1e-8, 1e8);
  l2.default_value.reset();
  l2.suggested_min = 1e-2;
  l2.suggested_max = 1e2;
  l2.suggested_scale = study::Scale::kLog;
  l2.units = "nats per squared weight";
  list.push_back(std::move(l2));
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
  list.push_back(MakeChoice("format", "columns: CoNLL, a token a line, the label last; letters: OCR.",
                            {"columns", "letters"}, false));
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
  return info;
}

absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const ObjectiveInfo& info,
                                                              const study::BuiltinObjective& objective,
                                                              const learn::DataRoot* root) {
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
  };
  const std::string validation_data = text("validation_data");
  const bool letters = text("format") == "letters";
  if (absl::StartsWith(objective.data, "synth:")) {
    return absl::InvalidArgumentError("crf reads files; there are no generated sequences");
  }
  if (objective.split.folds > 0 && validation_data.empty()) {
    return absl::InvalidArgumentError(
        "crf holds out one part of the data: set split.validation instead of split.folds");
  }
  if (letters && !validation_data.empty()) {
    return absl::InvalidArgumentError("validation_data is for columns; letters are split by split.validation");
  }
  if (root == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set ", base::Quote(objective.data), " cannot be opened: no data root is set"));
  }
  const auto open = [&](const std::string& name) -> absl::StatusOr<learn::LineReader> {
    LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd fd, root->OpenFile(name));
    LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<learn::ByteSource> bytes, learn::OpenBytes(std::move(fd), name));
    return learn::LineReader(std::move(bytes), name);
  };
  Source source;
  LUTHIER_ASSIGN_OR_RETURN(learn::LineReader lines, open(objective.data));
  if (letters) {
    LUTHIER_ASSIGN_OR_RETURN(const crf::Letters read, crf::ReadLetters(lines));
    SplitRows(read.data.sequences(), objective.split, &source);
    auto encoded = std::make_shared<Encoded>();
    encoded->train = crf::Select(read.data, source.train_rows);
    encoded->validation = crf::Select(read.data, source.validation_rows);
    LUTHIER_RETURN_IF_ERROR(crf::CheckChainData(encoded->train));
    encoded->identity = absl::StrCat(crf::Fingerprint(encoded->train), " ", crf::Fingerprint(encoded->validation));
    source.letters = std::move(encoded);
  } else {
    const std::string templates = text("templates");
    std::vector<std::string> columns = absl::StrSplit(text("columns"), ',', absl::SkipWhitespace());
    LUTHIER_ASSIGN_OR_RETURN(source.templates,
                             crf::ParseTemplates(templates.empty() ? "chunking" : templates, columns));
    LUTHIER_ASSIGN_OR_RETURN(source.train, crf::ReadColumnText(lines));
    if (validation_data.empty()) {
      SplitRows(source.train->sequences(), objective.split, &source);
    } else {
      LUTHIER_ASSIGN_OR_RETURN(learn::LineReader more, open(validation_data));
      LUTHIER_ASSIGN_OR_RETURN(source.validation, crf::ReadColumnText(more));
      if (source.validation->columns != source.train->columns) {
        return absl::InvalidArgumentError(absl::StrCat(validation_data, ": has ", source.validation->columns + 1,
                                                       " columns, but ", objective.data, " has ",
                                                       source.train->columns + 1));
      }
      source.train_rows = AllRows(source.train->sequences());
      source.validation_rows = AllRows(source.validation->sequences());
    }
    // What does not depend on the trial is found wrong now.
    crf::FeatureOptions options;
    options.templates = source.templates;
    LUTHIER_RETURN_IF_ERROR(crf::FeatureMap::Fit(*source.train, source.train_rows, std::move(options)).status());
  }
  return std::unique_ptr<Objective>(std::make_unique<CrfObjective>(info, objective.options, std::move(source)));
}

}  // namespace luthier::objectives
