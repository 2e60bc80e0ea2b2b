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

// "[0.6, -0.8]": a direction as JSON, and as the command line takes it.
std::string DirectionText(const google::protobuf::RepeatedField<double>& direction);

// The last part of a resource name.
std::string IdOf(const v1::Study& study);

// "projects/default/studies/s/trials/3": the name of a trial as the API has it.

// The state's name; "DAMAGED" where the coordinator can't say it.
std::string StudyStateText(const v1::Study& study);

// The message (lib/wire/json.h) with "id" in front.
nlohmann::ordered_json StudyJson(const v1::Study& study);
// number, state, parameters, metrics (of the final measurement; {} without one), step, elapsed_seconds,
// gradient_seconds, gradient, training (outcome in lower case, gradient_norm, duality_gap), gradient_set_aside,
// failure, attempts, provenance, checkpoint, attributes, create_time, end_time, name; measurements where asked for.
nlohmann::ordered_json TrialJson(const v1::Trial& trial);

// JSON as it is printed, in one line or indented. Characters that a terminal obeys or hides are escapes in it.
std::string JsonText(const nlohmann::ordered_json& value, int indent = -1);
void PrintJson(std::ostream& out, const nlohmann::ordered_json& value);

Table StudyTable(const std::vector<v1::Study>& studies);
// Columns: number, state, metrics (the study's first), parameters in the order of the space, training (where a trial
// says how its training ended), attempts, origin, worker, note. A metric that is called as a parameter gets the prefix
// "metric.".
// `wide`: a column for each number of a vector parameter; else its least, its median and its largest.
Table TrialTable(const v1::StudySpec& spec, const std::vector<v1::Trial>& trials, bool wide = false);

// Prints the algorithm that the service chose for `study`, and why. Prints nothing if the study names its algorithm.
void PrintResolution(std::ostream& out, const v1::Study& study);
// The same in one line: the algorithm's name and the first reason.
void PrintChoice(std::ostream& out, const v1::Study& study);
// The detail that people want to see.
struct Detail {
  bool verbose = false;  // With what algorithm and solver keep to themselves.
  bool wide = false;     // All numbers of vector parameters, however many.
};

// For people: a line that sums up a study or a trial, then what there is to know of it.
void PrintStudy(std::ostream& out, const v1::Study& study, Detail detail = {});
void PrintTrial(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial, Detail detail = {});
// The end of a failed trial's message, indented: at most ten lines.
std::string FailureText(const v1::Trial& trial);
// Prints why the setting of a trial was tried, and how it turned out.
void PrintExplanation(std::ostream& out, const v1::ExplainTrialResponse& explained, Detail detail = {});
// Returns one event of a study for people, without a line end: seconds, six digits. `colour`: with the escape sequences
// of a terminal.
std::string EventLine(const v1::Event& event, bool colour);

// "40/100 done, best 0.123 (trial 17), 2 running, 1 failed".
std::string Summary(const v1::Study& study);
// "37 converged, 1 precision, 2 limit": trainings by how they ended; "" where no trial says.
std::string TrainingsText(const v1::TrainingCounts& counts);
// "2 of 40 trainings ended at their limit (max_iterations): their losses are not those of the optimum": a sentence for
// people; "" where none did.
std::string LimitWarning(const v1::Study& study);
// Trials that are final.
int64_t DoneTrials(const v1::TrialCounts& counts);
// Nothing will change any more: finished, and no trial is open.
bool IsOver(const v1::Study& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_SHOW_H_
