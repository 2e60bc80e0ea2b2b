#include "tests/server/coordinator/explorer.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "tests/server/coordinator/explorer_world.h"

namespace luthier::coordinator::testing {

using Action = ExplorerWorld::Action;

ExplorerReport Explore(const ExplorerOptions& options) {
  struct Node {
    int parent = -1;
    Action action;
    int depth = 0;
  };
  ExplorerReport report;
  std::vector<Node> nodes;
  std::unordered_set<uint64_t> seen;  // Hashes: 64 bits are enough for a few million states.
  const auto path_to = [&](int node) {
    std::vector<Action> path;
    for (; nodes[static_cast<size_t>(node)].parent >= 0; node = nodes[static_cast<size_t>(node)].parent) {
      path.push_back(nodes[static_cast<size_t>(node)].action);
    }
    std::reverse(path.begin(), path.end());
    return path;
  };
  const auto arrive = [&](const std::vector<Action>& path) {
    auto world = std::make_unique<ExplorerWorld>(options);
    for (const Action& action : path) world->Do(action);
    return world;
  };
  const auto violated = [&](const std::string& what, const std::vector<Action>& path) {
    report.violation = what;
    for (const Action& action : path) absl::StrAppend(&report.violation, "\n  ", ExplorerWorld::Name(action));
    return report;
  };

  nodes.push_back({});
  seen.insert(base::Hash64(ExplorerWorld(options).State()));
  for (size_t next = 0; next < nodes.size(); ++next) {
    const std::vector<Action> path = path_to(static_cast<int>(next));
    const std::unique_ptr<ExplorerWorld> here = arrive(path);
    const std::vector<Action> enabled = here->Enabled();
    here->Check();
    if (here->violation().empty()) here->FinishAll();
    if (!here->violation().empty()) return violated(here->violation(), path);
    for (const Action& action : enabled) {
      ++report.transitions;
      const std::unique_ptr<ExplorerWorld> there = arrive(path);
      there->Do(action);
      if (!there->violation().empty()) {
        std::vector<Action> longer = path;
        longer.push_back(action);
        return violated(there->violation(), longer);
      }
      if (!seen.insert(base::Hash64(there->State())).second) continue;
      nodes.push_back({static_cast<int>(next), action, nodes[next].depth + 1});
    }
    report.states = static_cast<int64_t>(next) + 1;
    report.max_depth = nodes[next].depth;
    if (report.states >= options.max_states) return report;
  }
  report.complete = true;
  return report;
}

}  // namespace luthier::coordinator::testing
