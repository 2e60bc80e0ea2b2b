#include "worker/objectives/output.h"

#include <algorithm>
#include <utility>

namespace luthier::worker {

LineSplitter::LineSplitter(size_t limit, std::function<void(const TextLine&)> on_line)
    : limit_(limit), on_line_(std::move(on_line)) {}

void LineSplitter::Add(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\r\n");
    const absl::string_view part = bytes.substr(0, end);
    const size_t room = limit_ - line_.size();
    truncated_ = truncated_ || part.size() > room;
    line_.append(part.data(), std::min(part.size(), room));
    if (end == absl::string_view::npos) return;
    Flush(bytes[end]);
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish() {
  if (!line_.empty()) Flush('\0');
}

void LineSplitter::Flush(char end) {
  // "\r\n" is one end of a line.
  const bool nothing = line_.empty() && (end == '\r' || overwrites_);
  if (!nothing) on_line_({line_, number_, truncated_, overwrites_, end != '\0'});
  line_.clear();
  truncated_ = false;
  overwrites_ = end == '\r';
  if (end == '\n') ++number_;
  constexpr size_t kKeep = 1 << 16;
  if (line_.capacity() > kKeep) std::string().swap(line_);  // One long line does not keep its memory.
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
