// Compiled for the least processor (CMakeLists.txt), and run before any other code of the program or its libraries.
#include <unistd.h>

#include "lib/base/processor.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace luthier::base {
namespace {

constexpr const char* kNames[kProcessorFeatures] = {"SSE3",  "SSSE3",   "SSE4.1",   "SSE4.2",   "POPCNT",   "AVX",
                                                    "F16C",  "MOVBE",   "FMA",      "AVX2",     "BMI1",     "BMI2",
                                                    "LZCNT", "AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"};

constexpr uint32_t kLevel2 = kSse3 | kSsse3 | kSse41 | kSse42 | kPopcnt;
constexpr uint32_t kLevel3 = kLevel2 | kAvx | kF16c | kMovbe | kFma | kAvx2 | kBmi1 | kBmi2 | kLzcnt;

// A text of limited size. The library's strings are compiled for other processors.
class Text {
 public:
  Text(char* text, size_t size) : text_(text), left_(size) {}
  ~Text() { *text_ = '\0'; }
  void Add(const char* more) {
    for (; *more != '\0' && left_ > 1; --left_) *text_++ = *more++;
  }

 private:
  char* text_;
  size_t left_;
};

}  // namespace

uint32_t ProcessorHas() {
  uint32_t has = 0;
#ifdef __x86_64__
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  const auto add = [&has](bool there, uint32_t feature) {
    if (there) has |= feature;
  };
  add(c & bit_SSE3, kSse3);
  add(c & bit_SSSE3, kSsse3);
  add(c & bit_SSE4_1, kSse41);
  add(c & bit_SSE4_2, kSse42);
  add(c & bit_POPCNT, kPopcnt);
  add(c & bit_MOVBE, kMovbe);
  // The system must keep the wide registers of a process, too: XCR0 has a bit for each kind.
  unsigned xcr0 = 0, high = 0;
  if (c & bit_OSXSAVE) __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  constexpr unsigned kYmm = 0x6, kZmm = 0xE6;
  const bool ymm = (xcr0 & kYmm) == kYmm, zmm = (xcr0 & kZmm) == kZmm;
  add(ymm && (c & bit_AVX), kAvx);
  add(ymm && (c & bit_F16C), kF16c);
  add(ymm && (c & bit_FMA), kFma);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    add(ymm && (b & bit_AVX2), kAvx2);
    add(b & bit_BMI, kBmi1);
    add(b & bit_BMI2, kBmi2);
    add(zmm && (b & bit_AVX512F), kAvx512f);
    add(zmm && (b & bit_AVX512BW), kAvx512bw);
    add(zmm && (b & bit_AVX512CD), kAvx512cd);
    add(zmm && (b & bit_AVX512DQ), kAvx512dq);
    add(zmm && (b & bit_AVX512VL), kAvx512vl);
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) != 0) add(c & bit_LZCNT, kLzcnt);
#endif
  return has;
}

const char* ProcessorLevel(uint32_t has) {
#if defined(__aarch64__)
  static_cast<void>(has);
  return "aarch64";
#elif !defined(__x86_64__)
  static_cast<void>(has);
  return "other";
#else
  return (has & kLevel3) == kLevel3 ? "x86-64-v3" : (has & kLevel2) == kLevel2 ? "x86-64-v2" : "x86-64";
#endif
}

void DescribeMissing(const char* program, uint32_t missing, uint32_t has, char* text, size_t size) {
  const char* const level = ProcessorLevel(has);
  Text out(text, size);
  out.Add(program);
  out.Add(": this processor lacks ");
  const char* separator = "";
  for (int i = 0; i < kProcessorFeatures; ++i) {
    if ((missing & (1u << i)) == 0) continue;
    out.Add(separator);
    out.Add(kNames[i]);
    separator = ", ";
  }
  out.Add(", which this program was compiled to use; use one that is built with -DLUTHIER_MARCH=");
  out.Add(level);
  out.Add(" (containers: LUTHIER_MARCH=");
  out.Add(level);
  out.Add(" docker compose up --build)\n");
}

}  // namespace luthier::base

#ifdef __x86_64__
namespace {

void CheckProcessor(int, char** argv, char**) {
  const uint32_t has = luthier::base::ProcessorHas();
  const uint32_t missing = luthier::base::kProcessorNeeds & ~has;
  if (missing == 0) return;
  const char* program = argv != nullptr && argv[0] != nullptr ? argv[0] : "luthier";
  for (const char* c = program; *c != '\0'; ++c) {
    if (*c == '/') program = c + 1;
  }
  char text[600];
  luthier::base::DescribeMissing(program, missing, has, text, sizeof(text));
  size_t size = 0;
  while (text[size] != '\0') ++size;
  if (write(STDERR_FILENO, text, size) < 0) _exit(1);  // Nobody to tell.
  _exit(1);
}

// The loader calls the functions in this section before the constructors of all libraries.
__attribute__((section(".preinit_array"), used)) void (*check_processor)(int, char**, char**) = CheckProcessor;

}  // namespace
#endif
