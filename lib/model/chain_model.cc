#include "lib/model/chain_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/crf/features/attribute_map.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/crf/solvers/problem.h"
#include "lib/data/attribute_text.h"
#include "lib/data/column_text.h"
#include "lib/data/text_source.h"

namespace luthier::model {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int32_t kLetterAttributes = data::kLetterPixels + 3;

absl::StatusOr<data::LineReader> Lines(const DataFile& data) {
  LUTHIER_ASSIGN_OR_RETURN(data::UniqueFd fd, data.open(data.path));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<data::ByteSource> bytes, data::OpenBytes(std::move(fd), data.path));
  return data::LineReader(std::move(bytes), data.path);
}

crf::Shape ShapeOf(const ChainInput& input, const std::vector<std::string>& label_names) {
  int32_t attributes = kLetterAttributes;
  if (const auto* features = std::get_if<crf::FeatureMap>(&input)) attributes = features->attributes();
  if (const auto* tokens = std::get_if<crf::AttributeMap>(&input)) attributes = tokens->attributes();
  return {attributes, static_cast<int>(label_names.size())};
}

// Returns true if labels are numbered as the input's own are.
bool SameLabels(const ChainInput& input, const std::vector<std::string>& label_names) {
  if (const auto* features = std::get_if<crf::FeatureMap>(&input)) return features->label_names() == label_names;
  if (const auto* tokens = std::get_if<crf::AttributeMap>(&input)) return tokens->label_names() == label_names;
  return true;
}

}  // namespace

ChainModel::ChainModel(ModelInfo info, ChainInput input, std::vector<std::string> label_names, VectorXd weights)
    : Model(std::move(info)),
      input_(std::move(input)),
      label_names_(std::move(label_names)),
      weights_(std::move(weights)) {
  LUTHIER_CHECK(weights_.size() == shape().dim() && SameLabels(input_, label_names_));
}

crf::Shape ChainModel::shape() const {
  return ShapeOf(input_, label_names_);
}

void ChainModel::SaveParts(base::CheckpointWriter* writer) const {
  writer->Text(kType);
  writer->U64(input_.index());
  if (features() != nullptr) features()->Save(writer);
  if (const auto* tokens = std::get_if<crf::AttributeMap>(&input_)) tokens->Save(writer);
  writer->Texts(label_names_);
  // Without the padding.
  const Index rows = static_cast<Index>(shape().attributes) + shape().labels;
  VectorXd packed(rows * shape().labels);
  for (Index a = 0; a < rows; ++a) {
    packed.segment(a * shape().labels, shape().labels) = weights_.segment(a * shape().stride(), shape().labels);
  }
  writer->Vector(packed);
}

absl::StatusOr<std::unique_ptr<Model>> ChainModel::Load(ModelInfo info, base::CheckpointReader* reader) {
  ChainInput input;
  const uint64_t kind = reader->U64();
  if (kind >= std::variant_size_v<ChainInput>)
    return absl::DataLossError("its kind of input is none of this version's");
  if (kind == 1) {
    LUTHIER_ASSIGN_OR_RETURN(input, crf::FeatureMap::Load(reader));
  } else if (kind == 2) {
    LUTHIER_ASSIGN_OR_RETURN(input, crf::AttributeMap::Load(reader));
  }
  std::vector<std::string> label_names = reader->Texts();
  const VectorXd packed = reader->Vector();
  const crf::Shape shape = ShapeOf(input, label_names);
  const Index rows = static_cast<Index>(shape.attributes) + shape.labels;
  if (!reader->ok() || label_names.size() < 2 || !SameLabels(input, label_names) ||
      packed.size() != rows * shape.labels || !packed.allFinite()) {
    return absl::DataLossError("its parts do not fit together");
  }
  VectorXd weights = VectorXd::Zero(shape.dim());
  for (Index a = 0; a < rows; ++a) {
    weights.segment(a * shape.stride(), shape.labels) = packed.segment(a * shape.labels, shape.labels);
  }
  return std::unique_ptr<Model>(
      std::make_unique<ChainModel>(std::move(info), std::move(input), std::move(label_names), std::move(weights)));
}

std::vector<std::pair<std::string, std::string>> ChainModel::Facts() const {
  return {{"labels", absl::StrJoin(label_names_, ", ")},
          {"input", features() != nullptr ? absl::StrCat(features()->columns(), " columns of text")
                    : input_.index() == 0 ? "letters"
                                          : "tokens with attributes"},
          {"attributes", absl::StrCat(shape().attributes)},
          {"weights", absl::StrCat(shape().parameters())}};
}

absl::StatusOr<ChainModel::Read> ChainModel::ReadColumns(const DataFile& data) const {
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader first, Lines(data));
  LUTHIER_ASSIGN_OR_RETURN(const int fields, data::CountFields(first));
  const int columns = features()->columns();
  if (fields != 0 && fields != columns && fields != columns + 1) {
    return absl::InvalidArgumentError(absl::StrCat(data.path, ": has ", fields, " columns; the model takes ", columns,
                                                   ", and the label behind them if there is one"));
  }
  Read read;
  read.labelled = fields != columns;
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, Lines(data));
  LUTHIER_ASSIGN_OR_RETURN(
      const data::ColumnText text,
      data::ReadColumnText(lines, read.labelled ? data::LabelColumn::kLast : data::LabelColumn::kNone));
  std::vector<int32_t> rows(static_cast<size_t>(text.sequences()));
  std::iota(rows.begin(), rows.end(), 0);
  LUTHIER_ASSIGN_OR_RETURN(read.data, features()->Encode(text, rows, crf::FeatureMap::UnknownLabels::kKeep));
  for (int64_t t = 0; t < text.tokens(); ++t) {
    std::string line;
    for (int c = 0; c < columns; ++c) {
      const int32_t cell = text.cell[static_cast<size_t>(t * columns + c)];
      absl::StrAppend(&line, c > 0 ? "\t" : "", text.strings.text(cell));
    }
    if (read.labelled) absl::StrAppend(&line, "\t", text.label_names.text(text.label[static_cast<size_t>(t)]));
    read.fields.push_back(std::move(line));
  }
  return read;
}

