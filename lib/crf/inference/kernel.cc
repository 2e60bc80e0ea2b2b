#include "lib/crf/inference/kernel.h"

namespace luthier::crf {

extern const Kernels kBaseKernels;
#ifdef LUTHIER_CRF_X86
extern const Kernels kV3Kernels;
extern const Kernels kV4Kernels;
#endif

KernelList RunnableKernels() {
  KernelList list = {};
#ifdef LUTHIER_CRF_X86
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) list.kernels[list.count++] = &kV4Kernels;
  if (v3) list.kernels[list.count++] = &kV3Kernels;
#endif
  list.kernels[list.count++] = &kBaseKernels;
  return list;
}

const Kernels& BestKernels() {
  static const Kernels& best = *RunnableKernels().kernels[0];
  return best;
}

}  // namespace luthier::crf
