#include "server/storage/legacy_records.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace luthier::storage {
namespace {

// Removes "NAME=NUMBER" and the space behind it from the front of `text`.
template <typename Number>
std::optional<Number> ConsumeNumber(absl::string_view* text, absl::string_view name) {
  absl::string_view rest = *text;
  Number number = 0;
  if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumePrefix(&rest, "=")) return std::nullopt;
  const absl::string_view digits = rest.substr(0, rest.find(' '));
  if (!absl::SimpleAtoi(digits, &number)) return std::nullopt;
  rest.remove_prefix(digits.size());
  absl::ConsumePrefix(&rest, " ");
  *text = rest;
  return number;
}

// Reads digits alone: SimpleAtoi also accepts signs and spaces.
template <typename Number>
bool ReadDigits(absl::string_view text, Number* number) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) && absl::SimpleAtoi(text, number);
}

absl::StatusOr<GrantedLease> ReadLease(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  GrantedLease lease;
  if (parts.size() != 2 || !ReadDigits(parts[0], &lease.trial) || parts[1].size() % 2 != 0 ||
      !std::all_of(parts[1].begin(), parts[1].end(), absl::ascii_isxdigit)) {
    return absl::DataLossError("a lease is not of the form TRIAL:TOKEN");
  }
  lease.token = absl::HexStringToBytes(parts[1]);
  return lease;
}

}  // namespace

void ReadLegacyEvent(Event* event) {
  const bool promotion = event->type == EventType::kTrialPromoted;
  // Details of other events begin with metrics or failures, which may have any names.
  if (!promotion && event->type != EventType::kMeasurement && event->type != EventType::kTrialPaused) return;
  absl::string_view text = event->detail;
  event->step = ConsumeNumber<int64_t>(&text, "step");
  if (promotion && event->step) event->ask_index = ConsumeNumber<uint64_t>(&text, "ask");
}

absl::StatusOr<StoredReply> ParseLegacyReply(absl::string_view text) {
  const absl::Status unknown = absl::DataLossError("it is of no form that was ever written");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() == 1) {
    ChangedStudy reply;
    if (!ReadDigits(text, &reply.seq)) return unknown;
    return reply;
  }
  StudyKey study = 0;
  if (!ReadDigits(parts[0], &study)) return unknown;
  if (text.find(':') == absl::string_view::npos) {
    StoredTrials reply{study, {}};
    for (size_t i = 1; i < parts.size(); ++i) {
      if (!ReadDigits(parts[i], &reply.trials.emplace_back())) return unknown;
    }
    return reply;
  }
  GrantedLeases reply{study, {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    absl::StatusOr<GrantedLease> lease = ReadLease(parts[i]);
    if (!lease.ok()) return lease.status();
    reply.leases.push_back(*std::move(lease));
  }
  return reply;
}

}  // namespace luthier::storage
