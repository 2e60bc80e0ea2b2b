#include "lib/base/team.h"

#include "lib/base/check.h"

namespace luthier::base {

Team::Team(int threads) {
  LUTHIER_CHECK(threads >= 1);
  for (int t = 1; t < threads; ++t) helpers_.emplace_back([this, t] { Help(t); });
}

Team::~Team() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  begun_.SignalAll();
  for (std::thread& helper : helpers_) helper.join();
}

void Team::Run(int64_t count, Work work) {
  if (count <= 0) return;
  if (helpers_.empty()) {
    for (int64_t task = 0; task < count; ++task) work(task, 0);
    return;
  }
  {
    MutexLock lock(&mutex_);
    work_ = &work;
    count_ = count;
    next_ = done_ = 0;
  }
  if (count > 1) begun_.SignalAll();
  Share(0);
  MutexLock lock(&mutex_);
  while (done_ < count_) finished_.Wait(&mutex_);
  work_ = nullptr;
}

void Team::Share(int thread) {
  int64_t finished = 0;
  while (true) {
    const Work* work = nullptr;
    int64_t task = 0;
    {
      MutexLock lock(&mutex_);
      done_ += finished;
      if (finished > 0 && done_ == count_) finished_.Signal();
      if (next_ >= count_) return;
      task = next_++;
      work = work_;
    }
    (*work)(task, thread);
    finished = 1;
  }
}

void Team::Help(int thread) {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (next_ >= count_ && !stopping_) begun_.Wait(&mutex_);
      if (next_ >= count_) return;
    }
    Share(thread);
  }
}

}  // namespace luthier::base
