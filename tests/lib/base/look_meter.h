#ifndef LUTHIER_TESTS_LIB_BASE_LOOK_METER_H_
#define LUTHIER_TESTS_LIB_BASE_LOOK_METER_H_

#include <cstdint>
#include <functional>

// Counts looks at stops (lib/base/stop_token.h), in programs with look_meter.cc among their sources.
namespace luthier::testing {

// As long as one lives, looks of this thread come to it.
class LookMeter {
 public:
  // `raise` requests the stop, at look number `at`, from 1; 0: never.
  explicit LookMeter(std::function<void()> raise, int64_t at = 0);
  ~LookMeter();
  LookMeter(const LookMeter&) = delete;
  static LookMeter* OfThisThread();  // Null: none.

  // From now on, with nothing counted.
  void Restart(int64_t at);
  void Look(int64_t operations);

  int64_t looks() const { return looks_; }
  bool raised() const { return at_ > 0 && looks_ >= at_; }
  // Operations between looks: all, the most, and those after the stop was requested.
  int64_t operations() const { return operations_; }
  int64_t most() const { return most_; }
  int64_t after() const { return after_; }

 private:
  const std::function<void()> raise_;
  int64_t at_;
  int64_t looks_ = 0, operations_ = 0, most_ = 0, after_ = 0;
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_LIB_BASE_LOOK_METER_H_
