#ifndef LUTHIER_CLIENT_CLI_COMMANDS_COMMANDS_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_COMMANDS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

// The handlers of the verbs (verbs/ has the tables). Each returns the exit code; an error goes through Explain.
namespace luthier::cli {

using Handler = absl::StatusOr<int> (*)(Context& context);

absl::StatusOr<int> Run(Context& context);
absl::StatusOr<int> Ui(Context& context);

absl::StatusOr<int> StudyCreate(Context& context);
absl::StatusOr<int> StudyPreview(Context& context);
absl::StatusOr<int> StudyList(Context& context);
absl::StatusOr<int> StudyGet(Context& context);
absl::StatusOr<int> StudyImportance(Context& context);
absl::StatusOr<int> StudyPredict(Context& context);
absl::StatusOr<int> ServerInfo(Context& context);
absl::StatusOr<int> AdminPkiInit(Context& context);
absl::StatusOr<int> AdminPkiIssue(Context& context);
absl::StatusOr<int> AdminTokenCreate(Context& context);
absl::StatusOr<int> AdminTokenList(Context& context);
absl::StatusOr<int> AdminTokenRotate(Context& context);
absl::StatusOr<int> AdminTokenRevoke(Context& context);
absl::StatusOr<int> AdminProjectCreate(Context& context);
absl::StatusOr<int> AdminProjectUpdate(Context& context);
absl::StatusOr<int> AdminProjectList(Context& context);
absl::StatusOr<int> AdminAudit(Context& context);
absl::StatusOr<int> AdminBackup(Context& context);
absl::StatusOr<int> AdminRestore(Context& context);
absl::StatusOr<int> AdminDoctor(Context& context);
absl::StatusOr<int> Health(Context& context);
absl::StatusOr<int> StudyUpdate(Context& context);
absl::StatusOr<int> StudyImport(Context& context);
absl::StatusOr<int> StudyExport(Context& context);
absl::StatusOr<int> StudyClone(Context& context);
absl::StatusOr<int> StudySchema(Context& context);
absl::StatusOr<int> StudyWatch(Context& context);
absl::StatusOr<int> StudyWait(Context& context);
absl::StatusOr<int> StudyPause(Context& context);
absl::StatusOr<int> StudyResume(Context& context);
absl::StatusOr<int> StudyStop(Context& context);
absl::StatusOr<int> StudyCancel(Context& context);
absl::StatusOr<int> StudyDelete(Context& context);
absl::StatusOr<int> StudyUndelete(Context& context);

absl::StatusOr<int> PlotHistory(Context& context);
absl::StatusOr<int> PlotFront(Context& context);
absl::StatusOr<int> PlotSlice(Context& context);
absl::StatusOr<int> PlotContour(Context& context);
absl::StatusOr<int> PlotImportance(Context& context);
absl::StatusOr<int> PlotParallel(Context& context);
absl::StatusOr<int> PlotCurves(Context& context);
absl::StatusOr<int> PlotTimeline(Context& context);
absl::StatusOr<int> PlotEdf(Context& context);

absl::StatusOr<int> TrialList(Context& context);
absl::StatusOr<int> TrialGet(Context& context);
absl::StatusOr<int> TrialBest(Context& context);
absl::StatusOr<int> TrialExplain(Context& context);
absl::StatusOr<int> TrialAdd(Context& context);
absl::StatusOr<int> TrialCancel(Context& context);
absl::StatusOr<int> TrialStop(Context& context);
absl::StatusOr<int> WorkerList(Context& context);
absl::StatusOr<int> WorkerUp(Context& context);
absl::StatusOr<int> WorkerStatus(Context& context);
absl::StatusOr<int> WorkerLogs(Context& context);
absl::StatusOr<int> WorkerDown(Context& context);
absl::StatusOr<int> TrialRetry(Context& context);
absl::StatusOr<int> TrialDelete(Context& context);
absl::StatusOr<int> TrialNote(Context& context);
absl::StatusOr<int> TrialImport(Context& context);
absl::StatusOr<int> TrialCommand(Context& context);

absl::StatusOr<int> Ask(Context& context);
absl::StatusOr<int> Tell(Context& context);
absl::StatusOr<int> Report(Context& context);

absl::StatusOr<int> ModelTrain(Context& context);
absl::StatusOr<int> ModelShow(Context& context);
absl::StatusOr<int> ModelPredict(Context& context);
absl::StatusOr<int> ModelEvaluate(Context& context);

absl::StatusOr<int> Bilevel(Context& context);

absl::StatusOr<int> Simulate(Context& context);
absl::StatusOr<int> Objectives(Context& context);
absl::StatusOr<int> ObjectivesDescribe(Context& context);
absl::StatusOr<int> Algorithms(Context& context);
absl::StatusOr<int> VerifyReplayVerb(Context& context);
absl::StatusOr<int> Version(Context& context);

// Changes the fields of the study that differ in `spec` and may change. An error if others differ.
absl::StatusOr<v1::Study> UpdateToFile(client::Client& client, const v1::Study& study, const v1::StudySpec& spec);

// Prints the answer of a verb that changes a study. Returns the exit code.
int PrintChanged(Context& context, const v1::Study& study);

// Returns the setting that --file and --set give.
absl::StatusOr<study::Parameters> GivenSetting(Context& context);
// Reads "NAME=VALUE" texts of `option`. A usage error for others, and for a name that is there twice.
absl::StatusOr<std::map<std::string, std::string>> ParsePairs(const char* option,
                                                              const std::vector<std::string>& texts);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_COMMANDS_H_
