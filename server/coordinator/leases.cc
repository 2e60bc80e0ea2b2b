#include "server/coordinator/leases.h"

namespace luthier::coordinator {
namespace {

constexpr size_t kMaxEnded = 100'000;

}  // namespace

std::string MakeToken(uint64_t fence, uint64_t random) {
  std::string token(16, '\0');
  for (int i = 0; i < 8; ++i) {
    token[i] = static_cast<char>(fence >> (56 - 8 * i));
    token[8 + i] = static_cast<char>(random >> (56 - 8 * i));
  }
  return token;
}

uint64_t FenceOf(const std::string& token) {
  if (token.size() != 16) return 0;
  uint64_t fence = 0;
  for (int i = 0; i < 8; ++i) fence = (fence << 8) | static_cast<unsigned char>(token[i]);
  return fence;
}

void LeaseTable::Grant(const std::string& token, Entry entry) {
  base::MutexLock lock(&mutex_);
  live_[token] = entry;
  ended_.erase(token);
}

void LeaseTable::End(const std::string& token, study::Directive directive) {
  base::MutexLock lock(&mutex_);
  live_.erase(token);
  if (directive != study::Directive::kStop) return;
  // A forgotten holder is told LOST, which ends its run as well.
  if (ended_.size() >= kMaxEnded) ended_.clear();
  ended_[token] = directive;
}

bool LeaseTable::Expired(const std::string& token, absl::Duration now) const {
  base::MutexLock lock(&mutex_);
  const auto found = live_.find(token);
  return found == live_.end() || found->second.deadline <= now;
}

std::optional<absl::Duration> LeaseTable::Deadline(const std::string& token) const {
  base::MutexLock lock(&mutex_);
  const auto found = live_.find(token);
  if (found == live_.end()) return std::nullopt;
  return found->second.deadline;
}

LeaseTable::Renewal LeaseTable::Renew(const std::vector<std::string>& tokens, absl::Duration now, bool take_back) {
  base::MutexLock lock(&mutex_);
  Renewal renewal;
  for (const std::string& token : tokens) {
    const auto found = live_.find(token);
    if (found != live_.end() && found->second.deadline <= now) renewal.any_expired = true;
  }
  if (renewal.any_expired && !take_back) return renewal;
  for (const std::string& token : tokens) {
    const auto found = live_.find(token);
    if (found != live_.end()) {
      found->second.deadline = std::max(found->second.deadline, now + found->second.ttl);
      renewal.directives.push_back(study::Directive::kContinue);
      continue;
    }
    const auto ended = ended_.find(token);
    renewal.directives.push_back(ended == ended_.end() ? study::Directive::kLost : ended->second);
  }
  return renewal;
}

void LeaseTable::ShiftAll(absl::Duration by) {
  base::MutexLock lock(&mutex_);
  for (auto& [token, entry] : live_) entry.deadline += by;
}

void LeaseTable::DropStudy(storage::StudyKey study) {
  base::MutexLock lock(&mutex_);
  for (auto it = live_.begin(); it != live_.end();) it = it->second.study == study ? live_.erase(it) : std::next(it);
}

size_t LeaseTable::size() const {
  base::MutexLock lock(&mutex_);
  return live_.size();
}

}  // namespace luthier::coordinator
