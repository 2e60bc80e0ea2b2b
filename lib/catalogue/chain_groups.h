#ifndef LUTHIER_LIB_CATALOGUE_CHAIN_GROUPS_H_
#define LUTHIER_LIB_CATALOGUE_CHAIN_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/notation/templates.h"
#include "lib/study/study_spec.h"

// Groups of weights for objective `crf`. The members of a group are named like this:
//
//   transitions        the K x K weights of neighbouring labels
//   bias, ends         the attribute of every token, and those of a sequence's first and last one; not for `attributes`
//   a template         columns: as it is written, `w[-1]|w[0]`, or its CRF++ prefix, `U05`
//   an attribute       attributes: its name in the file
//   pixels             letters: all 128
namespace luthier::catalogue {

// Groups as in penalty_groups.h: 0 for none, k + 1 for groups[k].
struct ChainGroups {
  int32_t transitions = 0, bias = 0, ends = 0;
  absl::flat_hash_map<std::string, int32_t> named;  // Templates, attributes or pixels that are in a group.

  int32_t Of(const std::string& name) const;
};

// `names` are those of templates or attributes, or "pixels". Returns the errors of GroupColumns; numbers are no names
// here.
absl::StatusOr<ChainGroups> FindChainGroups(const std::vector<PenaltyGroup>& groups,
                                            const std::vector<std::string>& names, bool attributes,
                                            const std::string& where);
// Returns the names of templates, for CRF++ prefixes without their colon.
std::vector<std::string> TemplateNames(const std::vector<notation::Template>& templates);

// Returns the templates of options `templates` and `columns`; empty texts stand for their defaults. Returns the errors
// of notation::ParseTemplates.
absl::StatusOr<std::vector<notation::Template>> ChainTemplates(const std::string& templates,
                                                               const std::string& columns);

// Checks the groups as far as the options alone allow, before data are read.
absl::Status CheckChainGroups(const study::BuiltinObjective& objective);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_CHAIN_GROUPS_H_
