#include "lib/objectives/chain_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/features/attribute_map.h"
#include "lib/crf/features/data_file.h"
#include "lib/crf/features/features.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/data/attribute_text.h"
#include "lib/data/synth_chains.h"
#include "lib/linear/minimizer.h"
#include "lib/notation/synth_specs.h"
#include "lib/notation/synth_uri.h"
#include "lib/objectives/chain_penalty.h"
#include "lib/objectives/crf_settings.h"

namespace luthier::objectives {
namespace {

constexpr size_t kKeptEncodings = 3;
// Time between polls of the stop by trials that wait for an encoding.
constexpr absl::Duration kLookEvery = absl::Milliseconds(10);

// The differences between the three formats, as overloads for the types of their text. `version` is that of the entries
// in the cache.
struct Format {
  const char* name;
  const char* version;
};
Format FormatOf(const data::ColumnText&) {
  return {"columns", "columns/1"};
}
Format FormatOf(const data::AttributeText&) {
  return {"attributes", "attributes/1"};
}
Format FormatOf(const crf::ChainData&) {
  return {"letters", "letters/1"};
}

absl::Status ReadLines(data::LineReader& lines, data::ColumnText* text) {
  LUTHIER_ASSIGN_OR_RETURN(*text, data::ReadColumnText(lines));
  return absl::OkStatus();
}
absl::Status ReadLines(data::LineReader& lines, data::AttributeText* text) {
  LUTHIER_ASSIGN_OR_RETURN(*text, data::ReadAttributeText(lines));
  return absl::OkStatus();
}
absl::Status ReadLines(data::LineReader& lines, crf::ChainData* text) {
  LUTHIER_ASSIGN_OR_RETURN(crf::Letters letters, crf::ReadLetters(lines));
  *text = std::move(letters.data);
  return absl::OkStatus();
}

absl::Status NoRoot(const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat("data set ", base::Quote(name),
                                                    " cannot be opened: no data root is set; only synth:… data are "
                                                    "available"));
}

// Splits off one part of round(fraction * n) of the sequences, at least one, at most all but one; or makes folds.
absl::StatusOr<std::vector<data::Partition>> SplitSequences(int64_t n, const study::Split& split) {
  if (split.folds > 0) {
    const std::vector<int32_t> one_class(static_cast<size_t>(n), 0);
    return data::SplitFolds(one_class, 1, split.folds, split.seed);
  }
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  base::RandomStream(split.seed, "crf.split").Shuffle(rows);
  const int64_t held_out =
      std::clamp<int64_t>(std::llround(split.validation * static_cast<double>(n)), 1, std::max<int64_t>(1, n - 1));
  data::Partition part;
  part.validation.assign(rows.begin(), rows.begin() + held_out);
  part.train.assign(rows.begin() + held_out, rows.end());
  std::sort(part.validation.begin(), part.validation.end());
  std::sort(part.train.begin(), part.train.end());
  return std::vector<data::Partition>{std::move(part)};
}

std::vector<int32_t> AllRows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

int64_t Sequences(const std::variant<data::ColumnText, data::AttributeText, crf::ChainData>& text) {
  return std::visit([](const auto& one) { return one.sequences(); }, text);
}

std::string TextOption(const study::BuiltinObjective& objective, const char* name) {
  const auto found = objective.options.find(name);
  return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
}

}  // namespace

absl::StatusOr<data::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                            const data::DataRoot* root, const base::StopToken& stop) {
  const data::TextLimits limits = {.stop = stop};
  if (notation::IsSynth(name)) {
    LUTHIER_RETURN_IF_ERROR(notation::CheckSynthChains(name, format));
    std::string text;
    if (format == "letters") {
      LUTHIER_ASSIGN_OR_RETURN(text, data::SynthesizeLetters(notation::ParseSynthLetters(name).value(), stop));
    } else if (format == "attributes") {
      LUTHIER_ASSIGN_OR_RETURN(text, data::SynthesizeAttributes(notation::ParseSynthSequences(name).value(), stop));
    } else {
      LUTHIER_ASSIGN_OR_RETURN(text, data::SynthesizeSequences(notation::ParseSynthSequences(name).value(), stop));
    }
    return data::LineReader(data::BytesOf(std::move(text)), name, limits);
  }
  if (root == nullptr) return NoRoot(name);
  LUTHIER_ASSIGN_OR_RETURN(data::UniqueFd fd, root->OpenFile(name));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<data::ByteSource> bytes, data::OpenBytes(std::move(fd), name));
  return data::LineReader(std::move(bytes), name, limits);
}

