#include "lib/learn/synth.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::learn {
namespace {

using base::RandomStream;

absl::Status Wrong(const std::string& uri, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(base::Quote(uri), ": ", what));
}

struct IntKey {
  const char* name;
  int64_t low;
  int64_t high;
};

constexpr IntKey kRows = {"rows", 4, 10'000'000};
constexpr IntKey kCols = {"cols", 1, 1'000'000};
constexpr IntKey kClasses = {"classes", 2, kMaxClasses};
constexpr IntKey kInformative = {"informative", 1, 1'000'000};

template <typename T>
absl::Status ParseInt(const std::string& uri, const IntKey& key, absl::string_view text, T* out) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < key.low || value > key.high) {
    return Wrong(uri, absl::StrCat(key.name, " = ", base::Quote(text), " is not a whole number from ", key.low, " to ",
                                   key.high));
  }
  *out = static_cast<T>(value);
  return absl::OkStatus();
}

absl::Status ParseReal(const std::string& uri, const char* name, absl::string_view text, double low, double high,
                       double* out) {
  if (!ParseNumber(text, out) || !(*out >= low) || !(*out <= high)) {
    return Wrong(uri, absl::StrCat(name, " = ", base::Quote(text), " is not a number from ", low, " to ", high));
  }
  return absl::OkStatus();
}

// Softmax draw: the first class whose cumulated probability exceeds u.
int32_t Draw(const std::vector<double>& scores, double u) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double total = 0.0;
  for (const double s : scores) total += std::exp(s - top);
  double cumulated = 0.0;
  for (size_t k = 0; k + 1 < scores.size(); ++k) {
    cumulated += std::exp(scores[k] - top);
    if (u * total < cumulated) return static_cast<int32_t>(k);
  }
  return static_cast<int32_t>(scores.size()) - 1;
}

// Gives each class with fewer than two rows the next rows of classes that can spare them.
void FillRareClasses(int32_t classes, std::vector<int32_t>* label) {
  std::vector<int64_t> count(classes, 0);
  for (const int32_t k : *label) ++count[k];
  size_t row = 0;
  for (int32_t k = 0; k < classes; ++k) {
    while (count[k] < 2) {
      while (count[(*label)[row]] <= 2) ++row;
      --count[(*label)[row]];
      (*label)[row++] = k;
      ++count[k];
    }
  }
}

}  // namespace

absl::StatusOr<SynthSpec> ParseSynth(const std::string& uri) {
  absl::string_view text = uri;
  if (!absl::StartsWith(text, "synth:")) return Wrong(uri, "does not begin with synth:");
  text.remove_prefix(6);
  const size_t question = text.find('?');
  const absl::string_view kind = text.substr(0, question);
  if (kind != "logistic") {
    return Wrong(uri, absl::StrCat("there is no generator ", base::Quote(kind), base::DidYouMean(kind, {"logistic"}),
                                   "; write synth:logistic?rows=500&cols=20"));
  }
  SynthSpec spec;
  std::set<std::string> seen;
  const absl::string_view query = question == absl::string_view::npos ? "" : text.substr(question + 1);
  for (const absl::string_view item : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = item.find('=');
    if (equals == absl::string_view::npos) return Wrong(uri, absl::StrCat(base::Quote(item), " is not key=value"));
    const std::string key(item.substr(0, equals));
    const absl::string_view value = item.substr(equals + 1);
    if (!seen.insert(key).second) return Wrong(uri, absl::StrCat(base::Quote(key), " is there twice"));
    if (key == "rows") {
      LUTHIER_RETURN_IF_ERROR(ParseInt(uri, kRows, value, &spec.rows));
    } else if (key == "cols") {
      LUTHIER_RETURN_IF_ERROR(ParseInt(uri, kCols, value, &spec.cols));
    } else if (key == "classes") {
      LUTHIER_RETURN_IF_ERROR(ParseInt(uri, kClasses, value, &spec.classes));
    } else if (key == "informative") {
      LUTHIER_RETURN_IF_ERROR(ParseInt(uri, kInformative, value, &spec.informative));
    } else if (key == "noise") {
      LUTHIER_RETURN_IF_ERROR(ParseReal(uri, "noise", value, 0.0, 1.0, &spec.noise));
    } else if (key == "density") {
      LUTHIER_RETURN_IF_ERROR(ParseReal(uri, "density", value, 1e-6, 1.0, &spec.density));
    } else if (key == "signal") {
      LUTHIER_RETURN_IF_ERROR(ParseReal(uri, "signal", value, 0.0, 100.0, &spec.signal));
    } else if (key == "seed") {
      if (!absl::SimpleAtoi(value, &spec.seed)) {
        return Wrong(uri, absl::StrCat("seed = ", base::Quote(value), " is not a whole number of 64 bits"));
      }
    } else {
      return Wrong(uri, absl::StrCat("there is no key ", base::Quote(key),
                                     base::DidYouMean(key, {"rows", "cols", "classes", "seed", "noise", "density",
                                                            "informative", "signal"}),
                                     "; keys are rows, cols, classes, seed, noise, density, informative, signal"));
    }
  }
  if (spec.rows < 2 * spec.classes) {
    return Wrong(uri, absl::StrCat("rows = ", spec.rows, " is below two for each of ", spec.classes, " classes"));
  }
  if (static_cast<double>(spec.rows) * spec.cols * spec.density > 5e8) {
    return Wrong(uri, "would have more than 5e8 entries; lower rows, cols or density");
  }
  if (spec.informative > spec.cols) {
    return Wrong(uri, absl::StrCat("informative = ", spec.informative, " is above cols = ", spec.cols));
  }
  return spec;
}

