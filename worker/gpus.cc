#include "worker/gpus.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"

namespace luthier::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxName = 100;  // A MIG device's UUID has 40 characters.

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Counts the entries of a folder that `counts` accepts; 0 if there is none.
template <typename F>
size_t CountEntries(const std::string& folder, F&& counts) {
  std::error_code error;
  size_t count = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (counts(*it)) ++count;
  }
  return count;
}

size_t CountDevices(const GpuSources& sources) {
  const size_t shown = CountEntries(sources.driver, [](const fs::directory_entry& entry) {
    std::error_code error;
    return entry.is_directory(error);
  });
  const size_t made = CountEntries(sources.devices, [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return absl::StartsWith(name, "nvidia") && IsNumber(absl::string_view(name).substr(6));
  });
  // A container may see the driver's whole folder and only some of the devices.
  return shown > 0 && made > 0 ? std::min(shown, made) : std::max(shown, made);
}

absl::Status Bad(const std::string& text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--gpus ", text, ": ", what));
}

// Returns a text with the GPUs that exist.
std::string Known(const std::vector<std::string>& visible) {
  return absl::StrCat("visible are ", absl::StrJoin(visible, ","));
}

absl::StatusOr<std::vector<std::string>> ParseList(const std::string& text, const std::vector<std::string>& visible) {
  std::vector<std::string> named = absl::StrSplit(text, ',');
  if (named.back().empty()) named.pop_back();
  std::set<std::string> seen;
  for (const std::string& name : named) {
    const bool uuid = (absl::StartsWith(name, "GPU-") || absl::StartsWith(name, "MIG-")) && name.size() <= kMaxName &&
                      std::all_of(name.begin(), name.end(), [](char c) {
                        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '/';
                      });
    if (!uuid && !IsNumber(name)) return Bad(text, "is neither all, nor a number of GPUs, nor a list such as 0,2");
    if (!seen.insert(name).second) return Bad(text, absl::StrCat("names ", name, " twice; each slot needs its own"));
    const bool checked = !visible.empty() && (IsNumber(name) || !IsNumber(visible[0]));
    if (checked && std::find(visible.begin(), visible.end(), name) == visible.end()) {
      return Bad(text, absl::StrCat("there is no GPU ", name, " for programs of this worker; ", Known(visible)));
    }
  }
  return named;
}

}  // namespace

std::vector<std::string> VisibleGpus(const GpuSources& sources) {
  std::vector<std::string> gpus;
  if (sources.visible) {
    for (const absl::string_view entry : absl::StrSplit(*sources.visible, ',')) {
      const absl::string_view name = absl::StripAsciiWhitespace(entry);
      if (name.empty() || name[0] == '-') break;  // CUDA, too, ignores entries after an invalid one.
      gpus.emplace_back(name);
    }
    return gpus;
  }
  const size_t count = CountDevices(sources);
  for (size_t i = 0; i < count; ++i) gpus.push_back(absl::StrCat(i));
  return gpus;
}

absl::StatusOr<std::vector<std::string>> ChooseGpus(const std::string& text, const GpuSources& sources) {
  std::vector<std::string> visible = VisibleGpus(sources);
  if (text != "all" && !IsNumber(text)) {
    // The driver only numbers GPUs; other names are known to the variable, or to CUDA itself.
    if (visible.empty() && sources.visible) return Bad(text, "CUDA_VISIBLE_DEVICES shows no GPU; unset or change it");
    return ParseList(text, visible);
  }
  if (visible.empty()) {
    return Bad(text, sources.visible ? std::string("CUDA_VISIBLE_DEVICES shows no GPU; unset or change it")
                                     : absl::StrCat("this machine shows no GPU, neither in ", sources.driver,
                                                    " nor as ", sources.devices,
                                                    "/nvidia0; install the driver, name them as in --gpus 0,1, or "
                                                    "leave --gpus out"));
  }
  if (text == "all") return visible;
  size_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count == 0) {
    return Bad(text, "is no number of GPUs; for GPU 0 alone write --gpus 0,");
  }
  if (count > visible.size()) {
    return Bad(text, absl::StrCat("this machine shows ", visible.size(), "; ", Known(visible)));
  }
  visible.resize(count);
  return visible;
}

}  // namespace luthier::worker
