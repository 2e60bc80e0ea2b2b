#include "client/cli/context.h"

#include <re2/re2.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/show.h"
#include "client/cli/yaml_text.h"
#include "lib/base/error.h"
#include "lib/base/printable.h"
#include "lib/base/retry_advice.h"
#include "lib/base/secret.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "lib/study/study_spec.h"
#include "lib/wire/yaml_tree.h"

namespace luthier::cli {
namespace {

namespace reason = base::reason;

constexpr char kUsage[] = "USAGE";
// Longest time that a verb waits for a server in trouble before it says so.
constexpr absl::Duration kPatience = absl::Seconds(15);

// Returns what to do next, by reason; "" if the message says it all.
std::string Advice(const std::string& why, const Options& options) {
  const std::string study = options.study.empty() ? "STUDY" : options.study;
  if (why == reason::kStudyPaused) return absl::StrCat("to go on: luthier study resume ", study);
  if (why == reason::kStudyFinished && (options.verb == "resume" || options.verb == "pause")) {
    return absl::StrCat("its last trials may still be running; to try more settings: luthier study clone ", study,
                        " NAME, or of a COMPLETED one luthier study update ", study, " --max-trials N");
  }
  if (why == reason::kStudyFinished) return absl::StrCat("to see the result: luthier trial best ", study);
  if (why == reason::kLeaseLost) return absl::StrCat("drop this trial and ask again: luthier ask ", study);
  if (why == reason::kTrialFinal && options.trial > 0) {
    return absl::StrCat("to see it: luthier trial get ", study, " ", options.trial);
  }
  if (why == reason::kTrialFinal) return absl::StrCat("to see them: luthier trial list ", study);
  if (why == reason::kConflictingReport && options.verb == "report") {
    return absl::StrCat("step ", options.step.value_or(0),
                        " was reported with other values already; they stand. Report "
                        "the next step");
  }
  if (why == reason::kConflictingReport) return "this trial has another result already; the first one stands";
  if (why == reason::kQueueFull || why == reason::kRateLimited) return "the server is busy; try again in a moment";
  if (why == reason::kStorageFull || why == reason::kStorageLow) return "make room on the server's disk";
  if (why == reason::kBug) return "this is a bug of the server; please report it with the server's log";
  return "";
}

// Shortens resource names for people: "projects/default/studies/s/trials/3" becomes "trial 3 of s", and a study of
// another project "study vision/s".
std::string WithoutNames(std::string message) {
  static const auto* const kName = new RE2("projects/([a-z0-9_.-]+)/studies/([a-z0-9_.-]+)(?:/trials/([0-9]+))?");
  std::string text;
  re2::StringPiece left(message.data(), message.size());
  std::string project, study, trial;
  const char* written = message.data();
  while (RE2::FindAndConsume(&left, *kName, &project, &study, &trial)) {
    const char* const end = left.data();
    const size_t size = 18 + project.size() + study.size() + (trial.empty() ? 0 : 8 + trial.size());
    text.append(written, end - size);
    const std::string id = study::IdWithin(project, study);
    absl::StrAppend(&text, trial.empty() ? absl::StrCat("study ", id) : absl::StrCat("trial ", trial, " of ", id));
    written = end;
  }
  text.append(written, static_cast<const char*>(message.data()) + message.size());
  return text;
}

}  // namespace

absl::StatusOr<client::Client*> Context::client() {
  if (client_) return client_.get();
  if (!options_.db.empty() && !local_) {
    LUTHIER_ASSIGN_OR_RETURN(local_, LocalServer::Start(DataDirectory(options_.db), LocalServer::Use::kLook));
  }
  return Connect();
}

absl::StatusOr<client::Client*> Context::admin_client() {
  if (!options_.db.empty() && !local_) {
    LUTHIER_ASSIGN_OR_RETURN(local_, LocalServer::Start(DataDirectory(options_.db), LocalServer::Use::kAdmin));
  }
  return client_ ? client_.get() : Connect();
}

absl::Status Context::FindProject(std::string* project) {
  const bool names_study = !options_.study.empty() && !absl::StrContains(options_.study, "/") && options_.verb != "run";
  if (!project->empty() || !options_.db.empty() || !names_study) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const wire::ChannelSecurity security, Security());
  if (security.token.empty()) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * asked, client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::ServerInfo info, asked->GetServerInfo());
  *project = info.project();
  return absl::OkStatus();
}

