#ifndef LUTHIER_SERVER_GATEWAY_FILES_H_
#define LUTHIER_SERVER_GATEWAY_FILES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace luthier::gateway {

// The answer to a GET.
struct FileAnswer {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body = "";
  std::string tag = "";  // A hash of the bytes, as ETag has it; empty: the answer must not be kept.
  bool zipped = false;
};

// Returns a file of the page. 404: there is none. 304: `known` (If-None-Match) is its hash. Files are compressed once.
// Used by one thread.
FileAnswer FileOfPage(const std::string& name, bool gzip, absl::string_view known);

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_FILES_H_
