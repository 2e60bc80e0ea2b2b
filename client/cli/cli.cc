// The command line of luthier as a whole; its verbs are in verbs/.
#include "client/cli/cli.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/completion.h"
#include "client/cli/context.h"
#include "client/cli/help_text.h"
#include "client/cli/man_page.h"
#include "client/cli/verbs/verbs.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/command_line/command_line.h"
#include "lib/study/study_spec.h"
#include "lib/wire/default_server.h"
#include "lib/wire/resource_name.h"

namespace luthier::cli {
namespace {

constexpr char kDescription[] =
    "Finds good hyperparameters: states studies, runs them, shows what came out.\n"
    "First steps: luthier run examples/branin.yaml      Manual: docs/reference/cli.md, docs/reference/study_file.md";

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 server unreachable, 4 not allowed, 5 not found, 124 timed out,\n"
    "130 interrupted, 141 nobody reads the output. Results go to standard output, everything else to standard error.";

const std::vector<std::pair<std::string, std::string>>& Groups() {
  static const auto* const kGroups = new std::vector<std::pair<std::string, std::string>>{
      {"study", "State, look at and control studies"},
      {"trial", "Look at and change the trials of a study"},
      {"worker", "Start workers, look at them, end them"},
      {"plot", "Draw a study"},
      {"model", "Train the model of a setting, keep it in a file, apply it"},
      {"server", "The coordinator that answers"},
      {"admin", "Who may do what: certificates, tokens, projects, the audit; copies of the data"},
      {"admin pki", "A private certificate authority"},
      {"admin token", "Tokens, by which callers are known"},
      {"admin project", "Projects, which keep studies apart"}};
  return *kGroups;
}

std::vector<Verb> Verbs() {
  return Joined({StudyVerbs(), PlotVerbs(), TrialVerbs(), WorkerVerbs(), ModelVerbs(), AdminVerbs()});
}

// Formats help in 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return WrapHelp(CLI::Formatter::make_help(app, std::move(name), mode));
  }
};

// Builds the whole command line; *chosen becomes the handler of the verb that is given.
std::unique_ptr<CLI::App> BuildApp(Options* options, Handler* chosen) {
  auto app = std::make_unique<CLI::App>(kDescription, "luthier");
  app->footer(kFooter);
  app->formatter(std::make_shared<HelpFormatter>());
  app->get_formatter()->column_width(kHelpColumn);
  app->fallthrough();
  app->add_option("--server", options->server, "host:port or unix:PATH; default: one of your own or root's")
      ->envname("LUTHIER_SERVER")
      ->capture_default_str();
  app->add_option(
      "--tls-ca", options->security.tls_ca,
      "PEM file with the certificate that signed the server's, or system: use TLS. Default: $LUTHIER_TLS_CA");
  app->add_option("--tls-cert", options->security.tls_cert, "PEM file with your certificate, where one is asked for");
  app->add_option("--tls-key", options->security.tls_key, "PEM file with its private key");
  app->add_option("--tls-server-name", options->security.tls_server_name,
                  "Name in the server's certificate, where it is not the host of --server");
  app->add_option("--token-file", options->token_file,
                  "File with your token, readable by you alone; -: standard input. Default: $LUTHIER_TOKEN_FILE, "
                  "$LUTHIER_TOKEN");
  app->add_flag("--accept-plaintext", options->security.accept_plaintext,
                "Send your token to another machine without TLS. Default: $LUTHIER_ACCEPT_PLAINTEXT");
  app->add_option("--project", options->project, "Project of studies that are named without one (default: default)")
      ->envname("LUTHIER_PROJECT");
  app->add_option("--db", options->db, "Data directory to use instead of a server; run: default luthier.db.d");
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide},
                                                       {"json", OutputFormat::kJson},   {"yaml", OutputFormat::kYaml},
                                                       {"csv", OutputFormat::kCsv},     {"name", OutputFormat::kName}};
  app->add_option_function<std::string>(
         "-o,--output", [options, formats](const std::string& name) { options->format = formats.at(name); },
         "table, wide (all columns), json, yaml, csv or name (resource names, a line each)")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml", "csv", "name"}))
      ->default_str("table");
  app->add_option("--log-level", options->log_level,
                  "Log level of the coordinator in this process: debug, info, warning, error, off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app->add_flag("-v,--verbose", options->verbose,
                "Show chosen defaults and origins, too: settings of the algorithm, workers, ends of certificates");
  app->set_version_flag("--version", absl::StrCat("luthier ", base::VersionText()));
  app->require_subcommand(1);
  for (const auto& [path, what] : Groups()) {
    const std::vector<std::string> words = absl::StrSplit(path, ' ');
    CLI::App* parent = app.get();
    for (size_t i = 0; i + 1 < words.size(); ++i) parent = parent->get_subcommand(words[i]);
    parent->add_subcommand(words.back(), what)->require_subcommand(1);
  }
  for (const Verb& verb : Verbs()) {
    CLI::App* parent = app.get();
    for (size_t i = 0; i + 1 < verb.path.size(); ++i) parent = parent->get_subcommand(verb.path[i]);
    CLI::App* sub = parent->add_subcommand(verb.path.back(), verb.what);
    verb.add_options(*sub, *options);
    sub->footer(absl::StrCat("Example:\n  ", verb.example, "\nOptions of all verbs: luthier --help"));
    sub->callback([options, chosen, handler = verb.handler, sub, path = absl::StrJoin(verb.path, " ")] {
      // "objectives describe": the inner verb was asked for.
      if (!sub->get_subcommands().empty()) return;
      *chosen = handler;
      options->verb = sub->get_name();
      options->path = path;
    });
  }
  return app;
}