absl::StatusOr<wire::ChannelSecurity> Context::Security() const {
  if (!options_.server_trust.ok()) return UsageError("--server", options_.server_trust.message());
  absl::StatusOr<wire::ChannelSecurity> security = wire::SecurityFrom(options_.security, options_.token_file);
  if (!security.ok()) return UsageError(security.status());
  return security;
}

absl::StatusOr<client::Client*> Context::Connect() {
  client::ClientOptions options;
  if (!local_) {
    LUTHIER_ASSIGN_OR_RETURN(options.security, Security());
  }
  options.seed = environment_.seed;
  // A person waits, and should not wait silently for a day.
  options.patience = kPatience;
  options.finish_patience = kPatience;
  absl::StatusOr<std::unique_ptr<client::Client>> made =
      client::Client::Create(local_ ? local_->address() : options_.server, options);
  if (!made.ok()) return UsageError(made.status());
  client_ = *std::move(made);
  return client_.get();
}

TableRoom Context::room() const {
  TableRoom room;
  room.internals = options_.verbose || options_.format == OutputFormat::kWide;
  if (options_.format == OutputFormat::kWide) return room;
  int columns = 0;
  const std::optional<std::string> variable = environment_.getenv("COLUMNS");
  if (!variable || !absl::SimpleAtoi(*variable, &columns) || columns <= 0) columns = environment_.out_width;
  room.width = static_cast<size_t>(columns);
  return room;
}

bool Context::colour() const {
  // no-color.org: the variable is set, with any value that is not empty.
  return environment_.out_width > 0 && environment_.getenv("NO_COLOR").value_or("").empty() &&
         environment_.getenv("TERM").value_or("dumb") != "dumb";
}

absl::Status Context::UseLocal(std::unique_ptr<LocalServer> local) {
  client_.reset();
  local_ = std::move(local);
  return client().status();
}

void Context::Disconnect() {
  client_.reset();
  local_.reset();
}

std::string Context::ServerKey() const {
  return options_.db.empty() ? options_.server : absl::StrCat("db:", DataDirectory(options_.db));
}

