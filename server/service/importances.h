#ifndef LUTHIER_SERVER_SERVICE_IMPORTANCES_H_
#define LUTHIER_SERVER_SERVICE_IMPORTANCES_H_

#include <cstdint>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "lib/base/mutex.h"
#include "luthier/v1/study_service.pb.h"
#include "server/storage/storage.h"

namespace luthier::service {

// Answers GetImportance, by importance::Compute on the stored results. Of a study with more than 10,000 trials that
// many are used, spread evenly over their numbers, so that it costs no more; with many parameters fewer, down to 500.
// The newest answers are kept until their studies change. Thread-safe.
class Importances {
 public:
  // Errors as Storage and importance::Compute; NOT_FOUND; INVALID_ARGUMENT for a metric that no trial has.
  absl::Status Read(storage::Storage* storage, const std::string& id, const v1::GetImportanceRequest& request,
                    v1::GetImportanceResponse* response);

 private:
  struct Answer {
    storage::StudyKey study = 0;
    uint64_t seq = 0;
    std::string question;  // The request without the study's name.
    v1::GetImportanceResponse response;
  };

  base::Mutex mutex_;
  std::list<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // Used last comes first.
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_IMPORTANCES_H_
