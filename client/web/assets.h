#ifndef LUTHIER_CLIENT_WEB_ASSETS_H_
#define LUTHIER_CLIENT_WEB_ASSETS_H_

#include <vector>

#include "absl/strings/string_view.h"

// The files of client/web/dist, and api.binpb, the descriptors of a study with their comments; they are part of the
// programs.
namespace luthier::web {

struct Asset {
  absl::string_view name;    // "plot.js".
  absl::string_view bytes;   // All of the file.
  absl::string_view sha256;  // Hash of `bytes`, in lower-case hexadecimal.
};

// Returns all of them.
const std::vector<Asset>& Assets();

// Returns the file of that name; null: there is none.
const Asset* FindAsset(absl::string_view name);

}  // namespace luthier::web

#endif  // LUTHIER_CLIENT_WEB_ASSETS_H_