// Turns *name into an id; the API's full name and PROJECT/STUDY are accepted, too.
absl::Status CheckStudyId(const char* field, const std::string& project, std::string* name) {
  const absl::StatusOr<std::string> full = wire::ParseStudyName(field, *name);
  if (full.ok()) {
    *name = *full;
    return absl::OkStatus();
  }
  if (!absl::StrContains(*name, "/") && !project.empty()) *name = study::IdWithin(project, *name);
  const absl::Status valid = wire::ParseStudyName(field, wire::StudyName(*name)).status();
  return valid.ok() ? valid : UsageError(field, base::GetErrorDetail(valid)->violations[0].description);
}

// Turns the names of studies on the command line into ids.
absl::Status CheckStudyIds(Options* options) {
  // A token may be for several projects, and so may workers that work for no single study.
  const bool of_workers = options->path == "worker up" || options->path == "worker status" ||
                          options->path == "worker logs" || options->path == "worker down";
  if (of_workers && !options->study.empty() && absl::StrContains(options->project, ',')) {
    return UsageError("--project", "several do not go together with --study, which is of one project");
  }
  const bool several = (options->path == "admin token create" || of_workers) && !options->project.empty();
  const std::vector<std::string> projects =
      several ? std::vector<std::string>(absl::StrSplit(options->project, ',')) : std::vector{options->project};
  for (const std::string& project : projects) {
    if (options->project.empty()) break;
    const absl::Status valid = study::ValidateId("--project", project);
    if (!valid.ok()) return UsageError("--project", base::GetErrorDetail(valid)->violations[0].description);
  }
  if (options->study.empty() || options->verb == "run") return absl::OkStatus();  // `run` checks its id itself.
  LUTHIER_RETURN_IF_ERROR(CheckStudyId("STUDY", options->project, &options->study));
  for (std::string& other : options->compared) {
    LUTHIER_RETURN_IF_ERROR(CheckStudyId("--compare", options->project, &other));
  }
  return absl::OkStatus();
}

// Replaces names of trials, as -o name prints them, by STUDY TRIAL: "projects/p/studies/s/trials/3" becomes
// "projects/p/studies/s" "3", and further trials of the same study become their numbers. Values of options are not
// changed.
std::vector<std::string> WithoutTrialNames(const std::vector<std::string>& args) {
  std::vector<std::string> out;
  std::string study;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool value = i > 0 && absl::StartsWith(args[i - 1], "-");
    const absl::StatusOr<wire::TrialId> id = wire::ParseTrialName("TRIAL", args[i]);
    if (value || !id.ok()) {
      out.push_back(args[i]);
      continue;
    }
    if (id->study != study) out.push_back(wire::StudyName(id->study));
    study = id->study;
    out.push_back(absl::StrCat(id->number));
  }
  return out;
}

