#ifndef LUTHIER_LIB_BASE_CHECKPOINT_H_
#define LUTHIER_LIB_BASE_CHECKPOINT_H_

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/hash.h"
#include "lib/base/pace.h"

// The bytes of a trainer's state: magic, format version, kind, the values that were written, and an XXH3 checksum of
// all before it. Little-endian, doubles bit for bit. A reader returns exactly the values that were written, or an
// error.
namespace luthier::base {

class CheckpointWriter {
 public:
  // `kind` names the contents and their version, e.g. "logistic/1".
  explicit CheckpointWriter(absl::string_view kind);
  // Hands the bytes to `sink` in pieces of at most kPiece as they are written, until it returns false.
  static constexpr size_t kPiece = size_t{1} << 20;
  CheckpointWriter(absl::string_view kind, std::function<bool(absl::string_view)> sink);

  void U64(uint64_t value);
  void F64(double value);
  void Text(absl::string_view text);
  void Vector(const Eigen::VectorXd& vector);
  template <typename T>
  void Array(const std::vector<T>& array) {
    static_assert(std::is_arithmetic_v<T>);
    Text(absl::string_view(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T)));
  }
  void Texts(const std::vector<std::string>& texts);
  // Returns all bytes; with a sink the result is empty.
  std::string Finish() &&;
  // Hands the rest to the sink. Returns true if the sink took everything.
  bool Close() &&;

 private:
  void Append(absl::string_view bytes);
  void Give(absl::string_view bytes);

  std::string bytes_;  // With a sink: the bytes that it has not been given yet.
  std::function<bool(absl::string_view)> sink_;
  std::optional<base::Hash64Parts> hash_;  // With a sink: the hash of the bytes that it has been given.
  bool taken_ = true;
};

class CheckpointReader {
 public:
  // Returns DATA_LOSS for damaged or cut-off bytes, FAILED_PRECONDITION for another version or kind, and CANCELLED when
  // stopped; values that are read in pieces poll the stop, too. `bytes` must outlive this.
  static absl::StatusOr<CheckpointReader> Open(absl::string_view bytes, absl::string_view kind,
                                               const base::StopToken& stop = {});

  // Each returns 0 or an empty value once something did not fit or the reader was stopped. Check status() before using
  // the values.
  uint64_t U64();
  double F64();
  std::string Text();
  Eigen::VectorXd Vector();
  template <typename T>
  std::vector<T> Array() {
    const absl::string_view raw = Take(U64());
    if (raw.size() % sizeof(T) != 0) Fail();
    std::vector<T> array;
    if (ok()) status_ = base::CopyInPieces(raw.data(), raw.size() / sizeof(T), stop_, &array);
    return array;
  }
  std::vector<std::string> Texts();
  // Returns the first error: DATA_LOSS if the bytes did not fit, CANCELLED if the reader was stopped.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  // Returns true if nothing has failed and nothing is left to read.
  bool Done() const { return ok() && rest_.empty(); }

 private:
  CheckpointReader(absl::string_view rest, const base::StopToken& stop) : rest_(rest), stop_(stop) {}
  absl::string_view Take(uint64_t size);
  void Fail();

  absl::string_view rest_;
  base::StopToken stop_;
  absl::Status status_;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_CHECKPOINT_H_