absl::StatusOr<ChainModel::Read> ChainModel::ReadLetters(const DataFile& data) const {
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, Lines(data));
  LUTHIER_ASSIGN_OR_RETURN(crf::Letters letters, crf::ReadLetters(lines));
  Read read;
  read.data = std::move(letters.data);
  // The file's letters by the model's numbers.
  std::vector<int32_t> number;
  for (const std::string& name : read.data.label_names) {
    const auto found = std::find(label_names_.begin(), label_names_.end(), name);
    if (found != label_names_.end()) {
      number.push_back(static_cast<int32_t>(found - label_names_.begin()));
    } else {
      number.push_back(static_cast<int32_t>(label_names_.size() + read.data.unknown_names.size()));
      read.data.unknown_names.push_back(name);
    }
  }
  for (int32_t& label : read.data.label) {
    read.fields.push_back(read.data.label_names[static_cast<size_t>(label)]);
    label = number[static_cast<size_t>(label)];
  }
  read.data.label_names = label_names_;
  return read;
}

absl::StatusOr<ChainModel::Read> ChainModel::ReadAttributes(const DataFile& data) const {
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, Lines(data));
  LUTHIER_ASSIGN_OR_RETURN(const data::AttributeText text, data::ReadAttributeText(lines));
  std::vector<int32_t> rows(static_cast<size_t>(text.sequences()));
  std::iota(rows.begin(), rows.end(), 0);
  Read read;
  LUTHIER_ASSIGN_OR_RETURN(
      read.data, std::get<crf::AttributeMap>(input_).Encode(text, rows, crf::FeatureMap::UnknownLabels::kKeep));
  for (const int32_t label : text.label) read.fields.push_back(text.label_names.text(label));
  return read;
}

absl::StatusOr<ChainModel::Read> ChainModel::ReadFile(const DataFile& data) const {
  if (std::holds_alternative<crf::AttributeMap>(input_)) return ReadAttributes(data);
  return features() != nullptr ? ReadColumns(data) : ReadLetters(data);
}

absl::StatusOr<Predictions> ChainModel::Predict(const DataFile& data) const {
  LUTHIER_ASSIGN_OR_RETURN(const Read read, ReadFile(data));
  std::vector<int32_t> guesses;
  crf::ChainLoss(&read.data).Evaluate(weights_, &guesses).value();
  Predictions out;
  out.sequence_start = read.data.sequence_start;
  for (size_t t = 0; t < guesses.size(); ++t) {
    const std::string& label = label_names_[static_cast<size_t>(guesses[t])];
    if (t > 0 && std::binary_search(out.sequence_start.begin(), out.sequence_start.end(), static_cast<int64_t>(t))) {
      out.text += "\n";
    }
    absl::StrAppend(&out.text, read.fields[t], "\t", label, "\n");
    out.label.push_back(label);
  }
  return out;
}

absl::StatusOr<Evaluation> ChainModel::Evaluate(const DataFile& data) const {
  LUTHIER_ASSIGN_OR_RETURN(const Read read, ReadFile(data));
  if (!read.labelled) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.path, ": has no labels to compare with: ", features()->columns(), " columns, and no further one"));
  }
  const crf::ChainLoss::Metrics m = crf::ChainLoss(&read.data).Evaluate(weights_).value();
  Evaluation out;
  out.metrics["sequences"] = static_cast<double>(read.data.sequences());
  out.metrics["tokens"] = static_cast<double>(read.data.tokens());
  out.metrics["unknown_labels"] =
      static_cast<double>(std::count_if(read.data.label.begin(), read.data.label.end(),
                                        [&](int32_t k) { return k >= static_cast<int32_t>(label_names_.size()); }));
  out.metrics["accuracy"] = m.accuracy;
  out.metrics["loss"] = m.known_tokens == 0 ? NAN : m.loss_nats;
  if (m.left_out > 0) {
    out.notes.push_back(absl::StrCat(
        m.left_out, " of ", read.data.sequences(), " sequences have labels that the model does not know (",
        absl::StrJoin(read.data.unknown_names, ", "), "): counted as wrong, their sequences without loss"));
  }
  if (crf::SegmentScorer(label_names_).has_segments()) {
    out.metrics["precision"] = m.segments.all.precision();
    out.metrics["recall"] = m.segments.all.recall();
    out.metrics["f1"] = m.segments.all.f1();
    for (const auto& [type, counts] : m.segments.by_type) {
      out.parts.push_back({type, counts.precision(), counts.recall(), counts.f1(), counts.gold});
    }
  }
  return out;
}

}  // namespace luthier::model
