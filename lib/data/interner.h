#ifndef LUTHIER_LIB_DATA_INTERNER_H_
#define LUTHIER_LIB_DATA_INTERNER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace luthier::data {

// Texts and their numbers, by first occurrence. Movable (the texts stay where they are), not copyable.
class Interner {
 public:
  Interner() = default;
  // The number of each text is its index in `texts`. ok() is false if a text is there twice.
  explicit Interner(std::vector<std::string> texts) {
    ids_.reserve(texts.size());
    for (std::string& text : texts) {
      texts_.push_back(std::move(text));
      ids_.emplace(texts_.back(), static_cast<int32_t>(texts_.size()) - 1);
    }
  }
  bool ok() const { return ids_.size() == texts_.size(); }
  Interner(Interner&&) = default;
  Interner& operator=(Interner&&) = default;

  int32_t Intern(absl::string_view text) {
    const auto found = ids_.find(text);
    if (found != ids_.end()) return found->second;
    const auto id = static_cast<int32_t>(texts_.size());
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  // Returns -1 for a text that was never interned.
  int32_t Find(absl::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::string& text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }

 private:
  std::deque<std::string> texts_;
  absl::flat_hash_map<absl::string_view, int32_t> ids_;  // Views into texts_.
};

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_INTERNER_H_
