#include "server/coordinator/studies/leases.h"

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
  if (const auto old = live_.find(token); old != live_.end()) Drop(old);
  entry.deadline -= shift_;
  const auto place = live_.emplace(token, entry).first;
  by_study_[entry.study].insert(&place->first);
  ended_.erase(token);
}

void LeaseTable::Drop(Live::iterator lease) {
  const auto study = by_study_.find(lease->second.study);
  study->second.erase(&lease->first);
  if (study->second.empty()) by_study_.erase(study);
  live_.erase(lease);
}

void LeaseTable::End(const std::string& token, study::Directive directive) {
  base::MutexLock lock(&mutex_);
  if (const auto found = live_.find(token); found != live_.end()) Drop(found);
  if (directive != study::Directive::kStop) return;
  // A forgotten holder is told LOST, which ends its run as well.
  if (ended_.size() >= kMaxEnded) ended_.clear();
  ended_[token] = directive;
}

void LeaseTable::AskToFinish(const std::string& token) {
  base::MutexLock lock(&mutex_);
  if (const auto found = live_.find(token); found != live_.end()) found->second.finish = true;
}

bool LeaseTable::Expired(const std::string& token, absl::Duration now) const {
  base::MutexLock lock(&mutex_);
  const auto found = live_.find(token);
  return found == live_.end() || found->second.deadline + shift_ <= now;
}

std::optional<LeaseTable::Entry> LeaseTable::Find(const std::string& token) const {
  base::MutexLock lock(&mutex_);
  const auto found = live_.find(token);
  if (found == live_.end()) return std::nullopt;
  Entry entry = found->second;
  entry.deadline += shift_;
  return entry;
}

std::optional<absl::Duration> LeaseTable::Deadline(const std::string& token) const {
  const std::optional<Entry> entry = Find(token);
  if (!entry) return std::nullopt;
  return entry->deadline;
}

LeaseTable::Renewal LeaseTable::Renew(const std::vector<std::string>& tokens, absl::Duration now, bool take_back) {
  base::MutexLock lock(&mutex_);
  Renewal renewal;
  for (const std::string& token : tokens) {
    const auto found = live_.find(token);
    if (found != live_.end() && found->second.deadline + shift_ <= now) renewal.any_expired = true;
  }
  if (renewal.any_expired && !take_back) return renewal;
  for (const std::string& token : tokens) {
    const auto found = live_.find(token);
    if (found != live_.end()) {
      found->second.deadline = std::max(found->second.deadline, now + found->second.ttl - shift_);
      renewal.directives.push_back(found->second.finish ? study::Directive::kFinish : study::Directive::kContinue);
      continue;
    }
    const auto ended = ended_.find(token);
    renewal.directives.push_back(ended == ended_.end() ? study::Directive::kLost : ended->second);
  }
  return renewal;
}

void LeaseTable::ShiftAll(absl::Duration by) {
  base::MutexLock lock(&mutex_);
  shift_ += by;
}

void LeaseTable::DropStudy(storage::StudyKey study) {
  base::MutexLock lock(&mutex_);
  const auto found = by_study_.find(study);
  if (found == by_study_.end()) return;
  for (const std::string* const token : found->second) live_.erase(live_.find(*token));
  by_study_.erase(found);
}

std::unordered_map<std::string, int> LeaseTable::CountByWorker(absl::Duration now) const {
  base::MutexLock lock(&mutex_);
  std::unordered_map<std::string, int> counts;
  for (const auto& [token, lease] : live_) {
    if (lease.deadline + shift_ > now) ++counts[lease.worker];
  }
  return counts;
}

size_t LeaseTable::size() const {
  base::MutexLock lock(&mutex_);
  return live_.size();
}

}  // namespace luthier::coordinator
