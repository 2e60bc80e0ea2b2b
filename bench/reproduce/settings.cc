#include "bench/reproduce/settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace luthier::reproduce {
namespace {

// The thesis' optimizer: one kernel, no warp, no local steps, Spearmint's prior, DIRECT; any improvement counts (4.3).
constexpr char kThesis[] =
    "warp: WARP_NONE, prior: THESIS, maximizer: DIRECT, trust_region: TRUST_REGION_OFF, improvement: 0";

// `more` is added to the expert options, `gradients` to the others.
std::string Thesis(const char* preset, const char* acquisition, const char* kernel, const std::string& more = "",
                   const std::string& gradients = "") {
  return absl::StrCat("{", preset, ": {acquisition: ", acquisition, gradients.empty() ? "" : ", gradients: ", gradients,
                      ", expert: {kernel: ", kernel, ", ", kThesis, more.empty() ? "" : ", ", more, "}}}");
}

constexpr char kMcmc[] = "hyperparameters: MCMC";
constexpr char kMcmcTs[] = "sampler: FOURIER, hyperparameters: MCMC";
constexpr char kKnown[] = "growth: KNOWN, lipschitz_constant: {L}";
constexpr char kHuge[] = "beta_schedule: BETA_CONSTANT, beta: 1e16";

std::vector<Setting> MakeSettings() {
  std::vector<Setting> s;
  s.push_back({"random", "random", Slopes::kNone, {}});
  s.push_back({"tpe", "tpe", Slopes::kNone, {}});
  s.push_back({"grid5", "{grid: {levels: 5, expert: {centres: true}}}", Slopes::kNone, {}});
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
    add("se-bo-" + name + "-mcmc", Thesis("bo", a.value, "SE", ts ? kMcmcTs : kMcmc));
    add("se-hbo-" + name + "-mcmc", Thesis("hbo", a.value, "SE", ts ? kMcmcTs : kMcmc));
    if (!ts) {
      s.push_back({"se-g-" + name, Thesis("fobo", a.value, "SE", "", "FULL"), Slopes::kFull, {}});
      s.push_back({"se-d-" + name, Thesis("fobo", a.value, "SE", "", "DIRECTIONAL"), Slopes::kDirectional, {}});
      s.push_back({"se-g-" + name + "-mcmc", Thesis("fobo", a.value, "SE", kMcmc, "FULL"), Slopes::kFull, {}});
      s.push_back(
          {"se-d-" + name + "-mcmc", Thesis("fobo", a.value, "SE", kMcmc, "DIRECTIONAL"), Slopes::kDirectional, {}});
    }
    // Chapter 5: Matern-5/2; all explore every fourth trial. Without bounds, with estimated and with known ones.
    const std::string accept = name == "ucb" ? "lipschitz: ACCEPT_REJECT" : "";  // The preset takes the cap.
    auto with = [](const std::string& x, const std::string& y) {
      return absl::StrCat(x, x.empty() || y.empty() ? "" : ", ", y);
    };
    add("m-hbo-" + name, Thesis("hbo", a.value, "MATERN52"));
    add("m-lbo-" + name, Thesis("lbo", a.value, "MATERN52", accept));
    add("m-lbo-" + name + "-true", Thesis("lbo", a.value, "MATERN52", with(accept, kKnown)));
    const std::string mcmc = ts ? kMcmcTs : kMcmc;
    add("m-hbo-" + name + "-mcmc", Thesis("hbo", a.value, "MATERN52", mcmc));
    add("m-lbo-" + name + "-mcmc", Thesis("lbo", a.value, "MATERN52", with(mcmc, accept)));
    add("m-lbo-" + name + "-true-mcmc", Thesis("lbo", a.value, "MATERN52", with(mcmc, with(accept, kKnown))));
    // Our own defaults.
    add("own-hbo-" + name, absl::StrCat("{hbo: {acquisition: ", a.value, "}}"));
    add("own-lbo-" + name, absl::StrCat("{lbo: {acquisition: ", a.value, ", expert: {", accept, "}}}"));
  }
  auto add = [&](const std::string& setting, const std::string& algorithm, Slopes slopes = Slopes::kNone) {
    s.push_back({setting, algorithm, slopes, {}});
  };
  add("own-bo", "bo");
  add("own-hbo", "hbo");
  add("own-bo-ei", "{bo: {acquisition: EI}}");
  add("m-bo-ei", Thesis("bo", "EI", "MATERN52"));
  add("m-bo-ei-mcmc", Thesis("bo", "EI", "MATERN52", kMcmc));
  add("m-bo-logei-lbfgs",
      "{bo: {expert: {kernel: MATERN52, warp: WARP_NONE, prior: THESIS, trust_region: TRUST_REGION_OFF}}}");
  add("se-hbo-ei-farthest", Thesis("hbo", "EI", "SE", "exploration: FARTHEST"));
  add("se-hbo-ei-farthest-mcmc", Thesis("hbo", "EI", "SE", absl::StrCat("exploration: FARTHEST, ", kMcmc)));
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

}  // namespace

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>& settings = *new std::vector<Setting>(MakeSettings());
  return settings;
}

}  // namespace luthier::reproduce
