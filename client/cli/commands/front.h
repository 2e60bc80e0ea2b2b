#ifndef LUTHIER_CLIENT_CLI_COMMANDS_FRONT_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_FRONT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/options.h"
#include "client/cpp/client.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/trial.pb.h"

// The front of a study of several objectives, and choices among its trials.
namespace luthier::cli {

bool HasSeveralObjectives(const v1::StudySpec& spec);

// Returns the trials of the front, the best of the first objective first, at most `most`. FAILED_PRECONDITION if there
// are none, or too many to be listed. `study` is the reply of GetStudy.
absl::StatusOr<std::vector<v1::Trial>> FrontTrials(client::Client& client, const v1::Study& study, size_t most);

struct Choice {
  std::vector<v1::Trial> trials;
  bool one = false;  // The options ask for one trial; else for as many as there are, which may be one.
};

// Returns the trials of the front that the options --at-most, --at-least and --pick choose: all that are within the
// bounds; the one that is best in the remaining objective if bounds are on all others; the best compromise with --pick
// knee. Errors name the option.
absl::StatusOr<Choice> ChooseOnFront(const Options& options, const v1::Study& study, std::vector<v1::Trial> front);

// Returns why no trial is the best: "no trial is COMPLETE yet", or that none meets the bounds, and which comes nearest.
absl::Status NoBestTrial(const v1::Study& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_FRONT_H_
