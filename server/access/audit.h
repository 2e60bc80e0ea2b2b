#ifndef LUTHIER_SERVER_ACCESS_AUDIT_H_
#define LUTHIER_SERVER_ACCESS_AUDIT_H_

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/access/access_store.h"

namespace luthier::access {

// Writes the audit behind the calls: one transaction for all entries that came while the last was written. A crash
// loses the newest entries, never a part of one. Beyond 10,000 that wait, entries are dropped and their number is
// written instead. Thread-safe.
class Audit {
 public:
  // All must outlive this.
  Audit(AccessStore* store, const base::Clock* clock);
  // Writes what waits.
  ~Audit();

  void Add(AuditRecord entry);
  // The token was used now. Kept to the minute.
  void NoteUse(const std::string& token);
  // Returns when all that was added is on the disk, or could not be written.
  void Flush();

 private:
  void Loop();

  AccessStore* const store_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  base::CondVar changed_, written_;
  std::vector<AuditRecord> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> uses_ ABSL_GUARDED_BY(mutex_);       // To be written, …
  std::map<std::string, absl::Time> last_uses_ ABSL_GUARDED_BY(mutex_);  // … and all that are known.
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_AUDIT_H_
