#ifndef LUTHIER_CLIENT_CLI_VERBS_VERBS_H_
#define LUTHIER_CLIENT_CLI_VERBS_VERBS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/commands/commands.h"
#include "client/cli/options.h"
#include "lib/command_line/command_line.h"

// The verbs of luthier: words, help, options and handlers. These files and cli.cc are the only ones that use the
// command-line library.
namespace luthier::cli {

struct Verb {
  std::vector<std::string> path;  // As "study", "list".
  const char* what;
  const char* example;
  void (*add_options)(CLI::App& app, Options& options);
  Handler handler;
};

// Returns the verbs of all parts, in order.
std::vector<Verb> Joined(std::initializer_list<std::vector<Verb>> parts);

// Help shows them in this order.
std::vector<Verb> StudyVerbs();
std::vector<Verb> PlotVerbs();
std::vector<Verb> TrialVerbs();
std::vector<Verb> WorkerVerbs();
std::vector<Verb> ModelVerbs();
std::vector<Verb> AdminVerbs();

// Adds options that several verbs have.
void None(CLI::App& app, Options& o);
void Study(CLI::App& app, Options& o);
void StudyAndTrial(CLI::App& app, Options& o);
// `until` says when watching ends: "until interrupted".
void Watch(CLI::App& app, Options& o, const char* until);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_VERBS_VERBS_H_