// Reads the text from the cache if it is there, else from its origin.
template <typename T>
absl::Status ChainSource::ReadOne(const ChainOrigin& origin, const base::StopToken& stop, T* text) const {
  const Format format = FormatOf(*text);
  if (origin.fd.get() < 0) {
    LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, OpenChains(origin.name, format.name, nullptr, stop));
    return ReadLines(lines, text);
  }
  const std::string key = absl::StrCat(format.version, "\n", origin.name);
  if (origin.state) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<data::DataCache::Entry> entry,
                             cache_->Find(key, origin.fd.get(), *origin.state, stop));
    T found;
    if (entry && crf::LoadChains(&entry->reader(), &found) && entry->reader().Done()) {
      found.name = origin.name;
      *text = std::move(found);
      return absl::OkStatus();
    }
    if (entry && absl::IsCancelled(entry->reader().status())) return entry->reader().status();
  }
  data::UniqueFd fd(fcntl(origin.fd.get(), F_DUPFD_CLOEXEC, 0));
  // The descriptors share their position, and an earlier reading may have been stopped.
  if (fd.get() < 0 || (origin.state && lseek(fd.get(), 0, SEEK_SET) != 0)) {
    return absl::ErrnoToStatus(errno, absl::StrCat("data set ", base::Quote(origin.name), " cannot be read"));
  }
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<data::ByteSource> bytes, data::OpenBytes(std::move(fd), origin.name));
  data::LineReader lines(std::move(bytes), origin.name, {.stop = stop});
  LUTHIER_RETURN_IF_ERROR(ReadLines(lines, text));
  if (origin.state) {
    const auto save = [&](base::CheckpointWriter* writer) { crf::SaveChains(*text, writer); };
    LUTHIER_RETURN_IF_ERROR(cache_->Put(key, origin.fd.get(), *origin.state, save, stop));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ChainSource::ReadAll(const base::StopToken& stop, T* text) const {
  LUTHIER_RETURN_IF_ERROR(ReadOne(data_, stop, text));
  if (!further_) return absl::OkStatus();
  T more;
  LUTHIER_RETURN_IF_ERROR(ReadOne(*further_, stop, &more));
  validation_.emplace(std::move(more));
  return absl::OkStatus();
}

absl::Status ChainSource::Read(const base::StopToken& stop) const {
  if (read_) return absl::OkStatus();
  LUTHIER_RETURN_IF_ERROR(std::visit([&](auto& text) { return ReadAll(stop, &text); }, text_));
  LUTHIER_RETURN_IF_ERROR(FindGroups());
  read_ = true;
  return absl::OkStatus();
}

absl::Status ChainSource::Split(int64_t sequences, int64_t further) {
  if (further_) {
    parts_ = {{AllRows(sequences), AllRows(further)}};
    return absl::OkStatus();
  }
  LUTHIER_ASSIGN_OR_RETURN(parts_, SplitSequences(sequences, split_));
  return absl::OkStatus();
}

absl::Status ChainSource::OpenFiles(const study::BuiltinObjective& objective, const data::DataRoot* root,
                                    const data::DataCache* cache) {
  const auto open = [&](const std::string& name, ChainOrigin* origin) -> absl::Status {
    origin->name = name;
    if (notation::IsSynth(name)) return absl::OkStatus();
    if (root == nullptr) return NoRoot(name);
    LUTHIER_ASSIGN_OR_RETURN(origin->fd, root->OpenFile(name));
    if (cache != nullptr) origin->state = cache->Look(origin->fd.get());
    return absl::OkStatus();
  };
  cache_ = cache;
  split_ = objective.split;
  const std::string further_name = TextOption(objective, "validation_data");
  LUTHIER_RETURN_IF_ERROR(open(objective.data, &data_));
  if (!further_name.empty()) LUTHIER_RETURN_IF_ERROR(open(further_name, &further_.emplace()));
  if (!data_.state) return absl::OkStatus();
  const char* version = std::visit([](const auto& text) { return FormatOf(text).version; }, text_);
  Kept kept = {absl::StrCat("chains/4\n", version, "\n", TextOption(objective, "templates"), "\n",
                            TextOption(objective, "columns"), "\n", objective.data, "\n",
                            study::FormatDouble(split_.validation), " ", split_.folds, " ", split_.seed, "\n",
                            further_name, "\n", TextOption(objective, catalogue::kGroupsOption)),
               ""};
  if (further_ && further_->fd.get() >= 0) {
    kept.further_state = cache->StateOf(further_->fd.get());
    // Nothing can be kept for a file that may still change.
    if (kept.further_state.empty()) return absl::OkStatus();
    absl::StrAppend(&kept.key, "\n", kept.further_state);
  }
  kept_ = std::move(kept);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const ChainSource>> ChainSource::Open(const study::BuiltinObjective& objective,
                                                                     const data::DataRoot* root,
                                                                     const data::DataCache* cache,
                                                                     const base::StopToken& stop) {
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
    source->text_.emplace<crf::ChainData>();
  } else if (format == "attributes") {
    source->text_.emplace<data::AttributeText>();
  } else {
    LUTHIER_ASSIGN_OR_RETURN(source->templates_, catalogue::ChainTemplates(TextOption(objective, "templates"),
                                                                           TextOption(objective, "columns")));
  }
  LUTHIER_ASSIGN_OR_RETURN(source->penalty_groups_, catalogue::GroupsOf(objective.options));
  LUTHIER_RETURN_IF_ERROR(source->OpenFiles(objective, root, cache));
  LUTHIER_ASSIGN_OR_RETURN(const bool found, source->FindOutline(stop));
  if (found) return std::unique_ptr<const ChainSource>(std::move(source));
  LUTHIER_RETURN_IF_ERROR(source->Read(stop));
  LUTHIER_RETURN_IF_ERROR(source->Split(Sequences(source->text_), further ? Sequences(*source->validation_) : 0));
  LUTHIER_RETURN_IF_ERROR(source->Check());
  if (source->groups_) source->transitions_group_ = source->groups_->transitions;
  LUTHIER_RETURN_IF_ERROR(source->KeepOutline(stop));
  return std::unique_ptr<const ChainSource>(std::move(source));
}

namespace {

// Checks that the held-out loss is not empty: sequences with a label that the training part lacks are left out of it.
// Returns INVALID_ARGUMENT if all of them are. T: ColumnText or AttributeText; `other`: the text with the held-out
// sequences.
template <typename T>
absl::Status CheckHeldOutLabels(const T& text, const T& other, const std::vector<data::Partition>& parts) {
  const auto tokens = [](const T& of, int32_t row) {
    const auto i = static_cast<size_t>(row);
    return std::pair(of.label.begin() + of.sequence_start[i], of.label.begin() + of.sequence_start[i + 1]);
  };
  int32_t example = 0;  // Line of the label.
  for (const data::Partition& part : parts) {
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
      example = other.line[static_cast<size_t>(unknown - other.label.begin())];
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      other.name, ": every held-out sequence has a label that is not in the training part, such as that of line ",
      example,
      ", so there is no loss to measure; hold out more, or look at which column is "
      "the label"));
}

}  // namespace

