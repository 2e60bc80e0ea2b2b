#include "lib/objectives/chain_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/crf/data_file.h"
#include "lib/crf/features.h"
#include "lib/crf/letters_reader.h"
#include "lib/crf/synth_chains.h"
#include "lib/learn/minimizer.h"
#include "lib/learn/synth_uri.h"
#include "lib/objectives/crf_settings.h"

namespace luthier::objectives {
namespace {

constexpr size_t kKeptEncodings = 3;
constexpr absl::Duration kLookEvery = absl::Milliseconds(10);  // At the stop flag, by those who wait for an encoding.

// What the three formats differ in, as overloads for what they are read to. `version` of the entries in the cache.
struct Format {
  const char* name;
  const char* version;
};
Format FormatOf(const crf::ColumnText&) {
  return {"columns", "columns/1"};
}
Format FormatOf(const crf::AttributeText&) {
  return {"attributes", "attributes/1"};
}
Format FormatOf(const crf::ChainData&) {
  return {"letters", "letters/1"};
}

absl::Status ReadLines(learn::LineReader& lines, crf::ColumnText* text) {
  LUTHIER_ASSIGN_OR_RETURN(*text, crf::ReadColumnText(lines));
  return absl::OkStatus();
}
absl::Status ReadLines(learn::LineReader& lines, crf::AttributeText* text) {
  LUTHIER_ASSIGN_OR_RETURN(*text, crf::ReadAttributeText(lines));
  return absl::OkStatus();
}
absl::Status ReadLines(learn::LineReader& lines, crf::ChainData* text) {
  LUTHIER_ASSIGN_OR_RETURN(crf::Letters letters, crf::ReadLetters(lines));
  *text = std::move(letters.data);
  return absl::OkStatus();
}

// An opened file, and which state it is in; none of generated data.
struct Origin {
  learn::UniqueFd fd{-1};
  std::optional<learn::DataCache::Source> state;
};

absl::Status NoRoot(const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat("data set ", base::Quote(name),
                                                    " cannot be opened: no data root is set; only synth:… data are "
                                                    "available"));
}

// From the cache if it has it.
template <typename T>
absl::Status ReadKept(const std::string& name, const learn::DataRoot* root, const learn::DataCache* cache,
                      const std::atomic<bool>* stop, T* text, Origin* origin) {
  const Format format = FormatOf(*text);
  if (learn::IsSynth(name)) {
    LUTHIER_ASSIGN_OR_RETURN(learn::LineReader lines, OpenChains(name, format.name, nullptr, stop));
    return ReadLines(lines, text);
  }
  if (root == nullptr) return NoRoot(name);
  LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd fd, root->OpenFile(name));
  origin->fd = learn::UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (cache != nullptr && origin->fd.get() >= 0) origin->state = cache->Look(fd.get());
  const std::string key = absl::StrCat(format.version, "\n", name);
  if (origin->state) {
    std::optional<learn::DataCache::Entry> entry = cache->Find(key, origin->fd.get(), *origin->state);
    T found;
    if (entry && crf::LoadChains(&entry->reader(), &found) && entry->reader().Done()) {
      found.name = name;
      *text = std::move(found);
      return absl::OkStatus();
    }
  }
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<learn::ByteSource> bytes, learn::OpenBytes(std::move(fd), name));
  learn::LineReader lines(std::move(bytes), name, {.stop = stop});
  LUTHIER_RETURN_IF_ERROR(ReadLines(lines, text));
  if (origin->state) {
    cache->Put(key, origin->fd.get(), *origin->state,
               [&](learn::CheckpointWriter* writer) { crf::SaveChains(*text, writer); });
  }
  return absl::OkStatus();
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

std::string TextOption(const study::BuiltinObjective& objective, const char* name) {
  const auto found = objective.options.find(name);
  return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
}

}  // namespace

absl::Status CheckSynthChains(const std::string& uri, absl::string_view format) {
  if (format == "letters") return crf::ParseSynthLetters(uri).status();
  return crf::ParseSynthSequences(uri).status();
}

absl::StatusOr<learn::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                             const learn::DataRoot* root, const std::atomic<bool>* stop) {
  const learn::TextLimits limits = {.stop = stop};
  if (learn::IsSynth(name)) {
    LUTHIER_RETURN_IF_ERROR(CheckSynthChains(name, format));
    std::string text;
    if (format == "letters") {
      text = crf::SynthesizeLetters(crf::ParseSynthLetters(name).value());
    } else if (format == "attributes") {
      text = crf::SynthesizeAttributes(crf::ParseSynthSequences(name).value());
    } else {
      text = crf::SynthesizeSequences(crf::ParseSynthSequences(name).value());
    }
    return learn::LineReader(learn::BytesOf(std::move(text)), name, limits);
  }
  if (root == nullptr) return NoRoot(name);
  LUTHIER_ASSIGN_OR_RETURN(learn::UniqueFd fd, root->OpenFile(name));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<learn::ByteSource> bytes, learn::OpenBytes(std::move(fd), name));
  return learn::LineReader(std::move(bytes), name, limits);
}

