#ifndef LUTHIER_CLIENT_CLI_SHOW_H_
#define LUTHIER_CLIENT_CLI_SHOW_H_

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "client/cli/table.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/trial.pb.h"

// Studies and trials as output. The JSON forms are promises to scripts (docs/reference/cli.md): fields are added, never
// renamed.
namespace luthier::cli {

// Returns "[0.6, -0.8]": a direction as JSON, and as the command line takes it.
std::string DirectionText(const google::protobuf::RepeatedField<double>& direction);

// Returns the last part of a resource name.
std::string IdOf(const v1::Study& study);

// "projects/default/studies/s/trials/3": the name of a trial as the API has it.

// Returns the state's name; "DAMAGED" if the coordinator can't say it.
std::string StudyStateText(const v1::Study& study);

// Returns the message (lib/wire/json.h) with "id" in front.
nlohmann::ordered_json StudyJson(const v1::Study& study);
// Returns number, state, parameters, metrics (of the final measurement; {} without one), step, elapsed_seconds,
// gradient_seconds, gradient, training (outcome in lower case, gradient_norm, duality_gap), gradient_set_aside,
// failure, attempts, provenance, checkpoint, attributes, create_time, end_time, name; measurements if they were asked
// for.
nlohmann::ordered_json TrialJson(const v1::Trial& trial);

// Returns JSON as it is printed, in one line or indented. Characters that control a terminal, or are invisible, are
// escaped.
std::string JsonText(const nlohmann::ordered_json& value, int indent = -1);
void PrintJson(std::ostream& out, const nlohmann::ordered_json& value);

Table StudyTable(const std::vector<v1::Study>& studies);
// Returns a table with the columns number, state, metrics (the study's first), parameters in the order of the space,
// training (if a trial says how its training ended), attempts, origin, worker, note. A metric with the name of a
// parameter gets the prefix "metric.". `wide`: a column for each number of a vector parameter; else its minimum, median
// and maximum.
Table TrialTable(const v1::StudySpec& spec, const std::vector<v1::Trial>& trials, bool wide = false);

// Prints the algorithm that the service chose for `study`, and why. Prints nothing if the study names its algorithm.
void PrintResolution(std::ostream& out, const v1::Study& study);
// Prints the algorithm's name and the first reason in one line.
void PrintChoice(std::ostream& out, const v1::Study& study);
// The amount of detail that people want to see.
struct Detail {
  bool verbose = false;  // Also chosen defaults and origins, and other details of algorithm and solver.
  bool wide = false;     // All numbers of vector parameters, however many.
};

// Prints a study or a trial for people: a line that sums it up, then the details.
void PrintStudy(std::ostream& out, const v1::Study& study, Detail detail = {});
void PrintTrial(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial, Detail detail = {});
// Returns the end of a failed trial's message, indented: at most ten lines.
std::string FailureText(const v1::Trial& trial);
// Prints why the setting of a trial was tried, and how it turned out.
void PrintExplanation(std::ostream& out, const v1::ExplainTrialResponse& explained, Detail detail = {});
// Returns one event of a study for people, without a line end: seconds, six digits. `colour`: with the escape sequences
// of a terminal.
std::string EventLine(const v1::Event& event, bool colour);

// Returns "40/100 done, best 0.123 (trial 17), 2 running, 1 failed".
std::string Summary(const v1::Study& study);
// Returns "12 trials on the front, hypervolume 0.83 beyond accuracy 0.5, energy 40".
std::string FrontText(const v1::Study& study);
// Returns the names of the study's metrics: those of `metrics`, or that of `metric`.
std::vector<std::string> MetricNames(const v1::StudySpec& spec);

// Returns why a front has no hypervolume; "" if it has one, or there is no front.
std::string HypervolumeNote(const v1::Study& study);
// Returns how many results are beyond the bounds of the study's metrics, or which comes nearest; "" if none is beyond.
std::string BoundsText(const v1::Study& study);
// Says which trial is recommended where results are noisy, and why; "" where none is.
std::string RecommendationText(const v1::Study& study);
// Returns how much of the space constraints on parameters leave: "12.3 % of random settings keep the constraints"; ""
// without any.
std::string LegalShareText(const v1::Study& study);
// Returns trainings by how they ended, "37 converged, 1 precision, 2 limit"; "" if no trial says.
std::string TrainingsText(const v1::TrainingCounts& counts);
// Returns a sentence for people: "2 of 40 trainings ended at their limit (max_iterations): their losses are not those
// of the optimum"; "" if none did.
std::string LimitWarning(const v1::Study& study);
// Returns the number of final trials.
int64_t DoneTrials(const v1::TrialCounts& counts);
// True if nothing will change any more: the study is finished, and no trial is open.
bool IsOver(const v1::Study& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_SHOW_H_
