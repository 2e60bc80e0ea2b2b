#ifndef LUTHIER_LIB_SEARCH_LEGACY_STATE_H_
#define LUTHIER_LIB_SEARCH_LEGACY_STATE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace luthier::search {

// Returns a stored designer state as designers write it now. Bytes of lib/base/checkpoint.h are returned unchanged. Up
// to schema version 13 of the database states were text; this is the only place that reads it, and nothing writes it
// any more. Texts that no designer wrote give "", by which a designer starts anew.
std::string CurrentState(absl::string_view stored);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_LEGACY_STATE_H_