template <typename T>
absl::Status ChainSource::Read(const study::BuiltinObjective& objective, const learn::DataRoot* root,
                               const learn::DataCache* cache, const std::atomic<bool>* stop) {
  const std::string further_name = TextOption(objective, "validation_data");
  Origin origin;
  T& text = text_.emplace<T>();
  LUTHIER_RETURN_IF_ERROR(ReadKept(objective.data, root, cache, stop, &text, &origin));
  std::string key = absl::StrCat("chains/4\n", FormatOf(text).version, "\n", TextOption(objective, "templates"), "\n",
                                 TextOption(objective, "columns"), "\n", objective.data, "\n",
                                 study::FormatDouble(objective.split.validation), " ", objective.split.folds, " ",
                                 objective.split.seed, "\n", further_name, "\n", TextOption(objective, kGroupsOption));
  if (further_name.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(parts_, SplitSequences(text.sequences(), objective.split));
  } else {
    Origin further;
    T more;
    LUTHIER_RETURN_IF_ERROR(ReadKept(further_name, root, cache, stop, &more, &further));
    parts_.push_back({AllRows(text.sequences()), AllRows(more.sequences())});
    validation_.emplace(std::move(more));
    if (!learn::IsSynth(further_name)) {
      const std::string state = cache == nullptr || further.fd.get() < 0 ? "" : cache->StateOf(further.fd.get());
      // One that may still change leaves nothing to keep.
      if (state.empty()) origin.state.reset();
      absl::StrAppend(&key, "\n", state);
    }
  }
  if (origin.state) kept_ = Kept{cache, std::move(origin.fd), *origin.state, std::move(key)};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const ChainSource>> ChainSource::Open(const study::BuiltinObjective& objective,
                                                                     const learn::DataRoot* root,
                                                                     const learn::DataCache* cache,
                                                                     const std::atomic<bool>* stop) {
  const std::string format = TextOption(objective, "format");
  const bool further = !TextOption(objective, "validation_data").empty();
  if (objective.split.folds > 0 && further) {
    return absl::InvalidArgumentError("validation_data is what is held out: leave out split.folds");
  }
  if (format == "letters" && further) {
    return absl::InvalidArgumentError(
        "validation_data is not for letters, which are split by split.validation or folds");
  }
  std::unique_ptr<ChainSource> source(new ChainSource());
  if (format == "letters") {
    LUTHIER_RETURN_IF_ERROR(source->Read<crf::ChainData>(objective, root, cache, stop));
  } else if (format == "attributes") {
    LUTHIER_RETURN_IF_ERROR(source->Read<crf::AttributeText>(objective, root, cache, stop));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(source->templates_,
                             ChainTemplates(TextOption(objective, "templates"), TextOption(objective, "columns")));
    LUTHIER_RETURN_IF_ERROR(source->Read<crf::ColumnText>(objective, root, cache, stop));
  }
  LUTHIER_RETURN_IF_ERROR(source->Check());
  LUTHIER_RETURN_IF_ERROR(source->FindGroups(objective.options));
  return std::unique_ptr<const ChainSource>(std::move(source));
}

namespace {

// Sequences whose labels the training part does not all have are left out of the held-out loss. Were all of them left
// out, it would be nothing: INVALID_ARGUMENT. T: ColumnText or AttributeText; `other`: where the held-out ones are.
template <typename T>
absl::Status CheckHeldOutLabels(const T& text, const T& other, const std::vector<learn::Partition>& parts) {
  const auto tokens = [](const T& of, int32_t row) {
    const auto i = static_cast<size_t>(row);
    return std::pair(of.label.begin() + of.sequence_start[i], of.label.begin() + of.sequence_start[i + 1]);
  };
  std::string example;
  for (const learn::Partition& part : parts) {
    std::vector<bool> trained(static_cast<size_t>(text.label_names.size()), false);
    for (const int32_t row : part.train) {
      for (auto [label, end] = tokens(text, row); label != end; ++label) trained[static_cast<size_t>(*label)] = true;
    }
    for (const int32_t row : part.validation) {
      const auto [begin, end] = tokens(other, row);
      const auto unknown = std::find_if(begin, end, [&](int32_t label) {
        const int32_t number = text.label_names.Find(other.label_names.text(label));
        return number < 0 || !trained[static_cast<size_t>(number)];
      });
      if (unknown == end) return absl::OkStatus();
      example = other.label_names.text(*unknown);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(other.name, ": every held-out sequence has a label that is not in the training part, such as ",
                   base::Quote(example),
                   ", so there is no loss to measure; hold out more, or look at which column is "
                   "the label"));
}

}  // namespace

absl::Status ChainSource::Check() const {
  if (const auto* letters = std::get_if<crf::ChainData>(&text_)) {
    for (const learn::Partition& part : parts_) {
      if (part.train.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(letters->name, ": no sequences to train on"));
      }
    }
    return crf::CheckChainData(*letters);
  }
  if (const auto* tokens = std::get_if<crf::AttributeText>(&text_)) {
    for (const learn::Partition& part : parts_) {
      LUTHIER_RETURN_IF_ERROR(crf::AttributeMap::Check(*tokens, part.train));
    }
    return CheckHeldOutLabels(*tokens, std::get<crf::AttributeText>(validation_ ? *validation_ : text_), parts_);
  }
  const auto& columns = std::get<crf::ColumnText>(text_);
  if (validation_) {
    const auto& other = std::get<crf::ColumnText>(*validation_);
    if (other.columns != columns.columns) {
      return absl::InvalidArgumentError(absl::StrCat(other.name, ": has ", other.columns + 1, " columns, but ",
                                                     columns.name, " has ", columns.columns + 1));
    }
  }
  crf::FeatureOptions options;
  options.templates = templates_;
  for (const learn::Partition& part : parts_) {
    LUTHIER_RETURN_IF_ERROR(crf::FeatureMap::Check(columns, part.train, options));
  }
  return CheckHeldOutLabels(columns, std::get<crf::ColumnText>(validation_ ? *validation_ : text_), parts_);
}

absl::Status ChainSource::FindGroups(const study::Parameters& options) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<PenaltyGroup> groups, GroupsOf(options));
  if (groups.empty()) return absl::OkStatus();
  const auto* tokens = std::get_if<crf::AttributeText>(&text_);
  std::vector<std::string> names;
  if (tokens != nullptr) {
    for (int32_t a = 0; a < tokens->attributes.size(); ++a) names.push_back(tokens->attributes.text(a));
  } else {
    names =
        std::holds_alternative<crf::ChainData>(text_) ? std::vector<std::string>{"pixels"} : TemplateNames(templates_);
  }
  const std::string where = tokens != nullptr ? tokens->name : "the model";
  LUTHIER_ASSIGN_OR_RETURN(groups_, FindChainGroups(groups, names, tokens != nullptr, where));
  return absl::OkStatus();
}

