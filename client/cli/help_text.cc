#include "client/cli/help_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/table.h"

namespace luthier::cli {

std::string WrapHelp(const std::string& help) {
  constexpr size_t kWidth = 80;
  std::vector<std::string> out;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n'))) {
    if (ShownWidth(line) <= kWidth || absl::StartsWith(line, "  luthier")) {
      out.push_back(line);
      continue;
    }
    const bool described = line[kHelpColumn - 1] == ' ' && line[kHelpColumn] != ' ' && line[0] == ' ';
    const size_t indent = described ? kHelpColumn : std::min(line.find_first_not_of(' '), line.size());
    std::string text = line.substr(0, indent);
    bool begins = true;
    for (const absl::string_view word : absl::StrSplit(line.substr(indent), ' ', absl::SkipEmpty())) {
      if (!begins && ShownWidth(text) + 1 + ShownWidth(word) > kWidth) {
        out.push_back(std::move(text));
        text.assign(indent, ' ');
        begins = true;
      }
      absl::StrAppend(&text, begins ? "" : " ", word);
      begins = false;
    }
    out.push_back(std::move(text));
  }
  return absl::StrJoin(out, "\n");
}

}  // namespace luthier::cli