absl::Status ChainSource::Check() const {
  if (const auto* letters = std::get_if<crf::ChainData>(&text_)) {
    for (const data::Partition& part : parts_) {
      if (part.train.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(letters->name, ": no sequences to train on"));
      }
    }
    return crf::CheckChainData(*letters);
  }
  if (const auto* tokens = std::get_if<data::AttributeText>(&text_)) {
    for (const data::Partition& part : parts_) {
      LUTHIER_RETURN_IF_ERROR(crf::AttributeMap::Check(*tokens, part.train));
    }
    return CheckHeldOutLabels(*tokens, std::get<data::AttributeText>(validation_ ? *validation_ : text_), parts_);
  }
  const auto& columns = std::get<data::ColumnText>(text_);
  if (validation_) {
    const auto& other = std::get<data::ColumnText>(*validation_);
    if (other.columns != columns.columns) {
      return absl::InvalidArgumentError(absl::StrCat(other.name, ": has ", other.columns + 1, " columns, but ",
                                                     columns.name, " has ", columns.columns + 1));
    }
  }
  crf::FeatureOptions options;
  options.templates = templates_;
  for (const data::Partition& part : parts_) {
    LUTHIER_RETURN_IF_ERROR(crf::FeatureMap::Check(columns, part.train, options));
  }
  return CheckHeldOutLabels(columns, std::get<data::ColumnText>(validation_ ? *validation_ : text_), parts_);
}