absl::StatusOr<Dataset> Synthesize(const SynthSpec& spec) {
  const int32_t informative = spec.informative > 0 ? spec.informative : std::max(1, spec.cols / 2);
  std::vector<double> weights(static_cast<size_t>(informative) * spec.classes);  // feature-major
  for (int32_t k = 0; k < spec.classes; ++k) {
    RandomStream random(spec.seed, "synth.weights", static_cast<uint64_t>(k));
    for (int32_t j = 0; j < informative; ++j) weights[static_cast<size_t>(j) * spec.classes + k] = random.Normal();
  }
  Dataset dataset;
  dataset.name = absl::StrCat("synth:logistic?rows=", spec.rows, "&cols=", spec.cols, "&classes=", spec.classes,
                              "&seed=", spec.seed);
  dataset.x.rows = spec.rows;
  dataset.x.cols = spec.cols;
  const double entry_scale = 1.0 / std::sqrt(spec.density);
  const double score_scale = spec.signal / std::sqrt(static_cast<double>(informative));
  std::vector<int32_t> label(spec.rows);
  std::vector<double> scores(spec.classes);
  for (int64_t i = 0; i < spec.rows; ++i) {
    RandomStream random(spec.seed, "synth.row", static_cast<uint64_t>(i));
    std::fill(scores.begin(), scores.end(), 0.0);
    for (int32_t j = 0; j < spec.cols; ++j) {
      if (spec.density < 1.0 && random.Uniform() >= spec.density) continue;
      const double value = random.Normal() * entry_scale;
      if (value == 0.0) continue;
      dataset.x.column.push_back(j);
      dataset.x.value.push_back(value);
      if (j >= informative) continue;
      const double* w = weights.data() + static_cast<size_t>(j) * spec.classes;
      for (int32_t k = 0; k < spec.classes; ++k) scores[k] += score_scale * value * w[k];
    }
    dataset.x.row_start.push_back(dataset.x.nonzeros());
    label[i] = Draw(scores, random.Uniform());
    if (random.Uniform() < spec.noise) label[i] = static_cast<int32_t>(random.UniformInt(spec.classes));
  }
  FillRareClasses(spec.classes, &label);
  dataset.label = std::move(label);
  for (int32_t k = 0; k < spec.classes; ++k) dataset.classes.push_back(absl::StrCat(k));
  return dataset;
}

}  // namespace luthier::learn
