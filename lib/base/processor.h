#ifndef LUTHIER_LIB_BASE_PROCESSOR_H_
#define LUTHIER_LIB_BASE_PROCESSOR_H_

#include <cstddef>
#include <cstdint>

// The instructions that a program was compiled for, and those that this processor has. A program on a processor that
// lacks some ends with a message before anything of it runs (processor_check.cc, linked into every program), not with
// SIGILL. This header is used where the code must run on every processor: no templates, no inline functions.
namespace luthier::base {

// Bits of sets of instructions, in the order of kProcessorFeatureNames.
enum ProcessorFeature : uint32_t {
  kSse3 = 1u << 0,
  kSsse3 = 1u << 1,
  kSse41 = 1u << 2,
  kSse42 = 1u << 3,
  kPopcnt = 1u << 4,
  kAvx = 1u << 5,
  kF16c = 1u << 6,
  kMovbe = 1u << 7,
  kFma = 1u << 8,
  kAvx2 = 1u << 9,
  kBmi1 = 1u << 10,
  kBmi2 = 1u << 11,
  kLzcnt = 1u << 12,
  kAvx512f = 1u << 13,
  kAvx512bw = 1u << 14,
  kAvx512cd = 1u << 15,
  kAvx512dq = 1u << 16,
  kAvx512vl = 1u << 17,
};
inline constexpr int kProcessorFeatures = 18;

// The sets that the compiler was allowed to use for this build; 0 on other architectures.
extern const uint32_t kProcessorNeeds;

// Returns the sets that this processor has and the operating system supports.
uint32_t ProcessorHas();

// Returns the highest level of instructions whose sets are all among `has`: "x86-64-v3", "x86-64-v2" or "x86-64";
// elsewhere "aarch64", or "other".
const char* ProcessorLevel(uint32_t has);

// Writes to `text`, ended by 0 and cut to `size`, the message of `program` if the sets of `missing` are not there;
// `has` decides which level of instructions it advises.
void DescribeMissing(const char* program, uint32_t missing, uint32_t has, char* text, size_t size);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PROCESSOR_H_
