#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_TEXT_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

// Long texts of workers, shortened to what is stored. UTF-8 is cut between characters.
namespace luthier::coordinator {

inline constexpr size_t kMaxText = 4096;      // Bytes, in a trial's row.
inline constexpr size_t kMaxEventText = 256;  // Bytes, in an event's detail.

// Returns the last `size` bytes of `text`.
std::string Tail(std::string text, size_t size = kMaxText);

// Returns the first `size` bytes of `text`.
std::string Head(std::string text, size_t size = kMaxText);

// Returns "step=9 text", for events.
std::string StepDetail(int64_t step, absl::string_view text);

// Returns "REASON: message", for events. Of a message longer than kMaxEventText the first line and the end are kept:
// programs print the error itself last.
std::string FailureText(const std::string& reason, const std::string& message);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_TEXT_H_
