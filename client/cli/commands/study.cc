#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/follow.h"
#include "client/cli/commands/looking.h"
#include "client/cli/commands/remarks.h"
#include "client/cli/show.h"
#include "client/cli/yaml_text.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/json.h"
#include "lib/wire/json_schema.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// Adds remarks at the end of a verb that shows a study. Nothing is said of a study that was deleted meanwhile.
void RemarkOnResults(Context& context, client::Client& client, const v1::Study& study) {
  const std::string warning = EqualResultsWarning(client, study).value_or("");
  if (!warning.empty()) context.err() << "warning: " << warning << "\n";
  const std::string note = UnchangedBestNote(client, study).value_or("");
  if (!note.empty()) context.err() << "note: " << note << "\n";
}

// Adds warnings at the end of a verb that has followed a study.
void WarnOfResults(Context& context, client::Client& client, const v1::Study& study) {
  const std::string warning = LimitWarning(study);
  const std::string& db = context.options().db;
  if (!warning.empty()) {
    context.err() << "warning: " << warning << "; see luthier trial list " << IdOf(study)
                  << (db.empty() ? "" : absl::StrCat(" --db ", db)) << "\n";
  }
  RemarkOnResults(context, client, study);
}

absl::StatusOr<int> Control(Context& context, absl::StatusOr<v1::Study> (client::Client::*call)(const std::string&)) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, (client->*call)(context.options().study));
  return PrintChanged(context, study);
}

}  // namespace

int PrintChanged(Context& context, const v1::Study& study) {
  if (context.structured()) {
    context.Print(StudyJson(study));
  } else if (context.names()) {
    context.out() << study.name() << "\n";
  } else if (context.options().format == OutputFormat::kCsv) {
    StudyTable({study}).PrintCsv(context.out());
  } else {
    context.out() << IdOf(study) << ": " << StudyStateText(study);
    // The reason tells which of several ends it was; other states say what was done to the study.
    if (study.state() == v1::Study::COMPLETED && !study.state_reason().empty()) {
      context.out() << " (" << Printable(study.state_reason()) << ")";
    }
    context.out() << ", " << Summary(study) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> StudyCreate(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Context::StudyToCreate input,
                           context.ReadStudy(context.options().file, context.options().name));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  const absl::StatusOr<v1::Study> study = client->CreateStudy(input.id, input.file.spec());
  if (!study.ok()) return input.file.Locate(study.status());
  context.options().verbose ? PrintResolution(context.err(), *study) : PrintChoice(context.err(), *study);
  if (const std::string legal = LegalShareText(*study); !legal.empty()) context.err() << legal << "\n";
  return PrintChanged(context, *study);
}

absl::StatusOr<int> StudySchema(Context& context) {
  context.out() << wire::StudyFileSchema().dump(2) << "\n";
  return kExitDone;
}

namespace {

absl::StatusOr<std::vector<v1::Study::State>> StudyStates(const std::vector<std::string>& names) {
  std::vector<v1::Study::State> states;
  std::vector<std::string> known;
  for (int i = 1; i < v1::Study::State_ARRAYSIZE; ++i) known.push_back(v1::Study::State_Name(i));
  for (const std::string& name : names) {
    v1::Study::State state = v1::Study::STATE_UNSPECIFIED;
    const std::string upper = absl::AsciiStrToUpper(name);
    if (!v1::Study::State_Parse(upper, &state) || state == v1::Study::STATE_UNSPECIFIED) {
      return UsageError("--state", absl::StrCat(base::Quote(name), " is not one of ", absl::StrJoin(known, ", "),
                                                base::DidYouMean(upper, known)));
    }
    states.push_back(state);
  }
  return states;
}

// Returns the studies of a project in one of `states`; empty: all.
absl::StatusOr<std::vector<v1::Study>> StudiesIn(client::Client& client, const std::string& project,
                                                 const std::vector<v1::Study::State>& states, bool deleted) {
  LUTHIER_ASSIGN_OR_RETURN(std::vector<v1::Study> studies, client.ListStudies(project, deleted));
  const auto other = [&](const v1::Study& study) {
    return !states.empty() && std::find(states.begin(), states.end(), study.state()) == states.end();
  };
  studies.erase(std::remove_if(studies.begin(), studies.end(), other), studies.end());
  return studies;
}

// Returns "3 studies: 2 ACTIVE, 1 COMPLETED".
std::string StudiesText(const std::vector<v1::Study>& studies) {
  std::map<v1::Study::State, int64_t> counts;
  int64_t damaged = 0;
  for (const v1::Study& study : studies) {
    ++(study.state() == v1::Study::STATE_UNSPECIFIED ? damaged : counts[study.state()]);
  }
  std::string text = absl::StrCat(studies.size(), studies.size() == 1 ? " study" : " studies");
  const char* separator = ": ";
  for (const auto& [state, count] : counts) {
    absl::StrAppend(&text, separator, count, " ", v1::Study::State_Name(state));
    separator = ", ";
  }
  if (damaged > 0) absl::StrAppend(&text, separator, damaged, " DAMAGED");
  return text;
}

// Prints the studies that `get` returns, and again those that change, until `over`.
absl::StatusOr<int> WatchStudies(Context& context,
                                 absl::FunctionRef<absl::StatusOr<std::vector<v1::Study>>(client::Client&)> get,
                                 absl::FunctionRef<bool(const std::vector<v1::Study>&)> over) {
  SignalScope signals;  // Before any thread starts.
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  ChangeWriter writer(context);
  std::map<std::string, uint64_t> before;
  bool first = true;
  return LookAgain(context, signals, [&]() -> absl::StatusOr<bool> {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Study> studies, get(*client));
    std::map<std::string, uint64_t> now;
    std::vector<v1::Study> changed;
    std::vector<Json> values;
    for (const v1::Study& study : studies) {
      now[IdOf(study)] = study.update_seq();
      const auto known = before.find(IdOf(study));
      if (known != before.end() && known->second == study.update_seq()) continue;
      changed.push_back(study);
      if (context.structured()) values.push_back(StudyJson(study));
    }
    for (const auto& [id, seq] : before) {
      if (now.count(id) == 0) context.err() << id << ": deleted, or in another state" << std::endl;
    }
    before = std::move(now);
    if (first || !changed.empty()) writer.Write(StudyTable(changed), values);
    first = false;
    return over(studies);
  });
}

}  // namespace

