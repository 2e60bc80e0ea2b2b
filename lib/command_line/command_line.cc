#include "lib/command_line/command_line.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/secret.h"

namespace luthier::command_line {
namespace {

// Returns whether `text` is a duration from zero on.
bool ParseDuration(const std::string& text, absl::Duration* duration) {
  double seconds = 0.0;
  std::istringstream number(text);
  if (number >> seconds && number.eof() && seconds >= 0.0) {
    *duration = absl::Seconds(seconds);
    return true;
  }
  return absl::ParseDuration(text, duration) && *duration >= absl::ZeroDuration();
}

CLI::App* FindVerb(CLI::App& app, const std::string& name) {
  for (CLI::App* verb : app.get_subcommands([&](const CLI::App* a) { return a->get_name() == name; })) return verb;
  return nullptr;
}

// Returns the given verbs, from the program down to the innermost one; *rest: the index of the arguments behind them.
std::vector<CLI::App*> Verbs(CLI::App& app, const std::vector<std::string>& args, size_t* rest) {
  std::vector<CLI::App*> chain = {&app};
  *rest = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    // Options of the program may stand before the verb; their values may look like anything, also like a verb.
    CLI::App* verb = FindVerb(*chain.back(), args[i]);
    if (verb == nullptr) {
      if (chain.size() > 1) break;
      continue;
    }
    chain.push_back(verb);
    *rest = i + 1;
  }
  return chain;
}

// Returns the index of a word before the first verb that is neither an option nor the value of one; npos if there is
// none.
size_t StrayWord(CLI::App& app, const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].size() > 1 && args[i][0] == '-') {
      const CLI::Option* option =
          args[i][1] == '-' ? app.get_option_no_throw(args[i]) : app.get_option_no_throw(args[i].substr(0, 2));
      const bool apart = args[i][1] == '-' || args[i].size() == 2;  // Not "-ojson".
      if (option != nullptr && apart && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    return FindVerb(app, args[i]) == nullptr ? i : std::string::npos;
  }
  return std::string::npos;
}

std::string Path(const std::vector<CLI::App*>& chain) {
  return absl::StrJoin(chain, " ", [](std::string* out, const CLI::App* app) { *out += app->get_name(); });
}

// Returns an argument that is meant as an option but is none.
std::string UnknownOption(const std::vector<CLI::App*>& chain, const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const CLI::App* app : chain) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg.size() < 2 || arg[0] != '-' || absl::ascii_isdigit(arg[1]) || arg[1] == '.') continue;
    const bool is_long = arg[1] == '-';
    const std::string name = is_long ? arg.substr(0, arg.find('=')) : arg.substr(0, 2);
    const bool known = std::any_of(chain.begin(), chain.end(),
                                   [&](const CLI::App* app) { return app->get_option_no_throw(name) != nullptr; });
    if (known) continue;
    // The user may have typed one dash instead of two.
    const std::string meant = is_long ? name : absl::StrCat("-", arg.substr(0, arg.find('=')));
    return absl::StrCat("there is no option ", base::Quote(is_long ? name : arg), base::DidYouMean(meant, names));
  }
  return "";
}

