#include "server/coordinator/messages/text.h"

#include "absl/strings/str_cat.h"

namespace luthier::coordinator {
namespace {

bool ContinuesCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string Tail(std::string text, size_t size) {
  if (text.size() <= size) return text;
  size_t begin = text.size() - size;
  while (begin < text.size() && ContinuesCharacter(text[begin])) ++begin;
  return text.substr(begin);
}

std::string Head(std::string text, size_t size) {
  if (text.size() <= size) return text;
  size_t end = size;
  while (end > 0 && ContinuesCharacter(text[end])) --end;
  return text.substr(0, end);
}

std::string StepDetail(int64_t step, absl::string_view text) {
  return absl::StrCat("step=", step, text.empty() ? "" : " ", text);
}

std::string FailureText(const std::string& reason, const std::string& message) {
  if (message.size() <= kMaxEventText) return absl::StrCat(reason, message.empty() ? "" : ": ", message);
  constexpr absl::string_view kLeftOut = "\n…\n";
  const std::string first = Head(message.substr(0, message.find('\n')), kMaxEventText / 4);
  return absl::StrCat(reason, ": ", first, kLeftOut, Tail(message, kMaxEventText - first.size() - kLeftOut.size()));
}

}  // namespace luthier::coordinator
