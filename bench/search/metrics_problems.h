#ifndef LUTHIER_BENCH_SEARCH_METRICS_PROBLEMS_H_
#define LUTHIER_BENCH_SEARCH_METRICS_PROBLEMS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

// Problems of several metrics from the literature, as BoTorch 0.18.1 has them (botorch.test_functions). All objectives
// are minimized; a constraint is kept where its value is at most 0.
namespace luthier {

struct MetricsProblem {
  std::string name;
  std::vector<std::pair<double, double>> box;
  int objectives = 1;
  int constraints = 0;
  std::vector<double> reference;  // Of several objectives: values beyond which they are worth nothing.
  // Returns the objectives, then the constraints.
  std::function<std::vector<double>(const std::vector<double>&)> f;
};

//   branin_currin    2 parameters, 2 objectives; hypervolume at most 59.36
//   vehicle_safety   5 parameters, 3 objectives; at most 246.8
//   dtlz2            6 parameters, 3 objectives; at most 0.807
//   dtlz2_5          8 parameters, 5 objectives
//   osy              6 parameters, 2 objectives, 2 constraints; for the time of an ask
//   tension_string   3 parameters, 4 constraints; least 0.012665
//   welded_beam      4 parameters, 6 constraints; least 1.7249
//   speed_reducer    7 parameters, 11 constraints, of which the last five are one metric: their largest; least
//   2996.3482
std::vector<MetricsProblem> MetricsProblems();

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_METRICS_PROBLEMS_H_