// The settings that the encoding depends on.
std::string ChainSource::KeyOf(const Settings& settings) const {
  if (std::holds_alternative<crf::ChainData>(text_)) return "";
  if (std::holds_alternative<crf::AttributeText>(text_)) return absl::StrCat(settings.Int("min_count"));
  return absl::StrCat(settings.Int("window"), " ", settings.Int("max_positions"), " ", settings.Bool("lower_words"),
                      " ", settings.Text("boundary"), " ", settings.Int("min_count"), " ", settings.Int("hash_bits"));
}

absl::StatusOr<ChainFold> ChainSource::EncodeFold(const Settings& settings, const learn::Partition& part,
                                                  const std::atomic<bool>* stop) const {
  constexpr auto kKeep = crf::FeatureMap::UnknownLabels::kKeep;
  const Text& other = validation_ ? *validation_ : text_;
  ChainFold fold;
  if (const auto* letters = std::get_if<crf::ChainData>(&text_)) {
    fold = {crf::Select(*letters, part.train), crf::Select(*letters, part.validation), {}};
    if (groups_) fold.row_group = GroupLetterRows(*groups_);
    return fold;
  }
  if (const auto* tokens = std::get_if<crf::AttributeText>(&text_)) {
    LUTHIER_ASSIGN_OR_RETURN(const auto map,
                             crf::AttributeMap::Fit(*tokens, part.train, settings.Int("min_count"), stop));
    LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(*tokens, part.train, crf::FeatureMap::UnknownLabels::kError, stop));
    LUTHIER_ASSIGN_OR_RETURN(fold.validation,
                             map.Encode(std::get<crf::AttributeText>(other), part.validation, kKeep, stop));
    if (groups_) fold.row_group = GroupRows(*groups_, map);
    return fold;
  }
  const auto& columns = std::get<crf::ColumnText>(text_);
  LUTHIER_ASSIGN_OR_RETURN(const auto map,
                           crf::FeatureMap::Fit(columns, part.train, ChainFeatureOptions(settings, templates_), stop));
  LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(columns, part.train, crf::FeatureMap::UnknownLabels::kError, stop));
  LUTHIER_ASSIGN_OR_RETURN(fold.validation, map.Encode(std::get<crf::ColumnText>(other), part.validation, kKeep, stop));
  if (groups_) {
    LUTHIER_ASSIGN_OR_RETURN(fold.row_group, GroupRows(*groups_, map));
  }
  return fold;
}

