#ifndef LUTHIER_LIB_WIRE_JSON_SCHEMA_H_
#define LUTHIER_LIB_WIRE_JSON_SCHEMA_H_

#include <nlohmann/json_fwd.hpp>

namespace luthier::wire {

// Returns a JSON Schema (draft 2020-12) of study files, made from v1::StudySpec, for editors: names, kinds of values,
// words of enumerations. A file that the
// schema takes may still be refused.
nlohmann::ordered_json StudyFileSchema();

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_JSON_SCHEMA_H_
