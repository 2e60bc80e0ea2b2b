#ifndef LUTHIER_SERVER_GATEWAY_COMPRESSION_H_
#define LUTHIER_SERVER_GATEWAY_COMPRESSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace luthier::gateway {

// Returns `text` in the form of gzip. `level`: from 1, the fastest, to 9, the smallest.
std::string Gzip(absl::string_view text, int level);

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_COMPRESSION_H_
