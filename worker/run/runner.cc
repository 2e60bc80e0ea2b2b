#include "worker/run/runner.h"

#include "lib/base/random.h"
#include "lib/study/study_spec.h"

namespace luthier::worker {

RunOutcome Failed(study::FailureKind kind, absl::string_view reason, absl::string_view message) {
  RunOutcome outcome;
  outcome.result = RunResult::kFailed;
  outcome.failure.kind = kind;
  outcome.failure.reason = std::string(reason);
  outcome.failure.message = PrintableTail(message, kTailBytes);
  return outcome;
}

uint32_t ObjectiveSeed(uint64_t study_seed, int64_t trial) {
  base::RandomStream random(study_seed, "objective", static_cast<uint64_t>(trial));
  return static_cast<uint32_t>(random.NextU64() >> 33);
}

std::string PrintableTail(absl::string_view text, size_t limit) {
  size_t begin = text.size() > limit ? text.size() - limit : 0;
  // The text must not begin inside a character: skip the rest of one that was cut.
  for (int k = 0; begin > 0 && k < 3 && begin < text.size(); ++k) {
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) break;
    ++begin;
  }
  std::string out;
  out.reserve(text.size() - begin);
  for (size_t i = begin; i < text.size();) {
    const size_t length = study::Utf8Length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      out += '?';
      ++i;
    } else if (length > 1) {
      out.append(text.data() + i, length);
      i += length;
    } else {
      const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
      out += c == '\r' ? '\n' : control ? '?' : static_cast<char>(c);
      ++i;
    }
  }
  return out;
}

}  // namespace luthier::worker
