#include "lib/suggest/bo_carry.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace luthier::suggest {

std::string FormatCarry(const BoCarry& carry) {
  std::string text = absl::StrCat(std::string(1, carry.kind), carry.index);
  if (carry.checked > 0) absl::StrAppend(&text, " ", carry.checked);
  for (const int32_t reporter : carry.set_aside) absl::StrAppend(&text, " ", reporter);
  absl::StrAppend(&text, "|", carry.local, "|", carry.surrogate);
  if (!carry.feasibility.empty() || !carry.box.empty() || !carry.hills.empty()) {
    absl::StrAppend(&text, "|", carry.feasibility);
  }
  if (!carry.box.empty() || !carry.hills.empty()) absl::StrAppend(&text, "|", carry.box);
  if (!carry.hills.empty()) absl::StrAppend(&text, "|", carry.hills);
  return text;
}

BoCarry ParseBoCarryHead(const std::string& text) {
  BoCarry carry;
  const size_t end = text.find_first_of("| ");
  if (end == std::string::npos || end < 2 ||
      !absl::SimpleAtoi(absl::string_view(text.data() + 1, end - 1), &carry.index) || carry.index < 0 ||
      carry.index >= kExplorations) {
    return {};
  }
  carry.kind = text[0];
  return carry;
}

BoCarry ParseBoCarry(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('|', 5));
  if (parts.size() < 3) return {};
  BoCarry carry = ParseBoCarryHead(text);
  const std::vector<std::string> head = absl::StrSplit(parts[0], ' ');
  if (head.size() > 1 && (!absl::SimpleAtoi(head[1], &carry.checked) || carry.checked < 1)) return {};
  for (size_t k = 2; k < head.size(); ++k) {
    int32_t reporter = 0;
    if (!absl::SimpleAtoi(head[k], &reporter)) return {};
    carry.set_aside.push_back(reporter);
  }
  if (!std::is_sorted(carry.set_aside.begin(), carry.set_aside.end())) return {};
  carry.local = parts[1];
  carry.surrogate = parts[2];
  if (parts.size() > 3) carry.feasibility = parts[3];
  if (parts.size() > 4) carry.box = parts[4];
  if (parts.size() > 5) carry.hills = parts[5];
  return carry;
}

}  // namespace luthier::suggest