std::vector<std::string> NamesOf(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

// Returns " (did you mean: luthier study get?)" for a verb that stands where its noun belongs; "" for others.
std::string MeantOfNouns(CLI::App& app, const std::string& word) {
  std::vector<std::string> meant;
  for (CLI::App* noun : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (noun->get_require_subcommand_min() == 0 || FindVerb(*noun, word) == nullptr) continue;
    meant.push_back(absl::StrCat(app.get_name(), " ", noun->get_name(), " ", word));
  }
  return meant.empty() ? "" : absl::StrCat(" (did you mean: ", absl::StrJoin(meant, ", "), "?)");
}

// Returns a verb that does not exist, where one is needed, or a word before the verb; "" if there is neither.
std::string UnknownVerb(const std::vector<CLI::App*>& chain, const std::vector<std::string>& args, size_t rest) {
  CLI::App& app = *chain.front();
  if (app.get_require_subcommand_min() == 0) return "";
  const size_t stray = StrayWord(app, args);
  if (stray != std::string::npos) {
    const std::string& word = args[stray];
    std::string meant;
    if (chain.size() > 1 && FindVerb(*chain[1], word) != nullptr) {  // Other programs have this order: get study.
      meant = absl::StrCat(" (did you mean: ", app.get_name(), " ", chain[1]->get_name(), " ", word, "?)");
    }
    if (meant.empty()) meant = base::DidYouMean(word, NamesOf(app));
    if (meant.empty()) meant = MeantOfNouns(app, word);
    return absl::StrCat("there is no verb ", base::Quote(word), meant, "; verbs: ", absl::StrJoin(NamesOf(app), ", "));
  }
  CLI::App& last = *chain.back();
  if (chain.size() == 1 || last.get_require_subcommand_min() == 0 || rest >= args.size()) return "";
  const std::string& word = args[rest];
  if (word.empty() || word[0] == '-') return "";
  std::string said;
  for (size_t i = 1; i < chain.size(); ++i) absl::StrAppend(&said, chain[i]->get_name(), " ");
  return absl::StrCat("there is no verb ", base::Quote(said + word), base::DidYouMean(word, NamesOf(last)),
                      "; verbs: ", absl::StrJoin(NamesOf(last), ", "));
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<CLI::App*>& chain,
                    const std::vector<std::string>& args) {
  if (std::string option = UnknownOption(chain, args); !option.empty()) return option;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return base::HideTokens(error.what());
  // They are listed in the order in which they were typed.
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  return absl::StrCat(
      extras.size() == 1 ? "one argument too many: " : "arguments too many: ",
      absl::StrJoin(extras, " ", [](std::string* out, const std::string& s) { *out += base::Quote(s); }));
}

// Returns the name of an option or argument that was given an empty value; "" if none was. What an unset variable in
// quotes stands for must not be taken for an option that is left out.
std::string EmptyValue(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) return option->get_name();
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (std::string name = EmptyValue(*verb); !name.empty()) return name;
  }
  return "";
}

}  // namespace

std::optional<int> Parse(CLI::App& app, const std::vector<std::string>& given, std::ostream& out, std::ostream& err) {
  std::vector<std::string> args = given;
  if (app.get_require_subcommand_min() > 0 && !args.empty() && args[0] == "help") {  // "help study" as "study --help".
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  {
    size_t rest = 0;
    const std::vector<CLI::App*> chain = Verbs(app, args, &rest);
    if (const std::string verb = UnknownVerb(chain, args, rest); !verb.empty()) {  // With --help behind it, too.
      err << app.get_name() << ": " << verb << "\nfor help: " << Path(chain) << " --help\n";
      return kExitUsage;
    }
  }
  try {  // CLI11 reports by throwing, help included.
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(reversed);
    if (const std::string name = EmptyValue(app); !name.empty()) {
      size_t rest = 0;
      err << app.get_name() << ": " << name
          << " is empty, as a variable that is not set is; give it a value or leave it out"
          << "\nfor help: " << Path(Verbs(app, args, &rest)) << " --help\n";
      return kExitUsage;
    }
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, out, err);
      return 0;
    }
    size_t rest = 0;
    const std::vector<CLI::App*> chain = Verbs(app, args, &rest);
    // A noun alone asks what can be done with it.
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && chain.back()->get_require_subcommand_min() > 0 &&
        UnknownOption(chain, args).empty()) {
      args.emplace_back("--help");
      return Parse(app, args, out, err);
    }
    err << app.get_name() << ": " << Explain(app, error, chain, args) << "\nfor help: " << Path(chain) << " --help\n";
    return kExitUsage;
  }
}

std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  return Parse(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc), std::cout, std::cerr);
}

CLI::Validator AtLeastOne() {
  return CLI::Validator(
      [](const std::string& text) {
        int64_t value = 0;
        // Another validator says when it is no number.
        const bool low = absl::SimpleAtoi(text, &value) && value < 1;
        return low ? absl::StrCat("must be at least 1, not ", value) : std::string();
      },
      "POSITIVE");
}

CLI::Option* AddDuration(CLI::App& app, const char* name, absl::Duration* duration, const char* what) {
  const auto valid = [](const std::string& text) {
    absl::Duration ignored;
    return ParseDuration(text, &ignored) ? std::string() : "'" + text + "' is not a duration such as 90s, 10m or 1h30m";
  };
  return app
      .add_option_function<std::string>(
          name, [duration](const std::string& text) { ParseDuration(text, duration); }, what)
      ->check(valid);
}

}  // namespace luthier::command_line
