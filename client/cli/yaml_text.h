#ifndef LUTHIER_CLIENT_CLI_YAML_TEXT_H_
#define LUTHIER_CLIENT_CLI_YAML_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace luthier::cli {

// Returns `value` as a YAML document in block style that readers of YAML 1.1 and 1.2 read as the same values: texts
// that look like anything else are quoted. Ends with a line end.
std::string YamlText(const nlohmann::ordered_json& value);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_YAML_TEXT_H_
