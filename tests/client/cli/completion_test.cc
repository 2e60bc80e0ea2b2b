// Completion scripts, loaded and asked in their shells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

bool Has(const std::string& shell) {
  return std::system(absl::StrCat("command -v ", shell, " > /dev/null").c_str()) == 0;
}

// Standard output and error of a script.
std::string OutputOf(const std::string& shell, const std::string& path) {
  FILE* pipe = popen(absl::StrCat(shell, " ", path, " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

TEST_F(CliTest, BashCompletesVerbsAndOptions) {
  const std::string script = Write("c.bash", Out({"completion", "bash"}));
  const auto complete = [&](const std::string& words) {
    return OutputOf("bash", Write("ask.bash", absl::StrCat("source ", script, "\nCOMP_WORDS=(", words,
                                                           ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_luthier\n",
                                                           "printf '%s\\n' \"${COMPREPLY[@]}\"\n")));
  };
  EXPECT_THAT(complete("luthier st"), ::testing::StrEq("study\n"));
  EXPECT_THAT(complete("luthier study ''"), HasSubstr("preview\n"));
  EXPECT_THAT(complete("luthier study ''"), Not(HasSubstr("simulate")));
  EXPECT_THAT(complete("luthier trial list s --st"), HasSubstr("--state\n"));
  EXPECT_THAT(complete("luthier trial list --ser"), ::testing::StrEq("--server\n")) << "an option of the program";
}

TEST_F(CliTest, ZshLoadsItsCompletion) {
  if (!Has("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string script = Write("c.zsh", Out({"completion", "zsh"}));
  const std::string ask = Write(
      "ask.zsh",
      absl::StrCat("compdef() { echo \"compdef $*\"; }\nsource ", script,
                   "\n_describe() { print -l -- \"${(@P)2}\"; }\nwords=(luthier study ''); CURRENT=3; _luthier\n"));
  const std::string out = OutputOf("zsh -f", ask);
  EXPECT_THAT(out, HasSubstr("compdef _luthier luthier"));
  EXPECT_THAT(out, HasSubstr("\nlist:All studies\n"));
}

TEST_F(CliTest, FishLoadsItsCompletion) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  const std::string script = Write("c.fish", Out({"completion", "fish"}));
  const std::string ask = Write("ask.fish", absl::StrCat("source ", script, "\ncomplete -C 'luthier study l'\n"));
  EXPECT_THAT(OutputOf(absl::StrCat("HOME=", Path("home"), " fish --no-config"), ask), HasSubstr("list\tAll studies"));
}

}  // namespace
}  // namespace luthier::cli
