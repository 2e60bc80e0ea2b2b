#include "lib/base/error.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"
#include "lib/base/secret.h"

namespace luthier::base {
namespace {

constexpr char kPayloadUrl[] = "luthier/error_detail";
constexpr size_t kMaxQuoted = 64;

std::string Serialize(const ErrorDetail& detail) {
  nlohmann::json j;
  j["reason"] = detail.reason;
  for (const FieldViolation& v : detail.violations) j["violations"].push_back({v.field, v.description});
  if (detail.retry_delay) j["retry_ns"] = absl::ToInt64Nanoseconds(*detail.retry_delay);
  if (!detail.metadata.empty()) j["metadata"] = detail.metadata;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Edit distance that counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment):
// swaps are half of all typos.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> above_that(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    above_that.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], above_that[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view message, ErrorDetail detail) {
  absl::Status status(code, message);
  // By string_view: g++ and clang mangle Cord's std::string constructor differently, and only one is in the library.
  const std::string text = Serialize(detail);
  status.SetPayload(kPayloadUrl, absl::Cord(absl::string_view(text)));
  return status;
}

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  return MakeError(code, message, std::move(detail));
}

absl::Status BadField(absl::string_view field, absl::string_view description) {
  Violations violations;
  violations.Add(field, description);
  return violations.ToStatus();
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const nlohmann::json j = nlohmann::json::parse(std::string(*payload), nullptr, /*allow_exceptions=*/false);
  if (j.is_discarded()) return std::nullopt;
  ErrorDetail detail;
  detail.reason = j.value("reason", "");
  if (j.contains("violations")) {
    for (const nlohmann::json& v : j["violations"]) detail.violations.push_back({v[0], v[1]});
  }
  if (j.contains("retry_ns")) detail.retry_delay = absl::Nanoseconds(j["retry_ns"].get<int64_t>());
  if (j.contains("metadata")) detail.metadata = j["metadata"].get<std::map<std::string, std::string>>();
  return detail;
}

std::string GetReason(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail ? detail->reason : "";
}

std::string Quote(absl::string_view caller_text) {
  constexpr size_t kLookedAt = 4 * kMaxQuoted;  // Whoever gives a token for something else must not read it in a log.
  const std::string hidden = HideTokens(caller_text.substr(0, kLookedAt));
  const absl::string_view text = hidden;
  size_t shown = std::min(text.size(), kMaxQuoted);
  // Do not cut inside a UTF-8 sequence, which has at most three continuation bytes.
  while (shown < text.size() && shown < kMaxQuoted + 3 && (static_cast<unsigned char>(text[shown]) & 0xC0) == 0x80) {
    ++shown;
  }
  return absl::StrCat("\"", Printable(text.substr(0, shown), "\"\\"), shown < text.size() ? "…" : "", "\"");
}

void Violations::Add(absl::string_view field, absl::string_view description) {
  ++count_;
  if (violations_.size() < kMaxViolations) violations_.push_back({std::string(field), std::string(description)});
}

void Violations::AddMoved(absl::string_view from, absl::string_view to, const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) return AddAll(to, status);
  for (const FieldViolation& v : detail->violations) {
    const bool below = v.field.compare(0, from.size(), from.data(), from.size()) == 0;
    Add(below ? absl::StrCat(to, v.field.substr(from.size())) : v.field, v.description);
  }
}

void Violations::AddAll(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || detail->violations.empty()) {
    Add(prefix, std::string(status.message()));
    return;
  }
  for (const FieldViolation& v : detail->violations) {
    const bool index = !v.field.empty() && v.field[0] == '[';
    Add(prefix.empty() || v.field.empty() ? absl::StrCat(prefix, v.field)
                                          : absl::StrCat(prefix, index ? "" : ".", v.field),
        v.description);
  }
}

absl::Status Violations::ToStatus() const {
  if (count_ == 0) return absl::OkStatus();
  std::string message;
  for (const FieldViolation& v : violations_) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", v.field, v.field.empty() ? "" : ": ", v.description);
  }
  if (count_ > static_cast<int>(violations_.size())) {
    absl::StrAppend(&message, "\n… and ", count_ - static_cast<int>(violations_.size()), " more");
  }
  ErrorDetail detail;
  detail.reason = reason::kBadField;
  detail.violations = violations_;
  return MakeError(absl::StatusCode::kInvalidArgument, message, std::move(detail));
}

std::string ClosestMatch(absl::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > 256) return "";
  std::string best;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    // One letter of a word of two may differ, but not the only letter of a word.
    if (distance >= candidate.size() || distance > std::max<size_t>(1, candidate.size() / 3)) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string match = ClosestMatch(word, candidates);
  return match.empty() ? "" : absl::StrCat(" (did you mean ", Quote(match), "?)");
}

}  // namespace luthier::base
