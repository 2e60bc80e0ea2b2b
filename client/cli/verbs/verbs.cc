#include "client/cli/verbs/verbs.h"

#include "absl/strings/str_cat.h"
#include "lib/command_line/command_line.h"

namespace luthier::cli {

std::vector<Verb> Joined(std::initializer_list<std::vector<Verb>> parts) {
  std::vector<Verb> verbs;
  for (const std::vector<Verb>& part : parts) verbs.insert(verbs.end(), part.begin(), part.end());
  return verbs;
}

void None(CLI::App&, Options&) {}

void Study(CLI::App& app, Options& o) {
  app.add_option("STUDY", o.study, "Id of the study")->required();
}

void StudyAndTrial(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("TRIAL", o.trial, "Number of the trial")->required()->check(command_line::AtLeastOne());
}

void Watch(CLI::App& app, Options& o, const char* until) {
  app.add_flag("-w,--watch", o.watch, absl::StrCat("Print again what changes, ", until));
}

}  // namespace luthier::cli
