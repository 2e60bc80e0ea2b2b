#ifndef LUTHIER_WORKER_GPUS_H_
#define LUTHIER_WORKER_GPUS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// A worker uses one GPU for each slot. This file finds them in the files of the driver, without CUDA.
namespace luthier::worker {

struct GpuSources {
  std::string driver = "/proc/driver/nvidia/gpus";  // One folder in it for each GPU.
  std::string devices = "/dev";                     // nvidia0, nvidia1, … are in it.
  std::optional<std::string> visible;               // Value of CUDA_VISIBLE_DEVICES.
};

// Returns the GPUs that programs may use, each as CUDA_VISIBLE_DEVICES names it: the entries of that variable if it is
// set, else "0", "1", … for those that the driver shows.
std::vector<std::string> VisibleGpus(const GpuSources& sources);

// Returns the GPUs of `--gpus text`, in order:
//   all      every visible one
//   N        the first N of them
//   0,2      these, by number or UUID; a comma at the end makes one number a list: "2,"
// INVALID_ARGUMENT if there are none, fewer than N, or a named one is not visible. If neither variable nor driver says
// which GPUs there are, the names of a list are taken as they are.
absl::StatusOr<std::vector<std::string>> ChooseGpus(const std::string& text, const GpuSources& sources);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_GPUS_H_
