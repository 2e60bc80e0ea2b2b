#ifndef LUTHIER_LIB_NOTATION_SYNTH_URI_H_
#define LUTHIER_LIB_NOTATION_SYNTH_URI_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::notation {

// Returns true for synth:KIND?key=value&key=value, the names of generated data.
bool IsSynth(absl::string_view uri);

// Returns KIND, or INVALID_ARGUMENT with the closest kind if it is none of `kinds`; `example` is a URI that is right.
absl::StatusOr<std::string> SynthKind(const std::string& uri, const std::vector<std::string>& kinds,
                                      absl::string_view example);

// The keys of one kind and the destinations of their values; all are optional and may be there once.
class SynthKeys {
 public:
  // Ranges contain both ends. `out` must outlive this.
  void Whole(const char* name, int64_t low, int64_t high, int64_t* out) {
    keys_.push_back({name, Range{low, high, out}});
  }
  void Real(const char* name, double low, double high, double* out) {
    keys_.push_back({name, RealRange{low, high, out}});
  }
  void Seed(uint64_t* out) { keys_.push_back({"seed", out}); }

  // Returns INVALID_ARGUMENT "\"uri\": …" for unknown keys, values outside of their range, keys that are there twice.
  absl::Status Parse(const std::string& uri) const;

 private:
  struct Range {
    int64_t low, high;
    int64_t* out;
  };
  struct RealRange {
    double low, high;
    double* out;
  };
  struct Key {
    std::string name;
    std::variant<Range, RealRange, uint64_t*> value;
  };
  std::vector<Key> keys_;
};

// INVALID_ARGUMENT "\"uri\": what".
absl::Status SynthError(const std::string& uri, absl::string_view what);

}  // namespace luthier::notation

#endif  // LUTHIER_LIB_NOTATION_SYNTH_URI_H_
