#include "worker/objectives/output.h"

#include <algorithm>
#include <utility>

namespace luthier::worker {

LineSplitter::LineSplitter(size_t limit, std::function<void(absl::string_view, bool)> on_line)
    : limit_(limit), on_line_(std::move(on_line)) {}

void LineSplitter::Add(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const absl::string_view part = bytes.substr(0, newline);
    const size_t room = limit_ - line_.size();
    truncated_ = truncated_ || part.size() > room;
    line_.append(part.data(), std::min(part.size(), room));
    if (newline == absl::string_view::npos) return;
    Flush();
    bytes.remove_prefix(newline + 1);
  }
}

void LineSplitter::Finish() {
  if (!line_.empty() || truncated_) Flush();
}

void LineSplitter::Flush() {
  on_line_(line_, truncated_);
  line_.clear();
  truncated_ = false;
  constexpr size_t kKeep = 1 << 16;
  if (line_.capacity() > kKeep) std::string().swap(line_);  // One long line is no reason to keep its memory.
}

void Tail::Add(absl::string_view bytes) {
  if (bytes.size() >= limit_) {
    bytes_.assign(bytes.data() + (bytes.size() - limit_), limit_);
    return;
  }
  bytes_.append(bytes.data(), bytes.size());
  if (bytes_.size() > 2 * limit_) bytes_.erase(0, bytes_.size() - limit_);
}

absl::string_view Tail::bytes() const {
  return absl::string_view(bytes_).substr(bytes_.size() > limit_ ? bytes_.size() - limit_ : 0);
}

}  // namespace luthier::worker
