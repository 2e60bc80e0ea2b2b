// The test functions, and those of wide_functions.h, for programs in other languages, so that every optimiser minimises
// the same code.
//
//   function_server FUNCTION [SHIFT_SEED]
//
// Prints what the function is, then answers requests, one a line, until its input ends. Numbers are printed so that
// they read back to the same bits.
//
//   dim minimum lower... upper...     first line; SHIFT_SEED moves the box as `search_bench --shift` does
//   f x1 ... xd                    -> value
//   g x1 ... xd                    -> value slope1 ... sloped; not for those of wide_functions.h, which have none
//   initial SEED COUNT             -> COUNT d numbers: the points that `bo` starts with under that seed, in its box
//
// A request that cannot be understood ends it with exit status 2 and the reason.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/search/wide_functions.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/history.h"

namespace luthier {
namespace {

[[noreturn]] void Die(absl::string_view reason) {
  std::fprintf(stderr, "function_server: %s\n", std::string(reason).c_str());
  std::exit(2);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().message());
  return *std::move(value);
}

void Append(std::string* line, double number) {
  absl::StrAppend(line, line->empty() ? "" : " ", absl::StrFormat("%.17g", number));
}

const std::string& Name(const simulate::Problem& problem, int j) {
  return problem.space.parameters()[static_cast<size_t>(j)].name;
}

std::string InitialPoints(const simulate::Problem& problem, uint64_t seed, int count) {
  study::StudySpec spec;
  spec.space = problem.space;
  spec.metric = {"value", problem.goal};
  study::BoOptions options;
  options.initial_points = count;
  spec.algorithm = options;
  spec.budget.max_trials = count;
  spec.seed = seed;
  if (const absl::Status status = search::Validate(spec); !status.ok()) Die(status.message());
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  std::string line;
  for (int i = 0; i < count; ++i) {
    // Without results the designer goes on with its initial points.
    const search::Suggestion suggestion =
        OrDie(designer->Suggest(study::History(), static_cast<uint64_t>(i), base::StopToken()));
    for (int j = 0; j < problem.space.size(); ++j) {
      Append(&line, std::get<double>(suggestion.parameters.at(Name(problem, j))));
    }
  }
  return line;
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) Die("usage: function_server FUNCTION [SHIFT_SEED]");
  std::optional<uint64_t> shift;
  if (argc == 3) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(argv[2], &seed)) Die("SHIFT_SEED is not a whole number from 0 on");
    shift = seed;
  }
  const simulate::Problem problem = OrDie(BenchProblem(argv[1], shift));
  const int dim = problem.space.size();
  std::string line = absl::StrCat(dim);
  Append(&line, *problem.optimum);
  for (const bool upper : {false, true}) {
    for (int j = 0; j < dim; ++j) {
      const study::FloatRange& range =
          std::get<study::FloatRange>(problem.space.parameters()[static_cast<size_t>(j)].domain);
      Append(&line, upper ? range.max : range.min);
    }
  }
  std::cout << line << std::endl;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    std::string answer;
    if (words.size() == 3 && words[0] == "initial") {
      uint64_t seed = 0;
      int count = 0;
      if (!absl::SimpleAtoi(words[1], &seed) || !absl::SimpleAtoi(words[2], &count) || count < 1) {
        Die(absl::StrCat("not a seed and a count from 1 on: ", line));
      }
      answer = InitialPoints(problem, seed, count);
    } else if (words.size() == static_cast<size_t>(dim) + 1 && (words[0] == "f" || words[0] == "g")) {
      study::Parameters parameters;
      for (int j = 0; j < dim; ++j) {
        const std::string& word = words[static_cast<size_t>(j) + 1];
        double x = 0.0;
        if (!absl::SimpleAtod(word, &x) || !std::isfinite(x)) Die(absl::StrCat("not a finite number: ", word));
        parameters[Name(problem, j)] = x;
      }
      Append(&answer, problem.evaluate(parameters));
      if (words[0] == "g") {
        if (!problem.gradient) Die(absl::StrCat(problem.name, " has no gradient"));
        for (const double slope : problem.gradient(parameters)) Append(&answer, slope);
      }
    } else {
      Die(absl::StrCat("not `f`, `g` with ", dim, " numbers, or `initial SEED COUNT`: ", line));
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
