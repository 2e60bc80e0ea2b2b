#include "client/cli/verbs/verbs.h"

#include <sstream>

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

CLI::Option* Duration(CLI::App& app, const char* name, absl::Duration* duration, const char* what) {
  const auto parse = [duration](const std::string& text) {
    double seconds = 0.0;
    std::istringstream number(text);
    if (number >> seconds && number.eof() && seconds >= 0.0) {
      *duration = absl::Seconds(seconds);
      return true;
    }
    return absl::ParseDuration(text, duration) && *duration >= absl::ZeroDuration();
  };
  return app.add_option_function<std::string>(
      name,
      [parse, name](const std::string& text) {
        if (!parse(text))
          throw CLI::ValidationError(name, "'" + text + "' is not a duration such as 90s, 10m or 1h30m");
      },
      what);
}

void Watch(CLI::App& app, Options& o, const char* until) {
  app.add_flag("-w,--watch", o.watch, absl::StrCat("Print again what changes, ", until));
}

}  // namespace luthier::cli
