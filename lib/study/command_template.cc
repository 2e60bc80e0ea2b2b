#include "lib/study/command_template.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/status_macros.h"

namespace luthier::study {
namespace {

constexpr char kFactPrefix[] = "luthier.";

// Returns "" if the name may stand between braces.
std::string NameProblem(const std::string& name, const SearchSpace& space) {
  if (absl::StartsWith(name, kFactPrefix)) {
    const std::string fact = name.substr(sizeof(kFactPrefix) - 1);
    const std::vector<std::string>& facts = TemplateFacts();
    if (std::find(facts.begin(), facts.end(), fact) != facts.end()) return "";
    return absl::StrCat("there is no ", base::Quote(name), base::DidYouMean(fact, facts));
  }
  if (space.Find(name)) return "";
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : space.parameters()) names.push_back(parameter.name);
  return absl::StrCat("the space has no parameter ", base::Quote(name), base::DidYouMean(name, names),
                      "; for a literal brace write {{");
}

void ValidateOne(absl::string_view text, const SearchSpace& space, const std::string& field,
                 base::Violations* violations) {
  const absl::StatusOr<std::vector<TemplatePiece>> pieces = ParseTemplate(text);
  if (!pieces.ok()) {
    violations->Add(field, std::string(pieces.status().message()));
    return;
  }
  for (const TemplatePiece& piece : *pieces) {
    if (!piece.placeholder) continue;
    if (const std::string problem = NameProblem(piece.text, space); !problem.empty()) violations->Add(field, problem);
  }
}

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

// Returns true if the words are not a path with blanks in it: the first is a program's name, or one of the others is an
// option or has a placeholder.
bool IsCommandLine(const std::vector<std::string>& words) {
  const bool bare_name = !absl::StrContains(words[0], "/");
  return bare_name || std::any_of(words.begin() + 1, words.end(), [](const std::string& word) {
           return absl::StartsWith(word, "-") || absl::StrContains(word, "{");
         });
}

// Returns true for a script and its arguments, as t.py --rate {rate}. The name of a script may have blanks, too.
bool IsScriptLine(const std::vector<std::string>& words) {
  return words[0][0] != '-' && !absl::StrContains(words[0], "{") &&
         std::any_of(words.begin() + 1, words.end(), [](const std::string& word) {
           return absl::StartsWith(word, "-") || absl::StrContains(word, "{");
         });
}

// --rate {rate}
bool IsOptionWithValue(const std::vector<std::string>& words) {
  const bool option = words[0].size() > 1 && words[0][0] == '-' && words[0].find_first_of("={}") == std::string::npos;
  return option && words.size() == 2 && absl::StartsWith(words[1], "{") && absl::EndsWith(words[1], "}") &&
         !absl::StartsWith(words[1], "{{");
}

}  // namespace

const std::vector<std::string>& TemplateFacts() {
  static const std::vector<std::string> facts = {
      "attempt", "checkpoint", "checkpoint_step", "direction_file", "gradient", "parameters_file",
      "seed",    "study",      "target_step",     "tolerance",      "trial"};
  return facts;
}

absl::StatusOr<std::vector<TemplatePiece>> ParseTemplate(absl::string_view text) {
  std::vector<TemplatePiece> pieces;
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) pieces.push_back({false, std::move(literal)});
    literal.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      literal += c;
      ++i;
    } else if (c == '}') {
      return absl::InvalidArgumentError(absl::StrCat("byte ", i, ": a single '}'; write }} for a literal brace"));
    } else if (c == '{') {
      const size_t end = text.find('}', i);
      const absl::string_view name = end == absl::string_view::npos ? "" : text.substr(i + 1, end - i - 1);
      // A parameter's name is at most 64 bytes; "luthier." and a fact are shorter.
      if (!IsName(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("byte ", i, ": '{' is not followed by a name and '}'; write {{ for a literal brace"));
      }
      flush();
      pieces.push_back({true, std::string(name)});
      i = end;
    } else {
      literal += c;
    }
  }
  flush();
  return pieces;
}

absl::StatusOr<std::optional<std::string>> ExpandTemplate(absl::string_view text,
                                                          const std::map<std::string, std::string>& values) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TemplatePiece> pieces, ParseTemplate(text));
  std::string out;
  for (const TemplatePiece& piece : pieces) {
    if (!piece.placeholder) {
      out += piece.text;
      continue;
    }
    const auto it = values.find(piece.text);
    if (it == values.end()) return std::optional<std::string>();
    out += it->second;
  }
  return std::optional<std::string>(std::move(out));
}

void ValidateTemplates(const CommandObjective& command, const SearchSpace& space, base::Violations* violations) {
  for (size_t i = 0; i < command.argv.size(); ++i) {
    ValidateOne(command.argv[i], space, absl::StrCat("objective.command.argv[", i, "]"), violations);
  }
  for (const auto& [name, value] : command.environment) {
    ValidateOne(value, space, absl::StrCat("objective.command.environment.", name), violations);
  }
}

bool IsInterpreter(absl::string_view program) {
  const size_t slash = program.rfind('/');
  const absl::string_view name = slash == absl::string_view::npos ? program : program.substr(slash + 1);
  for (const char* known : {"bash", "sh", "Rscript", "julia", "node", "perl", "ruby"}) {
    if (name == known) return true;
  }
  return absl::StartsWith(name, "python");  // python3.11
}

void RefuseShellLines(const CommandObjective& command, base::Violations* violations) {
  for (size_t i = 0; i < command.argv.size(); ++i) {
    const std::string& text = command.argv[i];
    const std::vector<std::string> words = Words(text);
    if (words.size() < 2) continue;
    const bool script = i == 1 && IsInterpreter(command.argv[0]) && IsScriptLine(words);
    if (!(i == 0 ? IsCommandLine(words) : script || IsOptionWithValue(words))) continue;
    std::vector<std::string> entries;
    for (const std::string& word : words) entries.push_back(base::Quote(word));
    violations->Add(
        absl::StrCat("objective.command.argv[", i, "]"),
        absl::StrCat(base::Quote(text),
                     i == 0   ? " is a program and its arguments"
                     : script ? " is a script and its arguments"
                              : " is an option and its value",
                     " in one entry, and there is no shell to split it; write ", absl::StrJoin(entries, ", "),
                     i == 0 || script ? "" : absl::StrCat(" or ", base::Quote(absl::StrCat(words[0], "=", words[1])))));
  }
}

}  // namespace luthier::study
