// What the thread sanitizer is told about gRPC and Abseil; the programs of preset `tsan` contain this file. Debian's
// packages of them are not instrumented, so the sanitizer sees neither what they read and write nor in which order they
// do it, and would report races where there are none. The functions below take the place of those of the shared
// libraries, tell the sanitizer of the order, and go on in the library.

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

// Options that all runs share. TSAN_OPTIONS of the environment adds to them.
//   ignore_noninstrumented_modules: what libraries read, write and free by functions of libc is not looked at, as half
//   of what they do cannot be seen.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1";
}

namespace {

// Returns the library's own version of the function that calls this. Names of Abseil's symbols contain its version, so
// the caller's own symbol is looked up.
template <typename Function>
[[gnu::noinline]] Function* Replaced() {
  Dl_info caller = {};
  dladdr(__builtin_extract_return_addr(__builtin_return_address(0)), &caller);
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, caller.dli_sname));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* const replaced = Replaced<void(Mutex*)>();
  replaced(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static auto* const replaced = Replaced<bool(Mutex*)>();
  const bool locked = replaced(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const replaced = Replaced<void(Mutex*, const Condition&)>();
  replaced(this, condition);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static auto* const replaced = Replaced<void(Mutex*)>();
  __tsan_release(this);
  replaced(this);
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const replaced = Replaced<void(CondVar*, Mutex*)>();
  __tsan_release(mutex);
  replaced(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const replaced = Replaced<bool(CondVar*, Mutex*, Duration)>();
  __tsan_release(mutex);
  const bool timed_out = replaced(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const replaced = Replaced<bool(CondVar*, Mutex*, Time)>();
  __tsan_release(mutex);
  const bool timed_out = replaced(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

void Notification::Notify() {
  static auto* const replaced = Replaced<void(Notification*)>();
  __tsan_release(this);
  replaced(this);
}

void Notification::WaitForNotification() const {
  static auto* const replaced = Replaced<void(const Notification*)>();
  replaced(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const replaced = Replaced<bool(const Notification*, Duration)>();
  const bool notified = replaced(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

// What was done before a batch of a call was started comes before what is done once it has ended. gRPC for C++ then
// lets go of the call, whatever it calls next. And it comes before what is done with any later event of a queue: that
// is how a message's bytes reach the other end in this process, and a call's state another thread of gRPC's.

namespace {
int queues;  // Stands for all completion queues.
}  // namespace

extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                                 void* reserved) {
  static auto* const replaced = Replaced<grpc_call_error(grpc_call*, const grpc_op*, size_t, void*, void*)>();
  __tsan_release(call);
  __tsan_release(&queues);
  return replaced(call, ops, count, tag, reserved);
}

extern "C" grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  static auto* const replaced = Replaced<grpc_event(grpc_completion_queue*, gpr_timespec, void*)>();
  const grpc_event event = replaced(queue, deadline, reserved);
  __tsan_acquire(&queues);
  return event;
}

extern "C" grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag, gpr_timespec deadline,
                                                  void* reserved) {
  static auto* const replaced = Replaced<grpc_event(grpc_completion_queue*, void*, gpr_timespec, void*)>();
  const grpc_event event = replaced(queue, tag, deadline, reserved);
  __tsan_acquire(&queues);
  return event;
}

extern "C" void grpc_call_unref(grpc_call* call) {
  static auto* const replaced = Replaced<void(grpc_call*)>();
  __tsan_acquire(call);
  replaced(call);
}