// Refuses a server that would not be asked. A variable of the environment is for the verbs that ask one.
absl::Status CheckServer(const std::vector<std::string>& args, const Options& options) {
  const auto end = std::find(args.begin(), args.end(), "--");
  const bool given = std::any_of(args.begin(), end, [](const std::string& arg) {
    return arg == "--server" || absl::StartsWith(arg, "--server=");
  });
  if (!given) return absl::OkStatus();
  if (options.path == "run") {
    return UsageError("--server",
                      "run has a coordinator of its own on this machine; to tune at a server, write luthier "
                      "study create -f FILE, and start workers of that server");
  }
  if (!options.db.empty()) {
    return UsageError("--server", "stands beside --db, which takes its place; write one of them");
  }
  return absl::OkStatus();
}

// True for verbs whose results have names.
bool HasNames(const Options& options) {
  static const auto* const kOthers =
      new std::set<std::string>{"study preview", "study importance", "study predict",  "study export", "study schema",
                                "study watch",   "trial explain",    "trial command",  "report",       "worker list",
                                "worker up",     "worker status",    "worker logs",    "worker down",  "model train",
                                "model show",    "model predict",    "model evaluate", "bilevel",      "simulate",
                                "verify-replay", "completion",       "manual",         "ui",           "version",
                                "health"};
  return kOthers->count(options.path) == 0 && !absl::StartsWith(options.path, "admin ") &&
         !absl::StartsWith(options.path, "plot ") && !absl::StartsWith(options.path, "server ");
}

}  // namespace

int RunCli(const std::vector<std::string>& given, const Environment& environment) {
  const std::vector<std::string> args = WithoutTrialNames(given);
  Options options;
  options.server = environment.getenv("LUTHIER_SERVER").value_or("");
  const bool named = !options.server.empty();
  const wire::DefaultServer unnamed = named ? wire::DefaultServer() : wire::FindDefaultServer();
  if (!named) options.server = unnamed.address;
  Handler handler = nullptr;
  const std::unique_ptr<CLI::App> app = BuildApp(&options, &handler);
  if (const std::optional<int> code = command_line::Parse(*app, args, *environment.out, *environment.err)) return *code;
  if (!named && app->count("--server") == 0) {
    options.server_trust = unnamed.trust;
    options.security.only_own = true;
  }
  if (options.verb == "completion") {
    *environment.out << CompletionScript(*app, options.shell).value();
    return kExitDone;
  }
  if (options.verb == "manual") {
    *environment.out << ManPage(*app, base::kVersion);
    return kExitDone;
  }
  if (options.format == OutputFormat::kName && !HasNames(options)) {
    return Explain(UsageError("--output", absl::StrCat("what ", options.path,
                                                       " prints has no names; it is there as "
                                                       "table, wide, json, yaml or csv")),
                   options, *environment.err);
  }
  if (const absl::Status server = CheckServer(args, options); !server.ok()) {
    return Explain(server, options, *environment.err);
  }
  base::LogLevel level = base::LogLevel::kWarning;
  base::ParseLogLevel(options.log_level, &level);
  base::SetLogLevel(level);
  Context context(environment, options);
  if (const absl::Status known = context.FindProject(&options.project); !known.ok()) {
    return Explain(known, options, *environment.err);
  }
  if (const absl::Status id = CheckStudyIds(&options); !id.ok()) return Explain(id, options, *environment.err);
  const absl::StatusOr<int> result = handler(context);
  environment.out->flush();
  const bool written = environment.out->good();
  // `| head`: the reader has enough, which is no error.
  if (!written && environment.out_closed && environment.out_closed()) return kExitPipe;
  if (!result.ok()) return Explain(result.status(), options, *environment.err);
  if (!written) {
    *environment.err << "luthier: standard output can't be written\n";
    return kExitFailed;
  }
  return *result;
}

}  // namespace luthier::cli
