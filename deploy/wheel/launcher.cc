// Becomes the program of its own name in FOLDER/LEVEL/luthier-programs, FOLDER its own: of the highest level of
// instructions that is there and that this processor has; LUTHIER_PROCESSOR names a lower one, by which suggestions of
// another machine are repeated bit for bit. It runs on every processor, so it uses nothing of the C++ library.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/processor.h"

namespace {

// Highest first.
#if defined(__x86_64__)
constexpr const char* kLevels[] = {"x86-64-v3", "x86-64-v2", "x86-64"};
constexpr char kAllLevels[] = "x86-64-v3, x86-64-v2 or x86-64";
#elif defined(__aarch64__)
constexpr const char* kLevels[] = {"aarch64"};
constexpr char kAllLevels[] = "aarch64";
#else
constexpr const char* kLevels[] = {"other"};
constexpr char kAllLevels[] = "other";
#endif
constexpr int kLevelCount = sizeof(kLevels) / sizeof(kLevels[0]);

int LevelNamed(const char* name) {
  int level = 0;
  while (level < kLevelCount && strcmp(kLevels[level], name) != 0) ++level;
  return level;
}

}  // namespace

int main(int, char** argv) {
  char self[PATH_MAX + 1], program[PATH_MAX + 64];
  const ssize_t size = readlink("/proc/self/exe", self, PATH_MAX);
  if (size <= 0) return perror("luthier: /proc/self/exe"), 127;
  self[size] = '\0';
  char* const slash = strrchr(self, '/');
  *slash = '\0';
  char* const name = slash + 1;
  argv[0] = name;

  int first = LevelNamed(luthier::base::ProcessorLevel(luthier::base::ProcessorHas()));
  if (const char* const wanted = getenv("LUTHIER_PROCESSOR"); wanted != nullptr && *wanted != '\0') {
    const int level = LevelNamed(wanted);
    if (level == kLevelCount) {
      fprintf(stderr, "%s: LUTHIER_PROCESSOR=%s is not %s\n", name, wanted, kAllLevels);
      return 2;
    }
    if (level > first) first = level;
  }
  // If the processor suits none of them, the lowest one says what it lacks.
  for (int level = first; level < kLevelCount; ++level) {
    snprintf(program, sizeof(program), "%s/%s/luthier-programs", self, kLevels[level]);
    execv(program, argv);
  }
  for (int level = first - 1; level >= 0; --level) {
    snprintf(program, sizeof(program), "%s/%s/luthier-programs", self, kLevels[level]);
    execv(program, argv);
  }
  fprintf(stderr, "%s: there is no %s/LEVEL/luthier-programs that can be started: %s\n", name, self, strerror(errno));
  return 127;
}
