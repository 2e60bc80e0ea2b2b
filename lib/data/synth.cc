#include "lib/data/synth.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/data/growth.h"
#include "lib/data/readers.h"
#include "lib/data/synthetic_glyph.h"
#include "lib/data/text_source.h"
#include "lib/notation/synth_specs.h"

namespace luthier::data {
namespace {

using base::RandomStream;

constexpr int64_t kDrawWork = 32;  // Operations of a random number, for Pace.
static_assert(notation::kMaxSynthClasses <= kMaxClasses);

// Draws from a softmax: the first class whose cumulated probability exceeds u.
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

// Number of cells of a table beyond which the gaps between entries are drawn instead of every cell. Smaller tables keep
// the entries that they always had.
constexpr double kMostCells = 1e10;

// Draws the entries of a row: each 0 with probability 1 - density, else standard normal / sqrt(density). Calls
// use(column, value) for those that are not 0.
template <typename Spec, typename Use>
absl::Status DrawEntries(const Spec& spec, RandomStream& random, base::Pace* pace, const base::StopToken& stop,
                         SparseMatrix* x, Use&& use) {
  const double density = spec.density;
  const double scale = 1.0 / std::sqrt(density);
  const int32_t cols = spec.cols;
  if (density < 1.0 && static_cast<double>(spec.rows) * cols > kMostCells) {
    const double log_zero = std::log1p(-density);
    for (double j = -1.0;;) {
      LUTHIER_RETURN_IF_ERROR(pace->Poll(2 * kDrawWork));
      j += 1.0 + std::floor(std::log1p(-random.Uniform()) / log_zero);  // Geometric.
      if (!(j < cols)) return absl::OkStatus();
      const double value = random.Normal() * scale;
      if (value == 0.0) continue;
      LUTHIER_RETURN_IF_ERROR(GrowBy(1, stop, &x->column));
      LUTHIER_RETURN_IF_ERROR(GrowBy(1, stop, &x->value));
      x->column.push_back(static_cast<int32_t>(j));
      x->value.push_back(value);
      LUTHIER_RETURN_IF_ERROR(use(static_cast<int32_t>(j), value));
    }
  }
  LUTHIER_RETURN_IF_ERROR(GrowBy(static_cast<size_t>(cols), stop, &x->column));
  LUTHIER_RETURN_IF_ERROR(GrowBy(static_cast<size_t>(cols), stop, &x->value));
  for (int32_t j = 0; j < cols; ++j) {
    LUTHIER_RETURN_IF_ERROR(pace->Poll(kDrawWork));
    if (density < 1.0 && random.Uniform() >= density) continue;
    const double value = random.Normal() * scale;
    if (value == 0.0) continue;
    x->column.push_back(j);
    x->value.push_back(value);
    LUTHIER_RETURN_IF_ERROR(use(j, value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> Synthesize(const notation::SynthSpec& spec, const base::StopToken& stop) {
  const int32_t informative = spec.informative > 0 ? spec.informative : std::max(1, spec.cols / 2);
  Dataset dataset;
  dataset.name = absl::StrCat("synth:logistic?rows=", spec.rows, "&cols=", spec.cols, "&classes=", spec.classes,
                              "&seed=", spec.seed);
  base::Pace pace(stop);
  std::vector<double> weights;  // feature-major
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(static_cast<size_t>(informative) * spec.classes, 0.0, stop, &weights));
  for (int32_t k = 0; k < spec.classes; ++k) {
    RandomStream random(spec.seed, "synth.weights", static_cast<uint64_t>(k));
    for (int32_t j = 0; j < informative; ++j) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kDrawWork));
      weights[static_cast<size_t>(j) * spec.classes + k] = random.Normal();
    }
  }
  dataset.x.rows = spec.rows;
  dataset.x.cols = spec.cols;
  const double score_scale = spec.signal / std::sqrt(static_cast<double>(informative));
  std::vector<int32_t> label(spec.rows);
  std::vector<double> scores(spec.classes);
  for (int64_t i = 0; i < spec.rows; ++i) {
    RandomStream random(spec.seed, "synth.row", static_cast<uint64_t>(i));
    std::fill(scores.begin(), scores.end(), 0.0);
    LUTHIER_RETURN_IF_ERROR(DrawEntries(spec, random, &pace, stop, &dataset.x, [&](int32_t j, double value) {
      if (j >= informative) return absl::OkStatus();
      const double* w = weights.data() + static_cast<size_t>(j) * spec.classes;
      for (int32_t k = 0; k < spec.classes; ++k) scores[k] += score_scale * value * w[k];
      return pace.Poll(spec.classes);
    }));
    dataset.x.row_start.push_back(dataset.x.nonzeros());
    label[i] = Draw(scores, random.Uniform());
    if (random.Uniform() < spec.noise) label[i] = static_cast<int32_t>(random.UniformInt(spec.classes));
  }
  FillRareClasses(spec.classes, &label);
  dataset.label = std::move(label);
  for (int32_t k = 0; k < spec.classes; ++k) dataset.classes.push_back(absl::StrCat(k));
  return dataset;
}

absl::StatusOr<IdxFiles> SynthesizeImages(const notation::ImageSpec& spec, const base::StopToken& stop) {
  const auto number = [](int64_t n, std::string* out) {
    for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>((n >> shift) & 0xff));
  };
  IdxFiles files;
  files.images = std::string("\0\0\x08\x03", 4);
  for (const int64_t size : {spec.rows, spec.side, spec.side}) number(size, &files.images);
  files.labels = std::string("\0\0\x08\x01", 4);
  number(spec.rows, &files.labels);
  const int side = static_cast<int>(spec.side);
  std::vector<SyntheticGlyph> characters;
  for (int64_t k = 0; k < spec.classes; ++k) {
    RandomStream random(spec.seed, "synth.character", static_cast<uint64_t>(k));
    characters.emplace_back(side, side, random);
  }
  base::Pace pace(stop);
  files.images.reserve(files.images.size() + static_cast<size_t>(spec.rows * spec.side * spec.side));
  for (int64_t i = 0; i < spec.rows; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kDrawWork * spec.side * spec.side));
    RandomStream random(spec.seed, "synth.image", static_cast<uint64_t>(i));
    // The first rows go through the classes in turn, so that each class has its two rows.
    const int64_t k = i < 2 * spec.classes
                          ? i % spec.classes
                          : static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(spec.classes)));
    const double reach = std::min(2.0, static_cast<double>(spec.side) / 8.0);
    const double down = reach * (2.0 * random.Uniform() - 1.0), right = reach * (2.0 * random.Uniform() - 1.0);
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const bool anew = random.Uniform() < spec.noise;
        const double ink = anew ? static_cast<double>(random.UniformInt(256))
                                : std::floor(255.0 * characters[static_cast<size_t>(k)].Ink(y, x, down, right) + 0.5);
        files.images.push_back(static_cast<char>(static_cast<uint8_t>(ink)));
      }
    }
    files.labels.push_back(static_cast<char>(static_cast<uint8_t>(k)));
  }
  return files;
}

