#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kEllipsis = "…";
constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Bytes of the well-formed sequence at text[i], or 0. Table 3-7 of the Unicode standard.
size_t SequenceLength(absl::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const auto within = [&](size_t k, unsigned char low, unsigned char high) {
    return k < text.size() && byte(k) >= low && byte(k) <= high;
  };
  const unsigned char c = byte(i);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return within(i + 1, 0x80, 0xBF) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    const unsigned char low = c == 0xE0 ? 0xA0 : 0x80;
    const unsigned char high = c == 0xED ? 0x9F : 0xBF;
    return within(i + 1, low, high) && within(i + 2, 0x80, 0xBF) ? 3 : 0;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    const unsigned char low = c == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = c == 0xF4 ? 0x8F : 0xBF;
    return within(i + 1, low, high) && within(i + 2, 0x80, 0xBF) && within(i + 3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t InvalidUtf8At(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    if (length == 0) return i;
    i += length;
  }
  return text.size();
}

std::string ValidUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    const absl::string_view piece = length == 0 ? kReplacement : text.substr(i, length);
    out.append(piece.data(), piece.size());
    i += length == 0 ? 1 : length;
  }
  return out;
}

std::string CutHead(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const bool mark = max_bytes >= kEllipsis.size();
  size_t end = mark ? max_bytes - kEllipsis.size() : max_bytes;
  while (end > 0 && IsContinuation(text[end])) --end;
  std::string out(text.substr(0, end));
  if (mark) out.append(kEllipsis.data(), kEllipsis.size());
  return out;
}

std::string CutTail(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const bool mark = max_bytes >= kEllipsis.size();
  size_t begin = text.size() - (mark ? max_bytes - kEllipsis.size() : max_bytes);
  while (begin < text.size() && IsContinuation(text[begin])) ++begin;
  std::string out = mark ? std::string(kEllipsis) : "";
  const absl::string_view tail = text.substr(begin);
  out.append(tail.data(), tail.size());
  return out;
}

}  // namespace luthier::wire