absl::Status ChainSource::FindGroups() const {
  if (penalty_groups_.empty()) return absl::OkStatus();
  const auto* tokens = std::get_if<data::AttributeText>(&text_);
  std::vector<std::string> names;
  if (tokens != nullptr) {
    for (int32_t a = 0; a < tokens->attributes.size(); ++a) names.push_back(tokens->attributes.text(a));
  } else {
    names = std::holds_alternative<crf::ChainData>(text_) ? std::vector<std::string>{"pixels"}
                                                          : catalogue::TemplateNames(templates_);
  }
  const std::string where = tokens != nullptr ? tokens->name : "the model";
  LUTHIER_ASSIGN_OR_RETURN(groups_, catalogue::FindChainGroups(penalty_groups_, names, tokens != nullptr, where));
  return absl::OkStatus();
}

// The settings that the encoding depends on.
std::string ChainSource::KeyOf(const catalogue::Settings& settings) const {
  if (std::holds_alternative<crf::ChainData>(text_)) return "";
  if (std::holds_alternative<data::AttributeText>(text_)) return absl::StrCat(settings.Int("min_count"));
  return absl::StrCat(settings.Int("window"), " ", settings.Int("max_positions"), " ", settings.Bool("lower_words"),
                      " ", settings.Text("boundary"), " ", settings.Int("min_count"), " ", settings.Int("hash_bits"));
}

absl::StatusOr<ChainFold> ChainSource::EncodeFold(const catalogue::Settings& settings, const data::Partition& part,
                                                  const base::StopToken& stop) const {
  constexpr auto kKeep = crf::FeatureMap::UnknownLabels::kKeep;
  const Text& other = validation_ ? *validation_ : text_;
  ChainFold fold;
  if (const auto* letters = std::get_if<crf::ChainData>(&text_)) {
    fold = {crf::Select(*letters, part.train), crf::Select(*letters, part.validation), {}};
    if (groups_) fold.row_group = GroupLetterRows(*groups_);
    return fold;
  }
  if (const auto* tokens = std::get_if<data::AttributeText>(&text_)) {
    LUTHIER_ASSIGN_OR_RETURN(const auto map,
                             crf::AttributeMap::Fit(*tokens, part.train, settings.Int("min_count"), stop));
    LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(*tokens, part.train, crf::FeatureMap::UnknownLabels::kError, stop));
    LUTHIER_ASSIGN_OR_RETURN(fold.validation,
                             map.Encode(std::get<data::AttributeText>(other), part.validation, kKeep, stop));
    if (groups_) fold.row_group = GroupRows(*groups_, map);
    return fold;
  }
  const auto& columns = std::get<data::ColumnText>(text_);
  LUTHIER_ASSIGN_OR_RETURN(const auto map,
                           crf::FeatureMap::Fit(columns, part.train, ChainFeatureOptions(settings, templates_), stop));
  LUTHIER_ASSIGN_OR_RETURN(fold.train, map.Encode(columns, part.train, crf::FeatureMap::UnknownLabels::kError, stop));
  LUTHIER_ASSIGN_OR_RETURN(fold.validation,
                           map.Encode(std::get<data::ColumnText>(other), part.validation, kKeep, stop));
  if (groups_) {
    LUTHIER_ASSIGN_OR_RETURN(fold.row_group, GroupRows(*groups_, map));
  }
  return fold;
}

absl::StatusOr<std::shared_ptr<const EncodedChains>> ChainSource::EncodeAnew(const catalogue::Settings& settings,
                                                                             std::string key,
                                                                             const base::StopToken& stop) const {
  auto encoded = std::make_shared<EncodedChains>();
  encoded->key = std::move(key);
  LUTHIER_ASSIGN_OR_RETURN(const bool found, FindKept(stop, encoded.get()));
  if (found) return std::shared_ptr<const EncodedChains>(std::move(encoded));
  if (!read_) {
    // The data were checked when they were kept, and have not been read since.
    const std::optional<data::DataCache::Source> now = cache_->Look(data_.fd.get());
    const bool further = further_ && further_->fd.get() >= 0;
    if (!now || now->size != data_.state->size || now->modified != data_.state->modified ||
        now->changed != data_.state->changed ||
        (further && cache_->StateOf(further_->fd.get()) != kept_->further_state)) {
      return absl::FailedPreconditionError(absl::StrCat(data_.name, further ? " or " + further_->name : std::string(),
                                                        " has changed since this worker opened it; start the worker "
                                                        "anew"));
    }
    LUTHIER_RETURN_IF_ERROR(Read(stop));
  }
  for (const data::Partition& part : parts_) {
    LUTHIER_ASSIGN_OR_RETURN(ChainFold fold, EncodeFold(settings, part, stop));
    LUTHIER_ASSIGN_OR_RETURN(const std::string train, crf::Fingerprint(fold.train, stop));
    LUTHIER_ASSIGN_OR_RETURN(const std::string validation, crf::Fingerprint(fold.validation, stop));
    absl::StrAppend(&encoded->identity, train, " ", validation, " ");
    encoded->folds.push_back(std::move(fold));
  }
  LUTHIER_RETURN_IF_ERROR(Keep(*encoded, stop));
  return std::shared_ptr<const EncodedChains>(std::move(encoded));
}

