#include "server/service/legal_shares.h"

#include <algorithm>

#include "lib/study/legal_settings.h"

namespace luthier::service {

double LegalShares::Of(const study::StudySpec& spec) {
  constexpr size_t kMostAnswers = 32;
  {
    const base::MutexLock lock(&mutex_);
    const auto known = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& answer) {
      return answer.constraints == spec.constraints && answer.space == spec.space;
    });
    if (known != answers_.end()) {
      answers_.splice(answers_.begin(), answers_, known);
      return answers_.front().share;
    }
  }
  const double share = study::LegalShareOf(spec.space, spec.constraints).share();
  const base::MutexLock lock(&mutex_);
  answers_.push_front({spec.space, spec.constraints, share});
  if (answers_.size() > kMostAnswers) answers_.pop_back();
  return share;
}

}  // namespace luthier::service