namespace {

// Reads up to one byte beyond the limit.
std::string ReadUpTo(std::istream& in, size_t most) {
  std::string text;
  constexpr size_t kAtATime = size_t{1} << 20;
  while (in && text.size() <= most) {
    const size_t before = text.size();
    text.resize(before + std::min(kAtATime, most + 1 - before));
    in.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<size_t>(in.gcount()));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> Context::ReadFile(const std::string& path, size_t most) const {
  if (path == "-") return ReadUpTo(*environment_.in, most);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory; name a file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return ReadUpTo(file, most);
}

absl::StatusOr<std::string> Context::ReadFile(const std::string& path) const {
  return ReadFile(path, wire::kMaxYamlBytes);  // For a larger file the parser reports that it is too large.
}

absl::StatusOr<Context::StudyToCreate> Context::ReadStudy(const std::string& path, const std::string& name) const {
  LUTHIER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::string source = path == "-" ? "standard input" : path;
  if (text.size() > wire::kMaxYamlBytes && path != "-") {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return absl::InvalidArgumentError(absl::StrCat(source, ": is larger than 1 MiB",
                                                   error ? std::string() : absl::StrCat(" (", size, " bytes)"),
                                                   "; is it the right file?"));
  }
  LUTHIER_ASSIGN_OR_RETURN(wire::StudyFile file, wire::StudyFile::Parse(text, source));
  std::string id = name;
  if (id.empty()) {
    if (path == "-") return absl::InvalidArgumentError("a study from standard input needs --name");
    id = study::Slug(std::filesystem::path(path).stem().string());
  }
  LUTHIER_RETURN_IF_ERROR(study::ValidateId("name", study::ShortId(id)));
  std::string project = options_.project;
  if (absl::StrContains(id, '/')) {
    project = std::string(study::ProjectOf(id));
    LUTHIER_RETURN_IF_ERROR(study::ValidateId("project of name", project));
  }
  if (!project.empty()) id = study::IdWithin(project, study::ShortId(id));
  return StudyToCreate{std::move(file), std::move(id)};
}

void Context::Print(const Table& table) const {
  if (options_.format == OutputFormat::kCsv) {
    table.PrintCsv(out());
  } else if (names()) {
    table.PrintNames(out());
  } else {
    const TableShape shape = table.Fit(room());
    table.PrintAligned(out(), shape, colour());
    SayLeftOut(shape);
  }
}

void Context::SayLeftOut(const TableShape& shape) const {
  if (shape.left_out.empty()) return;
  constexpr size_t kNamed = 5;
  const size_t named = std::min(kNamed, shape.left_out.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < named; ++i) names.push_back(Printable(shape.left_out[i]));
  err() << "no room for " << absl::StrJoin(names, ", ");
  if (named < shape.left_out.size()) err() << " and " << shape.left_out.size() - named << " more";
  err() << "; all columns: -o wide\n";
}

void Context::Print(const nlohmann::ordered_json& value) const {
  if (options_.format == OutputFormat::kYaml) {
    out() << YamlText(value);
  } else {
    PrintJson(out(), value);
  }
}

void Context::PrintElement(const nlohmann::ordered_json& element, bool first) const {
  if (options_.format == OutputFormat::kYaml) {
    out() << YamlText(nlohmann::ordered_json::array({element}));
  } else {
    out() << (first ? "[\n" : ",\n") << JsonText(element, 2);
  }
}

void Context::ClosePrintedList(bool empty) const {
  if (empty) {
    out() << "[]\n";
  } else if (options_.format == OutputFormat::kJson) {
    out() << "\n]\n";
  }
}

absl::Status UsageError(absl::string_view option, absl::string_view what) {
  return base::MakeError(absl::StatusCode::kInvalidArgument, kUsage, absl::StrCat(option, ": ", what));
}

absl::Status UsageError(const absl::Status& status) {
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  if (!detail || detail->violations.empty()) return UsageError("--server", status.message());
  const base::FieldViolation& first = detail->violations[0];
  const bool variable = absl::StartsWith(first.field, "LUTHIER_");
  return UsageError(absl::StrCat(variable ? "" : "--", first.field), first.description);
}

namespace {

int ExplainOnce(const absl::Status& status, const Options& options, std::ostream& err) {
  if (status.ok()) return kExitDone;
  const std::string why = base::GetReason(status);
  const std::string message = base::PrintableLines(base::HideTokens(status.message()));
  if (base::NobodyAnswered(status)) {
    const std::string server = base::HideTokens(options.server);
    err << "luthier: no server answers at " << server << " (" << message << ")\n";
    if (!absl::StartsWith(server, "dns:")) {  // That is a name for several addresses, at which no server can listen.
      err << "start one: luthierd --listen "
          << (absl::StartsWith(server, "unix:") ? server : server.substr(0, server.find(','))) << "\nor ";
    }
    err << "name another with --server or LUTHIER_SERVER; one that speaks TLS needs --tls-ca; `luthier run FILE` "
           "needs none\n";
    return kExitUnreachable;
  }
  err << "luthier: " << WithoutNames(message) << "\n";
  if (const std::string advice = Advice(why, options); !advice.empty()) err << advice << "\n";
  if (why == kUsage) return kExitUsage;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return why == reason::kDraining || why == reason::kStarting ? kExitUnreachable : kExitFailed;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitNotAllowed;
    case absl::StatusCode::kNotFound:
      if (why == reason::kNotFound && !options.study.empty()) {
        const bool trial = options.trial > 0 && absl::StrContains(message, "trial");
        err << "to see what there is: luthier " << (trial ? "trial list " + options.study : "study list") << "\n";
      }
      return kExitNotFound;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

// True if a text tells somebody to run a command that looks at a study, and not where that is.
bool NeedsDb(const std::string& text) {
  for (const char* command : {"luthier study ", "luthier trial ", "luthier plot "}) {
    if (absl::StrContains(text, command)) return !absl::StrContains(text, "--db");
  }
  return false;
}

}  // namespace

int Explain(const absl::Status& status, const Options& options, std::ostream& err) {
  std::ostringstream said;
  const int code = ExplainOnce(status, options, said);
  err << said.str();
  if (!options.db.empty() && NeedsDb(said.str())) {
    err << "with --db " << base::Printable(options.db) << " there, too\n";
  }
  return code;
}

}  // namespace luthier::cli
