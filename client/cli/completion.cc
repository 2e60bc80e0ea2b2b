#include "client/cli/completion.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace luthier::cli {
namespace {

constexpr size_t kShownText = 70;  // Characters of a description beside a word.

// A verb, or the program, and the words that may follow it.
struct Node {
  std::string path;                                        // "luthier study get"
  std::vector<std::pair<std::string, std::string>> verbs;  // Name, description.
  std::vector<std::pair<std::string, std::string>> options;
};

std::string Short(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() > kShownText) line = line.substr(0, line.rfind(' ', kShownText));
  return line;
}

void Collect(const CLI::App& app, const std::string& path,
             const std::vector<std::pair<std::string, std::string>>& inherited, std::vector<Node>* nodes) {
  Node node{path, {}, inherited};
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      bool known = false;
      for (const auto& [other, what] : node.options) known = known || other == "--" + name;
      if (!known) node.options.emplace_back("--" + name, Short(option->get_description()));
    }
  }
  // Options of the program may follow any verb.
  const std::vector<std::pair<std::string, std::string>> down = inherited.empty() ? node.options : inherited;
  std::vector<const CLI::App*> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.verbs.emplace_back(verb->get_name(), Short(verb->get_description()));
    verbs.push_back(verb);
  }
  nodes->push_back(std::move(node));
  for (const CLI::App* verb : verbs) Collect(*verb, absl::StrCat(path, " ", verb->get_name()), down, nodes);
}

std::string SingleQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Returns the case patterns of all verbs: "luthier study"|"luthier study get"|...
std::string Patterns(const std::vector<Node>& nodes) {
  std::vector<std::string> quoted;
  for (size_t i = 1; i < nodes.size(); ++i) quoted.push_back(absl::StrCat("\"", nodes[i].path, "\""));
  return absl::StrJoin(quoted, "|");
}

std::string Bash(const std::string& program, const std::vector<Node>& nodes) {
  std::string out =
      absl::StrCat("# bash completion of ", program, "\n_", program, "() {\n",
                   "  local current=${COMP_WORDS[COMP_CWORD]} at=", program, " word words=\n",
                   "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$at $word\" in\n      ",
                   Patterns(nodes), ") at=\"$at $word\";;\n    esac\n  done\n  case \"$at\" in\n");
  for (const Node& node : nodes) {
    std::vector<std::string> verbs, options;
    for (const auto& [name, what] : node.verbs) verbs.push_back(name);
    for (const auto& [name, what] : node.options) options.push_back(name);
    absl::StrAppend(&out, "    \"", node.path, "\") words='", absl::StrJoin(verbs, " "),
                    "'; [[ $current == -* ]] && words='", absl::StrJoin(options, " "), "';;\n");
  }
  return absl::StrCat(out, "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n",
                      "complete -o default -F _", program, " ", program, "\n");
}

std::string Zsh(const std::string& program, const std::vector<Node>& nodes) {
  std::string out =
      absl::StrCat("#compdef ", program, "\n_", program, "() {\n  local at=", program, " word\n  local -a list\n",
                   "  for word in ${words[2,CURRENT-1]}; do\n    case \"$at $word\" in\n      ", Patterns(nodes),
                   ") at=\"$at $word\";;\n    esac\n  done\n  case \"$at\" in\n");
  const auto list = [](const std::vector<std::pair<std::string, std::string>>& words) {
    return absl::StrJoin(words, " ", [](std::string* text, const auto& word) {
      const std::string what = absl::StrReplaceAll(word.second, {{":", "\\:"}});
      absl::StrAppend(text, SingleQuoted(absl::StrCat(word.first, ":", what)));
    });
  };
  for (const Node& node : nodes) {
    absl::StrAppend(&out, "    \"", node.path, "\")\n      if [[ $words[CURRENT] == -* ]]; then\n        list=(",
                    list(node.options), ")\n      else\n        list=(", list(node.verbs), ")\n      fi;;\n");
  }
  return absl::StrCat(out, "  esac\n  if (( $#list )); then _describe ", program, " list; else _files; fi\n}\n",
                      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _", program, " \"$@\"; else compdef _",
                      program, " ", program, "; fi\n");
}

std::string Fish(const std::string& program, const std::vector<Node>& nodes) {
  std::string out =
      absl::StrCat("# fish completion of ", program, "\nfunction __", program, "_at\n  set -l at ", program,
                   "\n  for word in (commandline -opc)[2..-1]\n    switch \"$at $word\"\n      case");
  for (size_t i = 1; i < nodes.size(); ++i) absl::StrAppend(&out, " ", SingleQuoted(nodes[i].path));
  absl::StrAppend(&out, "\n        set at \"$at $word\"\n    end\n  end\n  test \"$at\" = \"$argv[1]\"\nend\n");
  for (const Node& node : nodes) {
    const std::string condition = absl::StrCat("complete -c ", program, " -n ",
                                               SingleQuoted(absl::StrCat("__", program, "_at \"", node.path, "\"")));
    for (const auto& [name, what] : node.verbs) {
      absl::StrAppend(&out, condition, " -f -a ", name, " -d ", SingleQuoted(what), "\n");
    }
    for (const auto& [name, what] : node.options) {
      absl::StrAppend(&out, condition, " -l ", name.substr(2), " -d ", SingleQuoted(what), "\n");
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const CLI::App& app, absl::string_view shell) {
  std::vector<Node> nodes;
  Collect(app, app.get_name(), {}, &nodes);
  if (shell == "bash") return Bash(app.get_name(), nodes);
  if (shell == "zsh") return Zsh(app.get_name(), nodes);
  if (shell == "fish") return Fish(app.get_name(), nodes);
  return absl::InvalidArgumentError(absl::StrCat("no completion for ", shell, "; bash, zsh and fish have one"));
}

}  // namespace luthier::cli