absl::StatusOr<std::shared_ptr<const EncodedChains>> ChainSource::Encode(const catalogue::Settings& settings,
                                                                         const base::StopToken& stop) const {
  std::string key = KeyOf(settings);
  {
    base::MutexLock lock(&mutex_);
    while (true) {
      for (const std::shared_ptr<const EncodedChains>& one : encoded_) {
        if (one->key == key) return one;
      }
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
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

// Keeps the outline of the data: that they can be read and are valid, and the facts known before encoding. It is an
// entry of its own, as a text with its names takes longer to load than an encoding.
absl::Status ChainSource::KeepOutline(const base::StopToken& stop) const {
  if (!kept_) return absl::OkStatus();
  const auto write = [&](base::CheckpointWriter* writer) {
    writer->U64(static_cast<uint64_t>(Sequences(text_)));
    writer->U64(validation_ ? static_cast<uint64_t>(Sequences(*validation_)) : 0);
    writer->U64(static_cast<uint64_t>(transitions_group_));
  };
  return cache_->Put(absl::StrCat("outline/1\n", kept_->key), data_.fd.get(), *data_.state, write, stop);
}

absl::StatusOr<bool> ChainSource::FindOutline(const base::StopToken& stop) {
  if (!kept_) return false;
  LUTHIER_ASSIGN_OR_RETURN(std::optional<data::DataCache::Entry> entry,
                           cache_->Find(absl::StrCat("outline/1\n", kept_->key), data_.fd.get(), *data_.state, stop));
  if (!entry) return false;
  const auto sequences = static_cast<int64_t>(entry->reader().U64());
  const auto further = static_cast<int64_t>(entry->reader().U64());
  const uint64_t transitions = entry->reader().U64();
  if (!entry->reader().Done() || sequences < 1 || (further > 0) != further_.has_value() ||
      transitions > penalty_groups_.size() || !Split(sequences, further).ok()) {
    return false;
  }
  transitions_group_ = static_cast<int32_t>(transitions);
  return true;
}

absl::Status ChainSource::Keep(const EncodedChains& encoded, const base::StopToken& stop) const {
  if (!kept_) return absl::OkStatus();
  const auto write = [&](base::CheckpointWriter* writer) {
    writer->U64(encoded.folds.size());
    for (const ChainFold& fold : encoded.folds) {
      crf::SaveChains(fold.train, writer);
      crf::SaveChains(fold.validation, writer);
      writer->Array(fold.row_group);
    }
    writer->Text(encoded.identity);
  };
  return cache_->Put(absl::StrCat(kept_->key, "\n", encoded.key), data_.fd.get(), *data_.state, write, stop);
}

// Loads the encodings that an earlier process kept under `encoded->key`; false leaves it as it was.
absl::StatusOr<bool> ChainSource::FindKept(const base::StopToken& stop, EncodedChains* encoded) const {
  if (!kept_) return false;
  LUTHIER_ASSIGN_OR_RETURN(
      std::optional<data::DataCache::Entry> entry,
      cache_->Find(absl::StrCat(kept_->key, "\n", encoded->key), data_.fd.get(), *data_.state, stop));
  if (!entry) return false;
  base::CheckpointReader& reader = entry->reader();
  EncodedChains found;
  found.key = encoded->key;
  const uint64_t folds = reader.U64();
  bool fits = true;
  for (uint64_t k = 0; k < folds && fits && reader.ok(); ++k) {
    ChainFold& fold = found.folds.emplace_back();
    fits = crf::LoadChains(&reader, &fold.train) && crf::LoadChains(&reader, &fold.validation);
    fold.row_group = reader.Array<int32_t>();
    fits = fits && fold.row_group.size() == (penalty_groups_.empty() ? 0 : static_cast<size_t>(fold.train.attributes));
  }
  found.identity = reader.Text();
  if (absl::IsCancelled(reader.status())) return reader.status();
  if (!fits || !reader.Done() || found.folds.size() != parts_.size()) return false;
  *encoded = std::move(found);
  return true;
}

}  // namespace luthier::objectives
