#include "bench/reproduce/experiments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/reproduce/problems.h"

namespace luthier::reproduce {
namespace {

// The thesis' optimizer: one kernel, no warp, no local steps, Spearmint's prior, DIRECT.
constexpr char kThesis[] =
    "warp: WARP_NONE, prior: THESIS, maximizer: DIRECT, trust_region: TRUST_REGION_OFF, improvement: 0.05";

std::string Thesis(const char* preset, const char* acquisition, const char* kernel, const std::string& more = "") {
  return absl::StrCat("{", preset, ": {acquisition: ", acquisition, ", kernel: ", kernel, ", ", kThesis,
                      more.empty() ? "" : ", ", more, "}}");
}

constexpr char kMcmc[] = "hyperparameters: MCMC";
constexpr char kOldTs[] = "sampler: FOURIER, hyperparameters: MCMC";
constexpr char kKnown[] = "growth: KNOWN, lipschitz_constant: {L}";
constexpr char kHuge[] = "beta_schedule: BETA_CONSTANT, beta: 1e16";

std::vector<Setting> MakeSettings() {
  std::vector<Setting> s;
  s.push_back({"random", "random", Slopes::kNone, {}});
  s.push_back({"tpe", "tpe", Slopes::kNone, {}});
  s.push_back({"grid5", "{grid: {levels: 5, centres: true}}", Slopes::kNone, {}});
  const struct {
    const char* name;
    const char* value;
  } acquisitions[] = {{"ei", "EI"}, {"pi", "PI"}, {"ucb", "UCB"}, {"ts", "TS"}};
  for (const auto& a : acquisitions) {
    const std::string name = a.name;
    auto add = [&](const std::string& setting, const std::string& algorithm) {
      s.push_back({setting, algorithm, Slopes::kNone, {}});
    };
    // Chapter 4: squared exponential; bo alone, and harmless.
    add("se-bo-" + name, Thesis("bo", a.value, "SE"));
    add("se-hbo-" + name, Thesis("hbo", a.value, "SE"));
    const bool ts = name == "ts";
    add("se-bo-" + name + "-old", Thesis("bo", a.value, "SE", ts ? kOldTs : kMcmc));
    add("se-hbo-" + name + "-old", Thesis("hbo", a.value, "SE", ts ? kOldTs : kMcmc));
    if (!ts) {
      s.push_back({"se-g-" + name, Thesis("fobo", a.value, "SE", "gradients: FULL"), Slopes::kFull, {}});
      s.push_back({"se-d-" + name, Thesis("fobo", a.value, "SE", "gradients: DIRECTIONAL"), Slopes::kDirectional, {}});
    }
    // Chapter 5: Matern-5/2; all explore every fourth trial. Without bounds, with estimated and with known ones.
    const std::string accept = name == "ucb" ? "lipschitz: ACCEPT_REJECT" : "";  // The preset takes the cap.
    auto with = [](const std::string& x, const std::string& y) {
      return absl::StrCat(x, x.empty() || y.empty() ? "" : ", ", y);
    };
    add("m-hbo-" + name, Thesis("hbo", a.value, "MATERN52"));
    add("m-lbo-" + name, Thesis("lbo", a.value, "MATERN52", accept));
    add("m-lbo-" + name + "-true", Thesis("lbo", a.value, "MATERN52", with(accept, kKnown)));
    if (name != "pi") {
      const std::string old = ts ? kOldTs : kMcmc;
      add("m-hbo-" + name + "-old", Thesis("hbo", a.value, "MATERN52", old));
      add("m-lbo-" + name + "-old", Thesis("lbo", a.value, "MATERN52", with(old, accept)));
    }
    // Our own defaults.
    add("own-hbo-" + name, absl::StrCat("{hbo: {acquisition: ", a.value, "}}"));
    add("own-lbo-" + name, absl::StrCat("{lbo: {acquisition: ", a.value, accept.empty() ? "" : ", ", accept, "}}"));
  }
  auto add = [&](const std::string& setting, const std::string& algorithm, Slopes slopes = Slopes::kNone) {
    s.push_back({setting, algorithm, slopes, {}});
  };
  add("own-bo", "bo");
  add("own-hbo", "hbo");
  add("own-bo-ei", "{bo: {acquisition: EI}}");
  add("m-bo-ei", Thesis("bo", "EI", "MATERN52"));
  add("m-bo-ei-old", Thesis("bo", "EI", "MATERN52", kMcmc));
  add("m-bo-logei-lbfgs", "{bo: {kernel: MATERN52, warp: WARP_NONE, prior: THESIS, trust_region: TRUST_REGION_OFF}}");
  add("se-hbo-ei-farthest", Thesis("hbo", "EI", "SE", "exploration: FARTHEST"));
  add("m-lbo-ts-true-old", Thesis("lbo", "TS", "MATERN52", absl::StrCat(kOldTs, ", ", kKnown)));
  for (const char* beta : {"KANDASAMY17", "DRAGONFLY"}) {
    const std::string name = beta[0] == 'K' ? "k17" : "dragonfly";
    const std::string schedule = absl::StrCat("beta_schedule: ", beta);
    add("m-hbo-ucb-" + name, Thesis("hbo", "UCB", "MATERN52", schedule));
    add("m-lbo-ucb-" + name, Thesis("lbo", "UCB", "MATERN52", absl::StrCat(schedule, ", lipschitz: ACCEPT_REJECT")));
  }
  add("m-bo-ucb-huge", Thesis("bo", "UCB", "MATERN52", kHuge));
  add("m-lbo-ucb-huge", Thesis("lbo", "UCB", "MATERN52", absl::StrCat(kHuge, ", lipschitz: ACCEPT_REJECT")));
  add("m-lbo-ucb-huge-cap", Thesis("lbo", "UCB", "MATERN52", kHuge));
  add("m-lbo-ucb-huge-true",
      Thesis("lbo", "UCB", "MATERN52", absl::StrCat(kHuge, ", lipschitz: ACCEPT_REJECT, ", kKnown)));
  s.push_back({"textbook", "", Slopes::kNone, TextbookOptions{}});
  s.push_back({"textbook-raw", "", Slopes::kNone, TextbookOptions{.standardize = false}});
  s.push_back({"textbook-zero-mean", "", Slopes::kNone, TextbookOptions{.constant_mean = false}});
  s.push_back({"textbook-repeat", "", Slopes::kNone, TextbookOptions{.replace_stuck = false}});
  std::sort(s.begin(), s.end(), [](const Setting& a, const Setting& b) { return a.name < b.name; });
  return s;
}

std::vector<std::string> Join(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> Plane() {
  return {"branin", "camel", "goldstein_price", "michalewicz2", "rosenbrock2"};
}

std::vector<Experiment> MakeExperiments() {
  const std::vector<std::string> functions = TestFunctionNames();
  std::vector<std::string> robots;
  for (const std::string& task : TaskNames()) {
    if (task.rfind("robot", 0) == 0) robots.push_back(task);
  }
  std::vector<Experiment> e;
  auto each = [](const std::string& prefix, const std::vector<std::string>& acquisitions,
                 const std::string& suffix = "") {
    std::vector<std::string> names;
    for (const std::string& acquisition : acquisitions) names.push_back(absl::StrCat(prefix, acquisition, suffix));
    return names;
  };
  const std::vector<std::string> improving = {"ei", "pi", "ucb"}, acquisitions = {"ei", "pi", "ucb", "ts"};
  const std::vector<std::string> fifteen = Join(Join(functions, robots), {"logistic"});
  const std::vector<std::string> smooth = {"branin", "camel", "hartmann3", "rosenbrock2", "rosenbrock3"};
  const std::vector<std::string> hard = {"branin",       "goldstein_price", "michalewicz2",
                                         "michalewicz5", "rosenbrock3",     "hartmann6"};
  const std::vector<std::string> shown = {"branin", "goldstein_price", "michalewicz2", "hartmann6"};
  // Chapter 4.
  e.push_back({"CS2", {"random"}, smooth, 100});
  e.push_back({"CS2", each("se-bo-", improving), smooth, 100});
  e.push_back({"CS18", {"random"}, functions, 200});
  e.push_back({"CS18", each("se-bo-", acquisitions), functions, 100});
  e.push_back({"CS5", each("se-bo-", improving), functions, 100});
  e.push_back({"CS5", each("se-hbo-", improving), functions, 100});
  e.push_back({"CS3", {"random", "se-bo-ts-old", "se-bo-ts"}, functions, 100});
  e.push_back({"CS4", {"random", "se-hbo-ts-old", "se-hbo-ts"}, functions, 100});
  // Chapter 5.
  for (const std::string& a : acquisitions) e.push_back({"CS9", {"m-hbo-" + a, "m-lbo-" + a}, fifteen, 100});
  e.push_back({"CS9", {"random"}, Join(robots, {"logistic", "logistic_log"}), 100});
  e.push_back({"CS9", {"m-hbo-ei", "m-lbo-ei"}, {"logistic_log"}, 100});
  e.push_back({"CS7", {"m-hbo-ts-old", "m-lbo-ts-old"}, Join(hard, robots), 100});
  e.push_back({"CS7", {"m-lbo-ts-true-old"}, {"michalewicz5", "rosenbrock3"}, 100});
  e.push_back({"CS7", Join(each("m-hbo-", acquisitions), each("m-lbo-", acquisitions)), {"michalewicz5"}, 100});
  e.push_back({"CS10", {"m-hbo-ts", "m-lbo-ts"}, {"goldstein_price"}, 100});
  e.push_back({"CS10", Join(each("m-hbo-", improving), each("m-lbo-", improving)), robots, 100});
  e.push_back({"CS12",
               {"random", "m-bo-ucb-huge", "m-lbo-ucb-huge", "m-lbo-ucb-huge-cap", "m-lbo-ucb-huge-true"},
               functions,
               100});
  for (const std::string& a : acquisitions) {
    e.push_back({"CS11", {"m-hbo-" + a, "m-lbo-" + a, "m-lbo-" + a + "-true"}, functions, 100});
  }
  // Exploration, ingredients, our own defaults.
  e.push_back({"CS6", {"se-hbo-ei", "se-hbo-ei-farthest"}, functions, 100});
  e.push_back({"CS17", {"textbook", "textbook-repeat"}, functions, 100});
  e.push_back({"CS16", {"textbook", "textbook-raw", "textbook-zero-mean", "m-bo-ei", "se-bo-ei"}, functions, 100});
  // First order. A gradient has d + 1 rows in the model: 34 iterations are what 100 evaluations by differences buy in
  // 2-D.
  const std::vector<std::string> plain = each("se-bo-", improving), full = each("se-g-", improving);
  const std::vector<std::string> directional = each("se-d-", improving);
  e.push_back({"CS13", Join(plain, full), functions, 34});
  e.push_back({"CS14", Join(plain, full), functions, 34});
  e.push_back({"CS14", directional, functions, 50});
  e.push_back({"CS15", plain, functions, 100});
  e.push_back({"CS15", full, functions, 34});
  e.push_back({"CS15", directional, functions, 50});
  // As many evaluations as a grid of five by five.
  e.push_back({"CS20", {"random", "grid5", "tpe", "se-bo-ei"}, Plane(), 25});
  e.push_back({"CS20", {"random", "tpe"}, {"additive32"}, 200});
  e.push_back({"Harmless", {"random", "own-bo", "own-hbo"}, functions, 200});
  for (const std::string& a : acquisitions) {
    e.push_back({"Bounds", {"own-hbo-" + a, "own-lbo-" + a, "m-hbo-" + a, "m-lbo-" + a}, functions, 100});
  }
  e.push_back({"CS8",
               {"m-hbo-ucb", "m-lbo-ucb", "m-hbo-ucb-k17", "m-lbo-ucb-k17", "m-hbo-ucb-dragonfly",
                "m-lbo-ucb-dragonfly", "m-hbo-ucb-old", "m-lbo-ucb-old"},
               {"rosenbrock5"},
               100});
  e.push_back({"CS8", {"m-hbo-ei", "m-lbo-ei", "m-hbo-ei-old", "m-lbo-ei-old"}, {"goldstein_price", "hartmann3"}, 100});
  e.push_back({"CS1",
               {"own-bo-ei", "own-bo", "se-bo-ei", "m-bo-ei", "m-bo-logei-lbfgs", "se-bo-ei-old"},
               {"rosenbrock2"},
               200});
  e.push_back({"CS16", {"m-bo-ei-old"}, functions, 100});
  // The other acquisitions under the full old recipe: for the figures.
  e.push_back({"CS5", Join(each("se-bo-", improving, "-old"), each("se-hbo-", improving, "-old")), shown, 100});
  return e;
}

}  // namespace

bool IsSlow(const Setting& setting) {
  return setting.algorithm.find("MCMC") != std::string::npos;
}

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>& settings = *new std::vector<Setting>(MakeSettings());
  return settings;
}

const std::vector<Experiment>& Experiments() {
  static const std::vector<Experiment>& experiments = *new std::vector<Experiment>(MakeExperiments());
  return experiments;
}

}  // namespace luthier::reproduce
