#include "lib/catalogue/crf_info.h"

#include <string>
#include <vector>

#include "lib/catalogue/parameter_info.h"
#include "lib/study/warm_start.h"

namespace luthier::catalogue {

namespace {

// The parameters follow each other in the order in which a user meets them.
void AddPenalties(std::vector<ParameterInfo>* list) {
  list->push_back(MakeL2(1e8, 1e2));
  list->back().differentiable = true;
  list->push_back(
      Make("l2_groups", ParameterKind::kText,
           "Groups of weights with strengths of their own, \"transitions; words: w[*\": of transitions, bias, "
           "ends, templates (U05, w[-1]|w[0], pos*), the attributes of a file, or pixels. Each group makes a "
           "parameter l2.NAME, required as l2 is, which is the strength of all others, and l1.NAME, 0 by default.",
           std::string(), false));
  list->push_back(MakeNumber("l1", ParameterKind::kFloat,
                             "Strength of an l1 penalty beside l2 (elastic net): unneeded weights become 0. Not "
                             "with solver lbfgs. Of the weights in no group.",
                             0.0, true, 0.0, 1e8));
  list->back().suggested_min = 1e-2;
  list->back().suggested_max = 1e2;
  list->back().suggested_scale = study::Scale::kLog;
  list->back().units = "nats per absolute weight";
}

void AddFeatures(std::vector<ParameterInfo>* list) {
  list->push_back(MakeNumber("min_count", ParameterKind::kInt,
                             "Attributes that occur less often in the training data are dropped.", 1.0, true, 1.0,
                             1e6));
  list->back().suggested_max = 10.0;
  list->push_back(MakeNumber("window", ParameterKind::kInt,
                             "Templates that look farther than so many tokens are dropped.", 100.0, true, 0.0, 100.0));
  list->back().suggested_max = 3.0;
  list->push_back(MakeNumber("max_positions", ParameterKind::kInt,
                             "Templates that join more texts than this are dropped.", 10.0, true, 1.0, 10.0));
  list->back().suggested_max = 3.0;
  list->push_back(
      Make("lower_words", ParameterKind::kBool, "Capitals of the first column are read as small letters.", true, true));
  list->push_back(MakeChoice("boundary",
                             "What templates see outside of a sequence: one text, one for each side and "
                             "distance, or nothing (the template gives no attribute).",
                             {"single", "numbered", "skip"}, true));
  list->push_back(MakeNumber("hash_bits", ParameterKind::kInt,
                             "0: a dictionary of attributes; else 2^hash_bits rows found by hashing.", 0.0, true, 0.0,
                             28.0));
}

void AddSolver(std::vector<ParameterInfo>* list) {
  list->push_back(
      MakeChoice("solver",
                 "Training algorithm: stochastic average gradients (sag, which auto is; saga) or L-BFGS. All "
                 "end at the same optimum.",
                 {"auto", "sag", "saga", "lbfgs"}, true));
  list->push_back(MakeNumber("max_passes", ParameterKind::kInt, "Training ends after so many passes over the data.",
                             200.0, true, 1.0, 1e6));
  list->back().suggested_min = 5.0;
  list->back().suggested_max = 200.0;
  list->back().suggested_scale = study::Scale::kLog;
  list->push_back(MakeNumber("tolerance", ParameterKind::kFloat,
                             "Training has converged when the largest gradient entry is at most this times the one at "
                             "zero weights.",
                             1e-5, false, 0.0, 0.1));
  list->push_back(
      Make(study::kWarmStartOption, ParameterKind::kBool,
           "Training goes on from where the nearest earlier trial ended that differs in strengths of penalties alone. "
           "Results then depend on it, up to the tolerance, and more where training ends at max_passes. Not with "
           "resource, stopping or reproducible.",
           false, false));
  list->push_back(MakeNumber("max_memory_mib", ParameterKind::kInt,
                             "Limit for the solver's remembered gradients and vectors of weights, of each fold.",
                             4096.0, false, 1.0, 1 << 20));
}

void AddData(std::vector<ParameterInfo>* list) {
  list->push_back(Make("templates", ParameterKind::kText,
                       "Templates: \"chunking\" (19 over words and tags), CRF++ lines (U01:%x[-1,0]/%x[0,0]) or names "
                       "(w[-1]|w[0]), separated by commas.",
                       std::string("chunking"), false));
  list->push_back(Make("columns", ParameterKind::kText,
                       "Names of the columns for templates, separated by commas; empty: w, pos, c2, c3, ...",
                       std::string(), false));
  list->push_back(Make("validation_data", ParameterKind::kText,
                       "File of the sequences to validate on; empty: a random part of the data (split.validation).",
                       std::string(), false));
  list->push_back(
      MakeChoice("format",
                 "columns: CoNLL, a token a line, the label last; attributes: CRFsuite, a token a line, the "
                 "label first, then attributes with values (name:value); letters: OCR.",
                 {"columns", "attributes", "letters"}, false));
}

void AddRunning(std::vector<ParameterInfo>* list) {
  list->push_back(
      MakeNumber("threads", ParameterKind::kInt,
                 "Threads of one fold's training. lbfgs: results depend on their number. sag and saga "
                 "(without l1): above 1 a variant that goes by blocks of sequences, the same for any number "
                 "above 1.",
                 1.0, false, 1.0, 256.0));
  list->push_back(Make("gradient", ParameterKind::kBool,
                       "Whether to compute the derivative of validation_loss by the strengths, once training has "
                       "converged and without l1: it costs about three gradients a step of conjugate gradients. "
                       "Absent: where the search can use it and at least three strengths are tuned.",
                       true, false));
  list->back().default_value.reset();
  list->back().optional = true;
  list->push_back(
      MakeNumber("report_every", ParameterKind::kInt, "Passes between intermediate reports.", 5.0, false, 1.0, 1e6));
  list->push_back(
      MakeNumber("checkpoint_every", ParameterKind::kInt, "Passes between checkpoints.", 100.0, false, 1.0, 1e6));
}

void AddChainMetrics(ObjectiveInfo* info) {
  info->metrics.push_back(
      {"validation_loss", study::Goal::kMinimize, "Mean of -log p(labels | tokens) a held-out token, nats.", true});
  info->metrics.push_back(
      {"validation_accuracy", study::Goal::kMaximize, "Share of held-out tokens labelled right.", false});
  info->metrics.push_back({"validation_f1", study::Goal::kMaximize,
                           "F1 of segments (labels B-type, I-type, O), as conlleval has it.", false});
  info->metrics.push_back({"train_loss", study::Goal::kMinimize,
                           "Mean of -log p a training token, nats; only at the end of training.", false});
  info->metrics.push_back(
      {"active_weights", study::Goal::kMinimize, "Weights other than 0; only at the end of training.", false});
}

}  // namespace

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
      "generated: synth:sequences?sentences=500&length=12&types=3&words=2000&noise=0.1&seed=1 for columns and "
      "attributes, "
      "synth:letters?words=300&letters=26&length=7&noise=0.05&seed=1 for letters. Split by share (split.validation) or "
      "into folds (split.folds), from split.seed.";
  for (const auto add : {AddPenalties, AddFeatures, AddSolver, AddData, AddRunning}) add(&info.parameters);
  AddChainMetrics(&info);
  return info;
}

}  // namespace luthier::catalogue
