#ifndef LUTHIER_LIB_OBJECTIVES_KEPT_LAYOUTS_H_
#define LUTHIER_LIB_OBJECTIVES_KEPT_LAYOUTS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::objectives {

// Layouts of an objective's data that its trials share, by the settings that they depend on (Key, with ==). Keeps the
// newest kKept; makes one at a time, since that costs time and memory. Any thread.
template <typename Key, typename Layout>
class KeptLayouts {
 public:
  static constexpr size_t kKept = 2;

  // Returns the layout of `key`, kept or from `make`. Returns the errors of `make`; CANCELLED when stopped, also while
  // another trial makes the layout that this one waits for.
  absl::StatusOr<std::shared_ptr<const Layout>> Get(const Key& key, const base::StopToken& stop,
                                                    absl::FunctionRef<absl::StatusOr<Layout>()> make) {
    {
      const base::MutexLock lock(&mutex_);
      while (true) {
        for (const auto& [kept, layout] : layouts_) {
          if (kept == key) return layout;
        }
        LUTHIER_RETURN_IF_ERROR(stop.Poll());
        if (!making_) break;
        made_.WaitFor(&mutex_, kLookEvery);
      }
      making_ = true;
    }
    const auto end = [this] {
      const base::MutexLock lock(&mutex_);
      making_ = false;
      made_.SignalAll();
    };
    absl::StatusOr<Layout> layout = [&] {
      try {
        return make();
      } catch (...) {  // Out of memory: the others go on.
        end();
        throw;
      }
    }();
    const absl::Status made = layout.status();
    std::shared_ptr<const Layout> shared;
    if (made.ok()) {
      shared = std::make_shared<const Layout>(*std::move(layout));
      const base::MutexLock lock(&mutex_);
      layouts_.emplace_back(key, shared);
      if (layouts_.size() > kKept) layouts_.pop_front();
    }
    end();
    if (!made.ok()) return made;
    return shared;
  }

 private:
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(10);  // Time between polls of the stop while waiting.

  base::Mutex mutex_;
  base::CondVar made_;
  bool making_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<Key, std::shared_ptr<const Layout>>> layouts_ ABSL_GUARDED_BY(mutex_);  // Newest last.
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_KEPT_LAYOUTS_H_
