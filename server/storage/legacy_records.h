#ifndef LUTHIER_SERVER_STORAGE_LEGACY_RECORDS_H_
#define LUTHIER_SERVER_STORAGE_LEGACY_RECORDS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/storage.h"

// Rows of schema versions 1 to 4 said in words what is typed now. This is the only place that reads those words;
// nothing writes them any more.
namespace luthier::storage {

// Sets `event->step` and `event->ask_index` from the beginning of `event->detail`: "step=9" of points and pauses,
// "step=9 ask=4" of promotions. If the text does not have them they stay absent, and callers that need them report
// DATA_LOSS.
void ReadLegacyEvent(Event* event);

// Reads the text of a stored reply: "STUDY,TRIAL:TOKEN,…" (tokens in hexadecimal), "STUDY,TRIAL,…" or "SEQ".
// DATA_LOSS for any other text.
absl::StatusOr<StoredReply> ParseLegacyReply(absl::string_view text);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_LEGACY_RECORDS_H_
