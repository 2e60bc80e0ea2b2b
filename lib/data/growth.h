#ifndef LUTHIER_LIB_DATA_GROWTH_H_
#define LUTHIER_LIB_DATA_GROWTH_H_

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::data {

// Vectors of at most this many bytes grow as base::MakeRoom has it.
inline constexpr size_t kGrowsPlainly = size_t{16} << 20;

// Makes room for `more` at the end of a vector that grows, as base::MakeRoom does, but gives the memory of the old
// place back piece by piece while the elements move: the largest data of a reader are never in memory twice. If this
// is stopped, returns CANCELLED, and the elements have unspecified values.
template <typename T>
absl::Status GrowBy(size_t more, const base::StopToken& stop, std::vector<T>* v) {
  static_assert(std::is_arithmetic_v<T>);
  if (v->capacity() - v->size() >= more) return absl::OkStatus();
  if (v->size() * sizeof(T) <= kGrowsPlainly) return base::MakeRoom(more, stop, v);
  constexpr size_t kPiece = (size_t{1} << 20) / sizeof(T);
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<T> larger;
  larger.reserve(std::max(2 * v->capacity(), v->size() + more));
  char* const bytes = reinterpret_cast<char*>(v->data());
  // Offset of the first whole page that was not given back yet.
  size_t given = (page - reinterpret_cast<uintptr_t>(bytes) % page) % page;
  for (size_t begin = 0; begin < v->size(); begin += kPiece) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(kPiece));
    const T* const from = v->data() + begin;
    const T* const end = v->data() + std::min(v->size(), begin + kPiece);
    larger.insert(larger.end(), from, end);
    const size_t moved = static_cast<size_t>(end - v->data()) * sizeof(T);
    if (moved < given + page) continue;
    const size_t whole = (moved - given) / page * page;
    madvise(bytes + given, whole, MADV_DONTNEED);  // If it fails, memory is kept a while longer.
    given += whole;
  }
  *v = std::move(larger);
  return absl::OkStatus();
}

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_GROWTH_H_