absl::StatusOr<int> StudyList(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Study::State> states, StudyStates(context.options().states));
  const bool deleted = context.options().deleted;
  if (deleted && context.options().watch) return UsageError("--watch", "does not go with --deleted; give one of them");
  const auto get = [&](client::Client& client) {
    return StudiesIn(client, context.options().project, states, deleted);
  };
  if (context.options().watch) {
    return WatchStudies(context, get, [](const std::vector<v1::Study>&) { return false; });
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Study> studies, get(*client));
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Study& study : studies) list.push_back(StudyJson(study));
    context.Print(list);
    return kExitDone;
  }
  if (context.shown() && !studies.empty()) context.err() << StudiesText(studies) << "\n";
  context.Print(StudyTable(studies));
  if (studies.empty() && deleted) {
    context.err() << "no study was deleted in the last 7 days\n";
  } else if (studies.empty() && states.empty()) {
    context.err() << "no studies yet; make one: luthier study create -f FILE\n";
  }
  return kExitDone;
}

absl::StatusOr<int> StudyGet(Context& context) {
  v1::CertificateRequest certificate;
  certificate.set_epsilon(context.options().epsilon);
  if (context.options().lipschitz) certificate.set_lipschitz(*context.options().lipschitz);
  if (context.options().watch) {
    const auto get = [&](client::Client& from) -> absl::StatusOr<std::vector<v1::Study>> {
      LUTHIER_ASSIGN_OR_RETURN(v1::Study study, from.GetStudy(context.options().study, certificate));
      return std::vector<v1::Study>{std::move(study)};
    };
    return WatchStudies(context, get, [](const std::vector<v1::Study>& studies) { return IsOver(studies[0]); });
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study, certificate));
  if (context.structured())
    context.Print(StudyJson(study));
  else if (context.names())
    context.out() << study.name() << "\n";
  else if (context.options().format == OutputFormat::kCsv)
    StudyTable({study}).PrintCsv(context.out());
  else
    PrintStudy(context.out(), study, {context.options().verbose, context.wide()});
  RemarkOnResults(context, *client, study);
  return kExitDone;
}

