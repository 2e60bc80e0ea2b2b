#ifndef LUTHIER_LIB_WIRE_YAML_TREE_H_
#define LUTHIER_LIB_WIRE_YAML_TREE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

// Position at which a node begins; both numbers count from 1.
struct YamlPosition {
  int line = 0;
  int column = 0;
  friend auto operator<=>(const YamlPosition&, const YamlPosition&) = default;
};

// One node of a YAML document, before it has a meaning.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  YamlPosition at;
  bool quoted = false;          // Scalars: quoted, in a block, or tagged !!str: text whatever it looks like.
  std::string text;             // Scalars.
  std::vector<YamlNode> keys;   // Maps, in order: scalars, all different.
  std::vector<YamlNode> items;  // Lists; maps: the value of each key.
};

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 32;

struct YamlError {
  YamlPosition at;
  std::string what;
};

// The only document of `text` (YAML 1.2, hence also JSON). Not accepted, each with what to do instead: more than
// kMaxYamlBytes (nothing is parsed then), bytes that are not UTF-8, control characters, nesting beyond kMaxYamlDepth,
// anchors and aliases (a few lines of them can stand for gigabytes), tags but !!str, keys that are lists, maps or null,
// keys given twice, a second document. On an error *error says what and where (line 0: the whole file) and false is
// returned. An empty document is kNull.
bool ParseYamlTree(absl::string_view text, YamlNode* root, YamlError* error);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_YAML_TREE_H_
