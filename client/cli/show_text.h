#ifndef LUTHIER_CLIENT_CLI_SHOW_TEXT_H_
#define LUTHIER_CLIENT_CLI_SHOW_TEXT_H_

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/table.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/trial.pb.h"

// Pieces of which show.h makes its output.
namespace luthier::cli {

// Sorts the entries: Protobuf's maps have no order.
template <typename Map>
auto Sorted(const Map& map) {
  return std::map<std::string, typename Map::mapped_type>(map.begin(), map.end());
}

// Returns a time of UTC by the second; "" for one that is malformed.
std::string ShortTime(const google::protobuf::Timestamp& timestamp);
// Returns a parameter's value with all digits, as a cell of a table.
Cell ValueCell(const google::protobuf::Value& value);
// `values` must not be empty.
double MedianOf(std::vector<double> values);
// Returns the outcome as people and scripts write it: "converged".
std::string OutcomeText(const v1::Training& training);
// Returns why the trial is not simply COMPLETE.
std::string Note(const v1::Trial& trial);
std::string Indented(absl::string_view text);
// Prints nothing for an empty map. `exact`: all digits, else six.
void PrintMap(std::ostream& out, const char* title, const std::map<std::string, double>& values, bool exact = true);
// Returns "epochs", "steps", ….
std::string UnitOf(const v1::StudySpec& spec);
// Returns names in the order of the space, then those that only trials have.
std::vector<std::string> ParameterNames(const v1::StudySpec& spec, const std::vector<const v1::Trial*>& trials);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_SHOW_TEXT_H_