absl::StatusOr<std::shared_ptr<const EncodedChains>> ChainSource::EncodeAnew(const Settings& settings, std::string key,
                                                                             const std::atomic<bool>* stop) const {
  auto encoded = std::make_shared<EncodedChains>();
  encoded->key = std::move(key);
  if (FindKept(encoded.get())) return std::shared_ptr<const EncodedChains>(std::move(encoded));
  for (const learn::Partition& part : parts_) {
    LUTHIER_ASSIGN_OR_RETURN(ChainFold fold, EncodeFold(settings, part, stop));
    if (learn::StopRequested(stop)) return crf::EncodingStopped();
    absl::StrAppend(&encoded->identity, crf::Fingerprint(fold.train), " ");
    if (learn::StopRequested(stop)) return crf::EncodingStopped();
    absl::StrAppend(&encoded->identity, crf::Fingerprint(fold.validation), " ");
    encoded->folds.push_back(std::move(fold));
  }
  if (learn::StopRequested(stop)) return crf::EncodingStopped();
  Keep(*encoded);
  return std::shared_ptr<const EncodedChains>(std::move(encoded));
}

absl::StatusOr<std::shared_ptr<const EncodedChains>> ChainSource::Encode(const Settings& settings,
                                                                         const std::atomic<bool>* stop) const {
  std::string key = KeyOf(settings);
  {
    base::MutexLock lock(&mutex_);
    while (true) {
      for (const std::shared_ptr<const EncodedChains>& one : encoded_) {
        if (one->key == key) return one;
      }
      if (learn::StopRequested(stop)) return crf::EncodingStopped();
      if (!encoding_) break;
      changed_.WaitFor(&mutex_, kLookEvery);
    }
    encoding_ = true;
  }
  absl::StatusOr<std::shared_ptr<const EncodedChains>> encoded = EncodeAnew(settings, std::move(key), stop);
  base::MutexLock lock(&mutex_);
  encoding_ = false;
  if (encoded.ok()) {
    encoded_.push_back(*encoded);
    if (encoded_.size() > kKeptEncodings) encoded_.pop_front();
  }
  changed_.SignalAll();
  return encoded;
}

void ChainSource::Keep(const EncodedChains& encoded) const {
  if (!kept_) return;
  kept_->cache->Put(absl::StrCat(kept_->key, "\n", encoded.key), kept_->fd.get(), kept_->source,
                    [&](learn::CheckpointWriter* writer) {
                      writer->U64(encoded.folds.size());
                      for (const ChainFold& fold : encoded.folds) {
                        crf::SaveChains(fold.train, writer);
                        crf::SaveChains(fold.validation, writer);
                        writer->Array(fold.row_group);
                      }
                      writer->Text(encoded.identity);
                    });
}

// Fills in what an earlier process kept under `encoded->key`; false leaves it as it was.
bool ChainSource::FindKept(EncodedChains* encoded) const {
  if (!kept_) return false;
  std::optional<learn::DataCache::Entry> entry =
      kept_->cache->Find(absl::StrCat(kept_->key, "\n", encoded->key), kept_->fd.get(), kept_->source);
  if (!entry) return false;
  EncodedChains found;
  found.key = encoded->key;
  const uint64_t folds = entry->reader().U64();
  for (uint64_t k = 0; k < folds && entry->reader().ok(); ++k) {
    ChainFold& fold = found.folds.emplace_back();
    if (!crf::LoadChains(&entry->reader(), &fold.train) || !crf::LoadChains(&entry->reader(), &fold.validation)) {
      return false;
    }
    fold.row_group = entry->reader().Array<int32_t>();
    if (fold.row_group.size() != (groups_ ? static_cast<size_t>(fold.train.attributes) : 0)) return false;
  }
  found.identity = entry->reader().Text();
  if (!entry->reader().Done() || found.folds.size() != parts_.size()) return false;
  *encoded = std::move(found);
  return true;
}

}  // namespace luthier::objectives
