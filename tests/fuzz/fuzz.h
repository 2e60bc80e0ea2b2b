#ifndef LUTHIER_TESTS_FUZZ_FUZZ_H_
#define LUTHIER_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Fuzz targets: functions of bytes that hold what a header promises, whatever the bytes are. Each is a file with one
// LUTHIER_FUZZ_TARGET. Preset `fuzz` makes a libFuzzer program of each; every other build links all of them into
// fuzz_replay_test, which plays what is in corpus/NAME.
namespace luthier::fuzz {

struct Target {
  std::string name;  // Also of the folder in corpus/.
  void (*run)(absl::string_view input);
};

// Returns all targets of this program.
std::vector<Target>& Targets();
bool Register(const char* name, void (*run)(absl::string_view input));

// Ends the process unless `holds`, as a sanitizer does: says `promise`, and `more` about what was seen.
void Must(bool holds, absl::string_view promise, absl::string_view more = "");

// An error says something, and its text is UTF-8 that fits a message: callers send it to other machines.
void MustExplain(const absl::Status& error);

// Takes the input apart, from its beginning.
class Input {
 public:
  explicit Input(absl::string_view bytes) : rest_(bytes) {}
  // 0 where nothing is left.
  uint8_t Byte();
  // Up to and without the next newline, or all that is left.
  absl::string_view Line();
  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view rest_;
};

}  // namespace luthier::fuzz

#ifdef LUTHIER_FUZZ_ENGINE
#define LUTHIER_FUZZ_TARGET(name)                                           \
  static void Run(absl::string_view input);                                 \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    Run(absl::string_view(reinterpret_cast<const char*>(data), size));      \
    return 0;                                                               \
  }                                                                         \
  static void Run(absl::string_view input)
#else
#define LUTHIER_FUZZ_TARGET(name)                                                         \
  static void Run(absl::string_view input);                                               \
  [[maybe_unused]] static const bool registered = ::luthier::fuzz::Register(#name, &Run); \
  static void Run(absl::string_view input)
#endif

#endif  // LUTHIER_TESTS_FUZZ_FUZZ_H_
