// Plays the corpora with the programs that users run: what a fuzzer found once is looked at in every build.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/fuzz/fuzz.h"

namespace luthier::fuzz {
namespace {

// What runs just now, for the handler of signals.
char running[512];

void SayWhatRan(int number) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, running, strnlen(running, sizeof(running)));
  signal(number, SIG_DFL);
  raise(number);
}

std::filesystem::path Corpus(const std::string& target) {
  const char* const source = std::getenv("LUTHIER_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests/fuzz/corpus" / target;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A byte changed, taken away, put in, or the end cut off.
std::string Changed(std::string text, base::RandomStream* random) {
  for (uint64_t times = 1 + random->UniformInt(4); times > 0 && !text.empty(); --times) {
    const size_t at = random->UniformInt(text.size());
    switch (random->UniformInt(5)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random->UniformInt(8)));
        break;
      case 1:
        text.erase(at, 1);
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random->UniformInt(256)));
        break;
      case 3:
        text.insert(at, text.substr(at / 2, 20));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, HoldsWhatIsPromised) {
  const Target target = GetParam();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(Corpus(target.name))) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  // Bytes that are no UTF-8 are what is played here; protobuf need not tell of each.
  const google::protobuf::LogSilencer silence;
  ASSERT_GE(files.size(), 10u) << "too little to play in " << Corpus(target.name);
  constexpr int kChanges = 300;
  for (const auto& file : files) {
    const std::string text = Read(file);
    for (int change = 0; change <= kChanges; ++change) {
      std::snprintf(running, sizeof(running), "while %s ran on %s, change %d\n", target.name.c_str(),
                    file.filename().c_str(), change);
      base::RandomStream random(/*seed=*/1, "fuzz/" + file.filename().string(), static_cast<uint64_t>(change));
      target.run(change == 0 ? text : Changed(text, &random));
    }
  }
}

std::vector<Target> Sorted() {
  std::vector<Target> targets = Targets();
  std::sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) { return a.name < b.name; });
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, SayWhatRan);
  return targets;
}

std::string NameOf(const ::testing::TestParamInfo<Target>& target) {
  return target.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, ::testing::ValuesIn(Sorted()), NameOf);

TEST(Fuzz, EveryTargetIsPlayed) {
  EXPECT_EQ(Targets().size(), LUTHIER_FUZZ_TARGETS);
}

}  // namespace
}  // namespace luthier::fuzz