absl::StatusOr<Dataset> Synthesize(const notation::RegressionSpec& spec, const base::StopToken& stop) {
  const int32_t informative = spec.informative > 0 ? spec.informative : std::max(1, spec.cols / 2);
  Dataset dataset;
  dataset.name = absl::StrCat("synth:regression?rows=", spec.rows, "&cols=", spec.cols, "&seed=", spec.seed);
  base::Pace pace(stop);
  std::vector<double> weights(static_cast<size_t>(informative));
  RandomStream weight_random(spec.seed, "synth.weights");
  for (double& w : weights) w = weight_random.Normal();
  dataset.x.rows = spec.rows;
  dataset.x.cols = spec.cols;
  const double score_scale = spec.signal / std::sqrt(static_cast<double>(informative));
  for (int64_t i = 0; i < spec.rows; ++i) {
    RandomStream random(spec.seed, "synth.row", static_cast<uint64_t>(i));
    double target = 0.0;
    LUTHIER_RETURN_IF_ERROR(DrawEntries(spec, random, &pace, stop, &dataset.x, [&](int32_t j, double value) {
      if (j < informative) {
        target += score_scale * weights[static_cast<size_t>(j)] *
                  ((1.0 - spec.waves) * value + spec.waves * std::sin(3.0 * value));
      }
      return absl::OkStatus();
    }));
    dataset.x.row_start.push_back(dataset.x.nonzeros());
    dataset.target.push_back(target + spec.noise * random.Normal());
  }
  return dataset;
}

