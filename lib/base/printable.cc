#include "lib/base/printable.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace luthier::base {
namespace {

struct CodeRange {
  char32_t first, last;
};

// Control characters; Unicode's Default_Ignorable_Code_Point; format characters (Cf); separators of lines and
// paragraphs; marks of annotations; private use; code points that are not characters.
constexpr CodeRange kUnseen[] = {
    {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},
    {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0x3164, 0x3164},   {0xE000, 0xF8FF},   {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},
    {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}};

bool Unseen(char32_t code) {
  const auto* const range = std::upper_bound(std::begin(kUnseen), std::end(kUnseen), code,
                                             [](char32_t c, const CodeRange& r) { return c <= r.last; });
  return range != std::end(kUnseen) && range->first <= code;
}

}  // namespace

Utf8Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead < 0xC2 || lead > 0xF4 ? 0 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (bytes == 0 || text.size() < bytes) return {};
  char32_t code = lead & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xC0) != 0x80) return {};
    code = code << 6 | (c & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, bytes, true};
}

std::string Printable(absl::string_view text, absl::string_view also) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character c = FirstCharacter(text);
    if (!c.valid || (c.code < 0x100 && Unseen(c.code))) {
      // C1 controls are two bytes in UTF-8, and terminals obey some of them.
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[c.bytes - 1]));
    } else if (Unseen(c.code)) {
      const auto code = static_cast<uint32_t>(c.code);
      if (code < 0x10000)
        absl::StrAppendFormat(&out, "\\u%04x", code);
      else
        absl::StrAppendFormat(&out, "\\U%08x", code);
    } else {
      if (c.bytes == 1 && also.find(text[0]) != absl::string_view::npos) out += '\\';
      out.append(text.data(), c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string PrintableLines(absl::string_view text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n",
                       [](std::string* out, absl::string_view line) { *out += Printable(line); });
}

std::string PrintableJson(absl::string_view text, Escapes escapes) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character c = FirstCharacter(text);
    const auto code = static_cast<uint32_t>(c.code);
    // Line feeds are between values; within strings all below 0x20 are escaped already.
    if (!c.valid || code < 0x7F || !Unseen(c.code)) {
      out.append(text.data(), c.bytes);
    } else if (code < 0x10000) {
      absl::StrAppendFormat(&out, "\\u%04x", code);
    } else if (escapes == Escapes::kYaml) {
      absl::StrAppendFormat(&out, "\\U%08x", code);
    } else {
      absl::StrAppendFormat(&out, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace luthier::base
