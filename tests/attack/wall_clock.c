// A wall clock that a test sets while programs run, without touching the system's: LD_PRELOAD this, and name in
// LUTHIER_WALL_CLOCK a file that holds by how many nanoseconds CLOCK_REALTIME is to be wrong, as a native int64. The
// file is mapped, so that writing to it sets the clock of all programs that were started with it, at once.
//
// Besides reading the clock, waits for a moment of it must follow: the kernel ends them by the clock as it is set. They
// are done here in slices, and look at the clock again after each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NANOS INT64_C(1000000000)
#define SLICE INT64_C(20000000)

static const volatile int64_t* offset_file = NULL;
static int (*real_clock_gettime)(clockid_t, struct timespec*);
static long (*real_syscall)(long, ...);
static int (*real_timedwait)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
static int (*real_clockwait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
static int (*real_sem_timedwait)(sem_t*, const struct timespec*);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec*, struct timespec*);

static void* Next(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void Load(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec*))Next("clock_gettime");
  real_syscall = (long (*)(long, ...))Next("syscall");
  real_timedwait = (int (*)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*))Next("pthread_cond_timedwait");
  real_clockwait =
      (int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*))Next("pthread_cond_clockwait");
  real_sem_timedwait = (int (*)(sem_t*, const struct timespec*))Next("sem_timedwait");
  real_clock_nanosleep = (int (*)(clockid_t, int, const struct timespec*, struct timespec*))Next("clock_nanosleep");
  const char* path = getenv("LUTHIER_WALL_CLOCK");
  if (path == NULL) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();  // A test that sets no clock proves nothing.
  void* page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) abort();
  offset_file = (const volatile int64_t*)page;
}

static int64_t Offset(void) {
  return offset_file == NULL ? 0 : *offset_file;
}

static int64_t FromSpec(const struct timespec* spec) {
  return spec->tv_sec * NANOS + spec->tv_nsec;
}

static struct timespec ToSpec(int64_t nanos) {
  struct timespec spec = {nanos / NANOS, nanos % NANOS};
  if (spec.tv_nsec < 0) {
    spec.tv_nsec += NANOS;
    --spec.tv_sec;
  }
  return spec;
}

static int RealTime(clockid_t clock, struct timespec* spec) {
#ifdef __x86_64__
  // A sanitizer looks at the clock while it begins, and a look for a function would allocate, which asks the sanitizer.
  if (real_clock_gettime == NULL) {
    long result = SYS_clock_gettime;
    __asm__ volatile("syscall" : "+a"(result) : "D"((long)clock), "S"(spec) : "rcx", "r11", "memory");
    return result == 0 ? 0 : -1;
  }
#else
  if (real_clock_gettime == NULL) real_clock_gettime = (int (*)(clockid_t, struct timespec*))Next("clock_gettime");
#endif
  return real_clock_gettime(clock, spec);
}

static int64_t RealNanos(void) {
  struct timespec spec;
  RealTime(CLOCK_REALTIME, &spec);
  return FromSpec(&spec);
}

int clock_gettime(clockid_t clock, struct timespec* spec) {
  const int result = RealTime(clock, spec);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *spec = ToSpec(FromSpec(spec) + Offset());
  }
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  const struct timespec spec = ToSpec(RealNanos() + Offset());
  now->tv_sec = spec.tv_sec;
  now->tv_usec = spec.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  const struct timespec spec = ToSpec(RealNanos() + Offset());
  if (out != NULL) *out = spec.tv_sec;
  return spec.tv_sec;
}

int timespec_get(struct timespec* spec, int base) {
  if (base != TIME_UTC) return 0;
  *spec = ToSpec(RealNanos() + Offset());
  return base;
}

// The end of the next slice of a wait for the moment `deadline` of the wrong clock, as the right clock tells it. Sets
// `last` when the deadline is not beyond it.
static struct timespec SliceEnd(const struct timespec* deadline, int* last) {
  const int64_t now = RealNanos();
  int64_t left = FromSpec(deadline) - (now + Offset());
  if (left < 0) left = 0;
  *last = left <= SLICE;
  return ToSpec(now + (*last ? left : SLICE));
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (real_syscall == NULL) Load();
  const long command = a[1] & FUTEX_CMD_MASK;
  const int waits = number == SYS_futex && a[3] != 0 && (a[1] & FUTEX_CLOCK_REALTIME) != 0 &&
                    command == FUTEX_WAIT_BITSET && offset_file != NULL;
  if (!waits) return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  for (;;) {
    int last = 0;
    struct timespec end = SliceEnd((const struct timespec*)a[3], &last);
    const long result = real_syscall(number, a[0], a[1], a[2], &end, a[4], a[5]);
    if (last || result == 0 || errno != ETIMEDOUT) return result;
  }
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  if (clock != CLOCK_REALTIME || offset_file == NULL) return real_clockwait(cond, mutex, clock, deadline);
  for (;;) {
    int last = 0;
    struct timespec end = SliceEnd(deadline, &last);
    const int result = real_clockwait(cond, mutex, clock, &end);
    if (last || result != ETIMEDOUT) return result;
  }
}

// Which clock the condition has is not told: a machine has not been up since 1985.
int pthread_cond_timedwait(pthread_cond_t* restrict cond, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict deadline) {
  if (deadline->tv_sec < 500000000 || offset_file == NULL) return real_timedwait(cond, mutex, deadline);
  for (;;) {
    int last = 0;
    struct timespec end = SliceEnd(deadline, &last);
    const int result = real_timedwait(cond, mutex, &end);
    if (last || result != ETIMEDOUT) return result;
  }
}

int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict deadline) {
  for (;;) {
    int last = 0;
    struct timespec end = SliceEnd(deadline, &last);
    const int result = real_sem_timedwait(semaphore, &end);
    if (last || result == 0 || errno != ETIMEDOUT) return result;
  }
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* until, struct timespec* left) {
  if (clock != CLOCK_REALTIME || (flags & TIMER_ABSTIME) == 0 || offset_file == NULL) {
    return real_clock_nanosleep(clock, flags, until, left);
  }
  for (;;) {
    int last = 0;
    struct timespec end = SliceEnd(until, &last);
    const int result = real_clock_nanosleep(clock, flags, &end, left);
    if (last || result != 0) return result;
  }
}