absl::StatusOr<Dataset> Synthesize(const notation::MatrixSpec& spec, const base::StopToken& stop) {
  Dataset dataset;
  dataset.name = absl::StrCat("synth:matrix?rows=", spec.rows, "&cols=", spec.cols, "&seed=", spec.seed);
  dataset.x.rows = spec.known;
  dataset.x.cols = static_cast<int32_t>(spec.features) + 2;
  dataset.features = {"row", "column"};
  for (int64_t f = 1; f <= spec.features; ++f) dataset.features.push_back(absl::StrCat("f", f));
  const auto factor = [&](const char* purpose, int64_t count) {
    std::vector<double> out;
    RandomStream random(spec.seed, purpose);
    for (int64_t k = 0; k < count * spec.rank; ++k) out.push_back(random.Normal());
    return out;
  };
  const std::vector<double> u = factor("synth.left", spec.rows), v = factor("synth.right", spec.cols);
  base::Pace pace(stop);
  for (int64_t e = 0; e < spec.known; ++e) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kDrawWork * (spec.features + 2)));
    RandomStream random(spec.seed, "synth.entry", static_cast<uint64_t>(e));
    const auto i = static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(spec.rows)));
    const auto j = static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(spec.cols)));
    double target = 0.0;
    for (int64_t k = 0; k < spec.rank; ++k) {
      target += u[static_cast<size_t>(i * spec.rank + k)] * v[static_cast<size_t>(j * spec.rank + k)];
    }
    target /= std::sqrt(static_cast<double>(spec.rank));
    const auto add = [&](int64_t column, double value) {
      dataset.x.column.push_back(static_cast<int32_t>(column));
      dataset.x.value.push_back(value);
    };
    add(0, static_cast<double>(i + 1));
    add(1, static_cast<double>(j + 1));
    for (int64_t f = 0; f < spec.features; ++f) {
      const double value = random.Normal();
      if (f < std::max<int64_t>(1, spec.features / 2)) target += 0.5 * value;
      if (value != 0.0) add(f + 2, value);
    }
    dataset.x.row_start.push_back(dataset.x.nonzeros());
    dataset.target.push_back(target + spec.noise * random.Normal());
  }
  return dataset;
}

absl::StatusOr<Dataset> SynthesizeRows(const std::string& uri, Task task, const base::StopToken& stop) {
  if (task == Task::kRegression) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string numbers, notation::SynthNumbersKind(uri));
    if (numbers == "matrix") {
      LUTHIER_ASSIGN_OR_RETURN(const notation::MatrixSpec spec, notation::ParseSynthMatrix(uri));
      return Synthesize(spec, stop);
    }
    LUTHIER_ASSIGN_OR_RETURN(const notation::RegressionSpec spec, notation::ParseSynthRegression(uri));
    return Synthesize(spec, stop);
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::string kind, notation::SynthRowsKind(uri));
  if (kind == "logistic") {
    LUTHIER_ASSIGN_OR_RETURN(const notation::SynthSpec spec, notation::ParseSynth(uri));
    return Synthesize(spec, stop);
  }
  LUTHIER_ASSIGN_OR_RETURN(const notation::ImageSpec spec, notation::ParseSynthImages(uri));
  LUTHIER_ASSIGN_OR_RETURN(IdxFiles files, SynthesizeImages(spec, stop));
  const std::unique_ptr<ByteSource> images = BytesOf(std::move(files.images));
  const std::unique_ptr<ByteSource> labels = BytesOf(std::move(files.labels));
  LUTHIER_ASSIGN_OR_RETURN(RawRows rows, ReadIdx(*images, uri, labels.get(), uri, stop));
  return ToDataset(std::move(rows), Task::kClassification, stop);
}

}  // namespace luthier::data