absl::StatusOr<int> StudyWatch(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  const OutputFormat format = context.options().format;
  if (format == OutputFormat::kCsv) context.out() << "seq,time,type,trial,attempt,value,actor,detail\n";
  client::Client::WatchOptions options;
  options.after_seq = context.options().after;
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study before, client->GetStudy(context.options().study));
  if (before.state() == v1::Study::PAUSED || (before.state() == v1::Study::ACTIVE && !before.state_reason().empty())) {
    context.err() << "the study is " << StudyStateText(before) << " (" << Printable(before.state_reason()) << ")\n";
  }
  const absl::Status status = client->WatchStudy(context.options().study, options, [&](const v1::Event& event) {
    const Json json = wire::ToJson(event);
    if (format == OutputFormat::kJson) {
      // One object a line: a stream has no end at which a list could be closed.
      context.out() << JsonText(json) << std::endl;
      return context.out().good();
    }
    if (format == OutputFormat::kYaml) {
      context.out() << "---\n" << YamlText(json) << std::flush;
      return context.out().good();
    }
    const std::string time = json.value("time", "");
    if (format == OutputFormat::kCsv) {
      Table row({"seq", "time", "type", "trial", "attempt", "value", "actor", "detail"});
      row.Add({Cell::Integer(static_cast<int64_t>(event.seq())), Cell::Text(time),
               Cell::Text(v1::Event::Type_Name(event.type())),
               event.trial() > 0 ? Cell::Integer(event.trial()) : Cell::Empty(),
               event.attempt() > 0 ? Cell::Integer(event.attempt()) : Cell::Empty(),
               event.has_value() ? Cell::Number(event.value()) : Cell::Empty(), Cell::Text(event.actor()),
               Cell::Text(event.detail())});
      row.PrintCsvRows(context.out());
      context.out() << std::flush;
      return context.out().good();
    }
    context.out() << EventLine(event, context.colour()) << std::endl;
    return context.out().good();
  });
  LUTHIER_RETURN_IF_ERROR(status);
  // Nothing is said of a study that was deleted meanwhile.
  if (const absl::StatusOr<v1::Study> study = client->GetStudy(context.options().study); study.ok()) {
    WarnOfResults(context, *client, *study);
  }
  return kExitDone;
}

absl::StatusOr<int> StudyWait(Context& context) {
  SignalScope signals;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  FollowOptions options;
  options.timeout = context.options().timeout;
  LUTHIER_ASSIGN_OR_RETURN(const Followed followed,
                           Follow(context, *client, context.options().study, options, signals));
  PrintChanged(context, followed.study);
  WarnOfResults(context, *client, followed.study);
  switch (followed.ending) {
    case Ending::kTimedOut:
      context.err() << "luthier: the study is not finished after " << absl::FormatDuration(options.timeout) << "\n";
      return kExitTimedOut;
    case Ending::kInterrupted:
      return kExitInterrupted;
    case Ending::kPaused:
    case Ending::kOver:
      break;
  }
  return followed.study.state() == v1::Study::CANCELLED ? kExitFailed : kExitDone;
}

absl::StatusOr<int> StudyPause(Context& context) {
  return Control(context, &client::Client::PauseStudy);
}
absl::StatusOr<int> StudyResume(Context& context) {
  return Control(context, &client::Client::ResumeStudy);
}
absl::StatusOr<int> StudyStop(Context& context) {
  return Control(context, &client::Client::StopStudy);
}
absl::StatusOr<int> StudyCancel(Context& context) {
  return Control(context, &client::Client::CancelStudy);
}

absl::StatusOr<int> StudyDelete(Context& context) {
  const std::string& id = context.options().study;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (!context.options().yes) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(id));
    return absl::FailedPreconditionError(
        absl::StrCat("deleting ", id, " removes its ",
                     DoneTrials(study.trials()) + study.trials().running() + study.trials().pending(),
                     " trials, for ever after 7 days; if that is wanted: luthier study delete ", id, " --yes"));
  }
  LUTHIER_RETURN_IF_ERROR(client->DeleteStudy(id));
  if (context.structured())
    context.Print(Json{{"id", id}, {"deleted", true}});
  else if (context.names())
    context.out() << "projects/default/studies/" << id << "\n";
  else
    context.out() << id << ": deleted; for 7 days luthier study undelete " << id << " brings it back\n";
  return kExitDone;
}

absl::StatusOr<int> StudyUndelete(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->UndeleteStudy(options.study, options.new_id));
  return PrintChanged(context, study);
}

}  // namespace luthier::cli
