#include "tests/lib/base/look_meter.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/stop_token.h"

namespace luthier::testing {
namespace {

thread_local LookMeter* meter = nullptr;

}  // namespace

LookMeter::LookMeter(std::function<void()> raise, int64_t at) : raise_(std::move(raise)), at_(at) {
  LUTHIER_CHECK(meter == nullptr);
  meter = this;
}

LookMeter::~LookMeter() {
  meter = nullptr;
}

LookMeter* LookMeter::OfThisThread() {
  return meter;
}

void LookMeter::Restart(int64_t at) {
  at_ = at;
  looks_ = operations_ = most_ = after_ = 0;
}

void LookMeter::Look(int64_t operations) {
  if (raised()) after_ += operations;
  operations_ += operations;
  most_ = std::max(most_, operations);
  if (++looks_ == at_) raise_();
}

}  // namespace luthier::testing

namespace luthier::base {

void OnStopLook(int64_t operations) {
  testing::LookMeter* const meter = testing::LookMeter::OfThisThread();
  if (meter != nullptr) meter->Look(operations);
}

}  // namespace luthier::base
