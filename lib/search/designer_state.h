#ifndef LUTHIER_LIB_SEARCH_DESIGNER_STATE_H_
#define LUTHIER_LIB_SEARCH_DESIGNER_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"

// The bytes of a designer's state (Suggestion::designer_state): those of lib/base/checkpoint.h, of the kind
// "NAME/VERSION".
//
// A struct lists its members once, by which it is both written and read, bit for bit:
//   template <>
//   inline constexpr auto kStateFields<Climb> = std::tuple(&Climb::site, &Climb::state);
// A member is a number, an enum, a text, a vector of Eigen, such a struct, or an optional or a std::vector of these.
// Databases hold these bytes: a list that changes needs another version, and a decoder for the old one.
namespace luthier::search {

template <typename T>
inline constexpr std::nullptr_t kStateFields = nullptr;

namespace state_codec {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
void Write(const T& value, base::CheckpointWriter* out) {
  if constexpr (std::is_floating_point_v<T>) {
    out->F64(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    out->U64(static_cast<uint64_t>(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    out->Text(value);
  } else if constexpr (std::is_same_v<T, Eigen::VectorXd>) {
    out->Vector(value);
  } else if constexpr (kIsOptional<T>) {
    out->U64(value.has_value() ? 1 : 0);
    if (value.has_value()) Write(*value, out);
  } else if constexpr (kIsVector<T>) {
    out->U64(value.size());
    for (const auto& element : value) Write(element, out);
  } else {
    std::apply([&](auto... member) { (Write(value.*member, out), ...); }, kStateFields<T>);
  }
}

template <typename T>
void Read(base::CheckpointReader* in, T* value) {
  if constexpr (std::is_floating_point_v<T>) {
    *value = in->F64();
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    *value = static_cast<T>(in->U64());
  } else if constexpr (std::is_same_v<T, std::string>) {
    *value = in->Text();
  } else if constexpr (std::is_same_v<T, Eigen::VectorXd>) {
    *value = in->Vector();
  } else if constexpr (kIsOptional<T>) {
    if (in->U64() != 0) Read(in, &value->emplace());
  } else if constexpr (kIsVector<T>) {
    const uint64_t count = in->U64();
    for (uint64_t k = 0; k < count && in->ok(); ++k) Read(in, &value->emplace_back());
  } else {
    std::apply([&](auto... member) { (Read(in, &(value->*member)), ...); }, kStateFields<T>);
  }
}

}  // namespace state_codec

template <typename T>
std::string EncodeState(absl::string_view kind, const T& state) {
  base::CheckpointWriter out(kind);
  state_codec::Write(state, &out);
  return std::move(out).Finish();
}

// Returns the first members of such a state, which T lists; std::nullopt for other bytes.
template <typename T>
std::optional<T> DecodeStateHead(absl::string_view kind, absl::string_view bytes) {
  absl::StatusOr<base::CheckpointReader> in = base::CheckpointReader::Open(bytes, kind);
  if (!in.ok()) return std::nullopt;
  T state;
  state_codec::Read(&*in, &state);
  return in->ok() ? std::optional<T>(std::move(state)) : std::nullopt;
}

// Returns the state; std::nullopt for other bytes.
template <typename T>
std::optional<T> DecodeState(absl::string_view kind, absl::string_view bytes) {
  absl::StatusOr<base::CheckpointReader> in = base::CheckpointReader::Open(bytes, kind);
  if (!in.ok()) return std::nullopt;
  T state;
  state_codec::Read(&*in, &state);
  return in->Done() ? std::optional<T>(std::move(state)) : std::nullopt;
}

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_DESIGNER_STATE_H_
