#ifndef LUTHIER_SERVER_SERVICE_WATCH_H_
#define LUTHIER_SERVER_SERVICE_WATCH_H_

#include "luthier/v1/study_service.pb.h"
#include "server/service/call.h"
#include "server/storage/storage.h"

namespace luthier::service {

v1::Event ToMessage(const storage::Event& event);

// A WatchStudy stream: events in order of seq, stored ones first, then as they are committed. It reads storage on the
// readers' threads, writes one event at a time (so a slow reader costs memory for one page only), and ends by itself.
// It ends with the caller's token, and is cut off if the caller does not read its end within a second. Beyond a
// thousand streams the call gets RESOURCE_EXHAUSTED.
void WatchStudy(const CallPtr& call, const v1::WatchStudyRequest& request);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_WATCH_H_
