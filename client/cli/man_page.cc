#include "client/cli/man_page.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace luthier::cli {
namespace {

// Escapes text for roff.
std::string Roff(const std::string& text) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!out.empty()) out += "\n.br\n";
    // A dot or an apostrophe would begin a request.
    if (absl::StartsWith(line, ".") || absl::StartsWith(line, "'")) out += "\\&";
    out += absl::StrReplaceAll(line, {{"\\", "\\e"}, {"-", "\\-"}});
  }
  return out;
}

void AppendOptions(const CLI::App& app, std::string* out) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name(/*positional=*/true, /*all_options=*/true);
    absl::StrAppend(out, ".TP\n\\fB", Roff(name), "\\fR");
    if (option->get_items_expected_max() > 0 && !option->get_positional()) {
      absl::StrAppend(out, " \\fI", Roff(option->get_type_name()), "\\fR");
    }
    absl::StrAppend(out, "\n", Roff(option->get_description()), "\n");
    if (!option->get_default_str().empty()) absl::StrAppend(out, "Default: ", Roff(option->get_default_str()), "\n");
  }
}

void AppendVerbs(const CLI::App& app, const std::string& path, std::string* out) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = absl::StrCat(path, " ", verb->get_name());
    absl::StrAppend(out, ".SS ", Roff(name), "\n", Roff(verb->get_description()), "\n");
    if (!verb->get_footer().empty()) absl::StrAppend(out, ".PP\n", Roff(verb->get_footer()), "\n");
    AppendOptions(*verb, out);
    AppendVerbs(*verb, name, out);
  }
}

}  // namespace

std::string ManPage(const CLI::App& app, absl::string_view version) {
  const std::string& name = app.get_name();
  const std::string description = app.get_description();
  std::string out =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(name), " 1 \"\" \"", name, " ", version, "\"\n", ".SH NAME\n", name,
                   " \\- ", Roff(description.substr(0, description.find('\n'))), "\n.SH SYNOPSIS\n\\fB", name,
                   "\\fR [OPTIONS] VERB [OPTIONS]\n.SH DESCRIPTION\n", Roff(description), "\n.SH OPTIONS\n");
  AppendOptions(app, &out);
  absl::StrAppend(&out, ".SH VERBS\n");
  AppendVerbs(app, name, &out);
  absl::StrAppend(&out, ".SH EXIT STATUS\n", Roff(app.get_footer()), "\n");
  return out;
}

}  // namespace luthier::cli
