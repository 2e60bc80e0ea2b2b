#ifndef LUTHIER_LIB_STUDY_COMMAND_TEMPLATE_H_
#define LUTHIER_LIB_STUDY_COMMAND_TEMPLATE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

namespace luthier::study {

// The placeholders of a command objective's arguments and environment: "{name}" stands for the value of parameter
// `name`, "{luthier.trial}" and the like for facts about the run; "{{" and "}}" are single braces. Nothing else is
// special: there is no shell.
struct TemplatePiece {
  bool placeholder = false;
  std::string text;  // Literal text, or the name between the braces.
  friend bool operator==(const TemplatePiece&, const TemplatePiece&) = default;
};

// Returns INVALID_ARGUMENT for an unpaired brace or something that is no name between braces.
absl::StatusOr<std::vector<TemplatePiece>> ParseTemplate(absl::string_view text);

// Names that may follow "luthier." in a placeholder: attempt, checkpoint, direction_file, gradient, parameters_file,
// seed, study, target_step, tolerance, trial.
const std::vector<std::string>& TemplateFacts();

// Returns `text` with every placeholder replaced by its entry in `values` (keys: parameter names and "luthier.…").
// Returns std::nullopt if a placeholder has no value (an inactive parameter, no checkpoint): the argument is then to be
// left out. Returns the errors of ParseTemplate.
absl::StatusOr<std::optional<std::string>> ExpandTemplate(absl::string_view text,
                                                          const std::map<std::string, std::string>& values);

// Every argument and environment entry of `command` against the space: braces, and names that exist.
void ValidateTemplates(const CommandObjective& command, const SearchSpace& space, base::Violations* violations);

// Returns true if a program, named with or without its folder, is one that runs the file that its first argument names:
// python3.11, bash, Rscript, ….
bool IsInterpreter(absl::string_view program);

// Entries of `argv` in which several arguments stand, as in a shell's line: a program with what it is to be given, and
// an option with its value. There is no shell, so no program would be found, or an option of a strange name passed. For
// new studies alone, by ValidateNewSpec: older versions took such entries.
void RefuseShellLines(const CommandObjective& command, base::Violations* violations);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_COMMAND_TEMPLATE_H_
