#ifndef LUTHIER_SERVER_HEAP_TRIMMER_H_
#define LUTHIER_SERVER_HEAP_TRIMMER_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "lib/base/heap.h"
#include "lib/base/mutex.h"
#include "server/service/memory_guard.h"

namespace luthier::server {

// Gives freed memory back to the system now and then: the allocator keeps memory that was freed between blocks in use,
// and so the memory of a thousand deleted studies. It looks every few seconds, and acts when some tens of mebibytes may
// have been freed since it last acted.
class HeapTrimmer {
 public:
  struct Options {
    std::function<int64_t()> resident = service::MemoryGuard::ResidentBytes;
    std::function<size_t()> allocated = base::AllocatedBytes;
    std::function<void()> give_back = base::GiveBackFreed;
  };
  static constexpr int64_t kWorthwhile = int64_t{24} << 20;

  explicit HeapTrimmer(Options options);
  ~HeapTrimmer();
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

  // Starts a thread that calls Tick.
  void Start();
  void Tick();

 private:
  void Loop();
  // Returns the resident bytes that no allocation uses: freed ones, and those of programs and stacks.
  int64_t Spare() const { return options_.resident() - static_cast<int64_t>(options_.allocated()); }

  const Options options_;
  int64_t spare_ = 0;  // Least Spare() since it last acted.
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_HEAP_TRIMMER_H_
