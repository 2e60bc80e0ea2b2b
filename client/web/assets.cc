#include "client/web/assets.h"

namespace luthier::web {

const Asset* FindAsset(absl::string_view name) {
  for (const Asset& asset : Assets()) {
    if (asset.name == name) return &asset;
  }
  return nullptr;
}

}  // namespace luthier::web
