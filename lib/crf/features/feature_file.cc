// FeatureMap's Save and Load.
#include <algorithm>
#include <utility>

#include "lib/crf/features/features.h"
#include "lib/notation/templates.h"

namespace luthier::crf {
namespace {

constexpr uint64_t kMaxRows = uint64_t{1} << 30;

}  // namespace

void FeatureMap::Save(base::CheckpointWriter* writer) const {
  writer->U64(options_.templates.size());
  for (const notation::Template& one : options_.templates) {
    writer->Text(one.space);
    std::vector<int32_t> numbers;
    for (const notation::Position& position : one.positions) {
      numbers.push_back(position.offset);
      numbers.push_back(position.column);
    }
    writer->Array(numbers);
  }
  writer->U64(options_.lower_words ? 1 : 0);
  writer->U64(static_cast<uint64_t>(options_.boundary));
  writer->U64(static_cast<uint64_t>(options_.min_count));
  writer->U64(static_cast<uint64_t>(options_.hash_bits));
  writer->U64(options_.bias ? 1 : 0);
  writer->U64(options_.ends ? 1 : 0);
  writer->U64(static_cast<uint64_t>(columns_));
  writer->Texts(label_names_);
  writer->F64(collision_rate_);
  writer->U64(static_cast<uint64_t>(template_rows_));
  if (options_.hash_bits == 0) SaveDictionary(writer);
}

// Numbers texts and pairs anew, in the same order, without those that no attribute depends on.
void FeatureMap::SaveDictionary(base::CheckpointWriter* writer) const {
  std::vector<Key> pair(pairs_.size());
  for (const auto& [key, id] : pairs_) pair[id - kCombined] = key;
  std::vector<Key> attribute(static_cast<size_t>(template_rows_));
  for (const auto& [key, row] : row_) {
    if (row >= 0) attribute[static_cast<size_t>(row)] = key;
  }
  std::vector<uint64_t> new_text(static_cast<size_t>(texts_.size()), 0), new_pair(pair.size(), 0);
  const auto mark = [&](uint64_t id) { (id >= kCombined ? new_pair[id - kCombined] : new_text[id]) = 1; };
  for (const Key& key : attribute) mark(key.second);
  for (size_t k = pair.size(); k-- > 0;) {  // The parts of a pair have lower numbers.
    if (new_pair[k] == 0) continue;
    mark(pair[k].first);
    mark(pair[k].second);
  }
  // The constructor makes the texts of the boundaries.
  const uint64_t boundaries = *std::max_element(boundary_.begin(), boundary_.end()) + 1;
  std::vector<std::string> texts;
  for (uint64_t id = 0; id < new_text.size(); ++id) {
    if (id >= boundaries && new_text[id] == 0) continue;
    new_text[id] = id < boundaries ? id : boundaries + texts.size();
    if (id >= boundaries) texts.push_back(texts_.text(static_cast<int32_t>(id)));
  }
  const auto renumbered = [&](uint64_t id) { return id >= kCombined ? new_pair[id - kCombined] : new_text[id]; };
  std::vector<uint64_t> pairs, attributes;
  for (size_t k = 0; k < pair.size(); ++k) {
    if (new_pair[k] == 0) continue;
    new_pair[k] = kCombined + pairs.size() / 2;
    pairs.push_back(renumbered(pair[k].first));
    pairs.push_back(renumbered(pair[k].second));
  }
  for (const Key& key : attribute) {
    attributes.push_back(key.first);
    attributes.push_back(renumbered(key.second));
  }
  writer->Texts(texts);
  writer->Array(pairs);
  writer->Array(attributes);
}

bool FeatureMap::LoadDictionary(base::CheckpointReader* reader) {
  const std::vector<std::string> texts = reader->Texts();
  const std::vector<uint64_t> pairs = reader->Array<uint64_t>();
  const std::vector<uint64_t> attributes = reader->Array<uint64_t>();
  if (!reader->ok() || pairs.size() % 2 != 0 || attributes.size() != 2 * static_cast<size_t>(template_rows_)) {
    return false;
  }
  for (const std::string& text : texts) {
    const int32_t before = texts_.size();
    if (texts_.Intern(text) != before) return false;
  }
  const auto known = [&](uint64_t id, uint64_t known_pairs) {
    return id >= kCombined ? id - kCombined < known_pairs : id < static_cast<uint64_t>(texts_.size());
  };
  for (size_t k = 0; k < pairs.size(); k += 2) {
    if (!known(pairs[k], k / 2) || !known(pairs[k + 1], k / 2)) return false;
    if (!pairs_.emplace(Key(pairs[k], pairs[k + 1]), kCombined + k / 2).second) return false;
  }
  for (size_t k = 0; k < attributes.size(); k += 2) {
    if (!known(attributes[k + 1], pairs_.size())) return false;
    if (!row_.emplace(Key(attributes[k], attributes[k + 1]), static_cast<int32_t>(k / 2)).second) return false;
  }
  return true;
}

absl::StatusOr<FeatureMap> FeatureMap::Load(base::CheckpointReader* reader) {
  const absl::Status unfit = absl::DataLossError("the table of attributes does not fit together");
  FeatureOptions options;
  const uint64_t templates = reader->U64();
  for (uint64_t k = 0; k < templates && reader->ok(); ++k) {
    notation::Template one;
    one.space = reader->Text();
    const std::vector<int32_t> numbers = reader->Array<int32_t>();
    for (size_t j = 0; j + 1 < numbers.size(); j += 2) one.positions.push_back({numbers[j], numbers[j + 1]});
    options.templates.push_back(std::move(one));
  }
  options.lower_words = reader->U64() != 0;
  const uint64_t boundary = reader->U64();
  options.boundary = static_cast<Boundary>(boundary);
  options.min_count = static_cast<int64_t>(reader->U64());
  const uint64_t hash_bits = reader->U64();
  options.hash_bits = static_cast<int>(hash_bits);
  options.bias = reader->U64() != 0;
  options.ends = reader->U64() != 0;
  const uint64_t columns = reader->U64();
  std::vector<std::string> label_names = reader->Texts();
  const double collision_rate = reader->F64();
  const uint64_t rows = reader->U64();
  if (!reader->ok() || boundary > static_cast<uint64_t>(Boundary::kSkip) || hash_bits > 28 || columns < 1 ||
      columns > 10'000 || label_names.size() < 2 || rows > kMaxRows ||
      (hash_bits > 0 && rows != uint64_t{1} << hash_bits)) {
    return unfit;
  }
  for (const notation::Template& one : options.templates) {
    for (const notation::Position& position : one.positions) {
      const bool fits = position.column >= 0 && position.column < static_cast<int>(columns) &&
                        position.offset >= -notation::kMaxOffset && position.offset <= notation::kMaxOffset;
      if (!fits) return unfit;
    }
  }
  FeatureMap map(std::move(options), static_cast<int>(columns));
  map.label_names_ = std::move(label_names);
  map.collision_rate_ = collision_rate;
  map.template_rows_ = static_cast<int32_t>(rows);
  if (map.options_.hash_bits == 0 && !map.LoadDictionary(reader)) return unfit;
  map.CountAttributes();
  return map;
}

}  // namespace luthier::crf
