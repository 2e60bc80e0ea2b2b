#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/follow.h"
#include "client/cli/show.h"
#include "client/cli/yaml_text.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"
#include "lib/wire/json.h"
#include "lib/wire/json_schema.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// At the end of a verb that has followed a study.
void WarnOfLimits(Context& context, const v1::Study& study) {
  const std::string warning = LimitWarning(study);
  if (!warning.empty()) context.err() << "warning: " << warning << "; see luthier trial list " << IdOf(study) << "\n";
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
  } else if (context.options().format == OutputFormat::kCsv) {
    StudyTable({study}).PrintCsv(context.out());
  } else {
    context.out() << IdOf(study) << ": " << v1::Study::State_Name(study.state()) << ", " << Summary(study) << "\n";
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
  return PrintChanged(context, *study);
}

absl::StatusOr<int> StudySchema(Context& context) {
  context.out() << wire::StudyFileSchema().dump(2) << "\n";
  return kExitDone;
}

absl::StatusOr<int> StudyList(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Study> studies, client->ListStudies(context.options().project));
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Study& study : studies) list.push_back(StudyJson(study));
    context.Print(list);
    return kExitDone;
  }
  context.Print(StudyTable(studies));
  if (studies.empty()) context.err() << "no studies yet; make one: luthier study create -f FILE\n";
  return kExitDone;
}

absl::StatusOr<int> StudyGet(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  v1::CertificateRequest certificate;
  certificate.set_epsilon(context.options().epsilon);
  if (context.options().lipschitz) certificate.set_lipschitz(*context.options().lipschitz);
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study, certificate));
  if (context.structured())
    context.Print(StudyJson(study));
  else if (context.options().format == OutputFormat::kCsv)
    StudyTable({study}).PrintCsv(context.out());
  else
    PrintStudy(context.out(), study);
  return kExitDone;
}

absl::StatusOr<int> StudyWatch(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  const OutputFormat format = context.options().format;
  if (format == OutputFormat::kCsv) context.out() << "seq,time,type,trial,attempt,value,actor,detail\n";
  client::Client::WatchOptions options;
  options.after_seq = context.options().after;
  const absl::Status status = client->WatchStudy(context.options().study, options, [&](const v1::Event& event) {
    const Json json = wire::ToJson(event);
    if (format == OutputFormat::kJson) {
      // One object a line: a stream has no end to close a list at.
      context.out() << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
      return true;
    }
    if (format == OutputFormat::kYaml) {
      context.out() << "---\n" << YamlText(json) << std::flush;
      return true;
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
      return true;
    }
    // Whole seconds and six digits are for the eye; the other formats have all there is.
    const std::string second = absl::StrReplaceAll(time.substr(0, 19), {{"T", " "}});
    context.out() << absl::StreamFormat("%8d  %s  %-16s", event.seq(), second, v1::Event::Type_Name(event.type()));
    if (event.trial() > 0) context.out() << "  trial " << event.trial();
    std::string detail = event.detail();
    if (event.has_value()) {
      const std::string shown = absl::StrFormat("%.6g", event.value());
      context.out() << "  " << shown;
      // Details name the metrics; that of the study has the same value.
      absl::StrReplaceAll({{absl::StrCat("=", study::FormatDouble(event.value())), absl::StrCat("=", shown)}}, &detail);
    }
    if (!detail.empty()) context.out() << "  " << Printable(detail);
    context.out() << std::endl;
    return context.out().good();
  });
  LUTHIER_RETURN_IF_ERROR(status);
  // A study that was deleted meanwhile has nothing to warn of.
  if (const absl::StatusOr<v1::Study> study = client->GetStudy(context.options().study); study.ok()) {
    WarnOfLimits(context, *study);
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
  WarnOfLimits(context, followed.study);
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
                     " trials for ever; if that is wanted: luthier study delete ", id, " --yes"));
  }
  LUTHIER_RETURN_IF_ERROR(client->DeleteStudy(id));
  if (context.structured())
    context.Print(Json{{"id", id}, {"deleted", true}});
  else
    context.out() << id << ": deleted\n";
  return kExitDone;
}

}  // namespace luthier::cli
