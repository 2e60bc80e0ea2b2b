#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/follow.h"
#include "client/cli/show.h"
#include "client/cli/token_store.h"
#include "lib/base/backoff.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/retry_advice.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/retry.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

TokenStore Tokens(const Context& context) {
  const auto variable = [&](const char* name) { return context.environment().getenv(name).value_or(""); };
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) return TokenStore(state + "/luthier");
  return TokenStore(variable("HOME") + "/.local/state/luthier");
}

std::string WorkerName(const Context& context) {
  if (!context.options().worker.empty()) return context.options().worker;
  constexpr size_t kMaxHost = 50;
  return study::Slug(absl::StrCat("cli-", context.environment().host.substr(0, kMaxHost)));
}

Json LeaseJson(const v1::Lease& lease) {
  Json json = Json::object();
  json["number"] = lease.trial().number();
  json["parameters"] = wire::ToJson(lease.trial().parameters());
  json["token"] = absl::BytesToHexString(lease.token());
  json["attempt"] = lease.attempt();
  json["ttl"] = wire::ToJson(lease.ttl());
  json["resume_checkpoint"] = lease.resume_checkpoint();
  json["resume_step"] = lease.resume_step();
  json["target_step"] = lease.target_step();
  json["gradient"] = absl::AsciiStrToLower(absl::StripPrefix(v1::GradientUse_Name(lease.gradient()), "GRADIENT_USE_"));
  const auto& direction = lease.trial().provenance().direction();
  json["direction"] = std::vector<double>(direction.begin(), direction.end());
  return json;
}

absl::StatusOr<client::LeaseRef> FindLease(Context& context) {
  const Options& options = context.options();
  client::LeaseRef lease{options.study, options.trial, ""};
  if (!options.token.empty()) {
    const bool hex =
        options.token.size() % 2 == 0 && std::all_of(options.token.begin(), options.token.end(), absl::ascii_isxdigit);
    if (!hex) return UsageError("--token", "is not the hexadecimal token that `luthier ask -o json` printed");
    lease.token = absl::HexStringToBytes(options.token);
    return lease;
  }
  const TokenStore tokens = Tokens(context);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<std::string> token,
                           tokens.Find(context.ServerKey(), options.study, options.trial));
  if (!token) {
    // If the study or the trial does not exist, that is the better explanation.
    LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
    LUTHIER_RETURN_IF_ERROR(client->GetTrial(options.study, options.trial).status());
    return absl::FailedPreconditionError(absl::StrCat(
        "trial ", options.trial, " of ", options.study, " was not asked for here (", tokens.path(),
        " has no token of it for ", context.ServerKey(), "); ask for it, or give the token of its asker with --token"));
  }
  lease.token = *token;
  return lease;
}

std::optional<double> MetricValue(const std::string& text) {
  const study::ParameterValue parsed = wire::ParseValue(text);
  if (const double* number = std::get_if<double>(&parsed)) return *number;
  // Reads "nan" and "inf" in any spelling, but no hexadecimal numbers.
  double value = 0.0;
  if (absl::SimpleAtod(text, &value) && !std::isfinite(value)) return value;
  return std::nullopt;
}

// Reads a gradient, or the file that has it. A bare list is a full gradient.
absl::Status ReadGradient(const Context& context, const std::string& option, absl::string_view given,
                          v1::Gradient* gradient) {
  std::string text(absl::StripLeadingAsciiWhitespace(given));
  std::string source = option;
  if (!absl::StartsWith(text, "[") && !absl::StartsWith(text, "{")) {
    source = std::string(given);
    LUTHIER_ASSIGN_OR_RETURN(text, context.ReadFile(source));
  }
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "["))
    text = absl::StrCat("{full: {values: ", text, "}}");
  return wire::ParseMessage(text, source, gradient);
}

// Reads the measurement from --metric NAME=VALUE …, --step, --elapsed, --training, --gradient, --gradient-of, --slope.
absl::StatusOr<v1::Measurement> MeasurementOf(Context& context) {
  const Options& options = context.options();
  v1::Measurement measurement;
  for (const std::string& text : options.metrics) {
    const size_t equals = text.find('=');
    // Read as in a study file; NaN and infinities are values, too.
    std::optional<double> value;
    if (equals != std::string::npos && equals > 0) value = MetricValue(text.substr(equals + 1));
    if (!value) return UsageError("--metric", absl::StrCat(base::Quote(text), " is not of the form NAME=NUMBER"));
    if (!measurement.mutable_metrics()->insert({text.substr(0, equals), *value}).second) {
      return UsageError("--metric", absl::StrCat(base::Quote(text.substr(0, equals)), " is given twice"));
    }
  }
  if (options.step) measurement.set_step(*options.step);
  if (options.elapsed_seconds) measurement.set_elapsed_seconds(*options.elapsed_seconds);
  if (!options.training.empty()) {
    const absl::StatusOr<study::TrainingOutcome> outcome =
        study::ParseTrainingOutcome(absl::AsciiStrToLower(options.training));
    if (!outcome.ok()) return UsageError("--training", std::string(outcome.status().message()));
    measurement.mutable_training()->set_outcome(wire::ToProto(*outcome));
  }
  for (const std::string& text : options.gradients_of) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !measurement.metrics().contains(name)) {
      return UsageError("--gradient-of",
                        absl::StrCat(base::Quote(text), " does not begin with the name of a --metric and ="));
    }
    if (measurement.gradients().contains(name)) {
      return UsageError("--gradient-of", absl::StrCat(base::Quote(name), " is given twice"));
    }
    LUTHIER_RETURN_IF_ERROR(ReadGradient(context, "--gradient-of", absl::string_view(text).substr(equals + 1),
                                         &(*measurement.mutable_gradients())[name]));
  }
  if (options.slope) {
    if (!options.gradient.empty()) return UsageError("--slope", "goes without --gradient: a result has one of them");
    LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
    LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->GetTrial(options.study, options.trial));
    if (trial.provenance().direction().empty()) {
      return UsageError("--slope", absl::StrCat("trial ", options.trial,
                                                " asks for none; give the direction, too: --gradient "
                                                "'{directional: {direction: […], slope: …}}'"));
    }
    v1::Gradient::Directional& directional = *measurement.mutable_gradient()->mutable_directional();
    *directional.mutable_direction() = trial.provenance().direction();
    directional.set_slope(*options.slope);
    return measurement;
  }
  if (options.gradient.empty()) return measurement;
  LUTHIER_RETURN_IF_ERROR(ReadGradient(context, "--gradient", options.gradient, measurement.mutable_gradient()));
  return measurement;
}

// Returns why an ask may have to wait.
std::string WhyNothing(const v1::Study& study) {
  const v1::TrialCounts& counts = study.trials();
  const v1::Budget& budget = study.spec().budget();
  const int64_t open = counts.running() + counts.pending();
  if (budget.max_parallel() > 0 && counts.running() >= budget.max_parallel()) {
    std::string text = absl::StrCat("max_parallel allows ", budget.max_parallel(), " at once, and so many are running");
    if (counts.pending() > 0) absl::StrAppend(&text, "; ", counts.pending(), " more wait for a place");
    return text;
  }
  if (counts.pending() == 0 && DoneTrials(counts) + open >= budget.max_trials()) {
    return absl::StrCat("the last trials of the study are running elsewhere (", counts.running(), ")");
  }
  return Summary(study);
}

// Asks until there is a trial, the study is done, or the time is up: then it says why, and returns nothing. If the
// server asks for patience (a full disk, too many requests, a restart), the user is told at once, and the verb waits.
absl::StatusOr<std::optional<v1::SuggestResponse>> WaitForTrials(Context& context, client::Client& client) {
  const Options& options = context.options();
  const base::SystemClock clock;
  const absl::Duration begin = clock.Monotonic();
  constexpr absl::Duration kPoll = absl::Seconds(30);
  wire::InterruptibleSleeper sleeper;
  base::Backoff backoff(base::RandomStream(client::EntropySeed(), "ask"));
  std::optional<absl::Duration> heard;
  std::set<std::string> told;
  while (true) {
    const absl::Duration poll = std::min(kPoll, options.timeout - (clock.Monotonic() - begin));
    absl::StatusOr<v1::SuggestResponse> answer =
        client.Suggest(options.study, WorkerName(context), options.count, poll, /*fail_if_paused=*/true);
    if (answer.ok() && (!answer->leases().empty() || answer->study_done())) return *std::move(answer);
    const absl::Status& status = answer.status();
    const absl::Duration now = clock.Monotonic();
    const absl::Duration left = options.timeout - (now - begin);
    const std::string reason = base::GetReason(status);
    if (status.ok() || !reason.empty()) heard = now;
    absl::Duration pause;
    if (status.ok() || absl::IsDeadlineExceeded(status)) {  // A poll without a trial.
      backoff.Reset();
    } else {
      const bool passes = base::PassesWithTime(base::AdviceFor(status));
      if (!passes || !heard || now - *heard > FollowOptions().patience) return status;
      pause = backoff.Next(status);
      if (told.insert(reason).second) {
        context.err() << "luthier: " << (reason.empty() ? "the server does not answer" : Printable(status.message()))
                      << "; waiting\n"
                      << std::flush;
      }
    }
    if (pause >= left) {
      sleeper.Sleep(left);
      std::string why(status.message());
      if (status.ok()) {
        const absl::StatusOr<v1::Study> study = client.GetStudy(options.study);
        if (study.ok()) why = WhyNothing(*study);
      }
      context.err() << "luthier: nothing to try within " << absl::FormatDuration(options.timeout) << ": "
                    << Printable(why) << "\n";
      return std::optional<v1::SuggestResponse>();
    }
    sleeper.Sleep(pause);
  }
}

int PrintFinished(Context& context, const v1::FinishResponse& response) {
  for (const std::string& warning : response.warnings()) context.err() << "warning: " << Printable(warning) << "\n";
  if (context.structured()) {
    Json json = wire::ToJson(response);
    json["number"] = context.options().trial;
    context.Print(json);
  } else if (context.names()) {
    context.out() << wire::TrialName(context.options().study, context.options().trial) << "\n";
  } else {
    context.out() << "trial " << context.options().trial << ": " << v1::Trial::State_Name(response.state()) << "\n";
  }
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> Ask(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<v1::SuggestResponse> asked, WaitForTrials(context, *client));
  if (!asked) return kExitTimedOut;
  const v1::SuggestResponse& answer = *asked;
  std::vector<client::LeaseRef> leases;
  for (const v1::Lease& lease : answer.leases()) {
    leases.push_back({options.study, lease.trial().number(), lease.token()});
  }
  if (!leases.empty()) {
    // The trials are granted now, whether or not the token can be stored: it is printed as well.
    const absl::Status kept = Tokens(context).Put(context.ServerKey(), leases);
    if (!kept.ok()) context.err() << "warning: " << kept.message() << "; give `tell` the token with --token\n";
  } else {
    context.err() << "study " << options.study << " is finished: nothing left to try\n";
  }
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Lease& lease : answer.leases()) list.push_back(LeaseJson(lease));
    context.Print(list);
    return kExitDone;
  }
  std::vector<v1::Trial> trials;
  for (const v1::Lease& lease : answer.leases()) trials.push_back(lease.trial());
  if (!trials.empty()) context.Print(TrialTable(answer.leases(0).spec(), trials));
  for (const v1::Lease& lease : answer.leases()) {
    if (lease.target_step() == 0) continue;
    context.err() << "trial " << lease.trial().number() << ": train to step " << lease.target_step();
    if (!lease.resume_checkpoint().empty()) {
      context.err() << " from " << Printable(lease.resume_checkpoint()) << " (step " << lease.resume_step() << ")";
    }
    context.err() << ", then tell --paused --step " << lease.target_step() << "\n";
  }
  for (const v1::Trial& trial : trials) {
    if (trial.provenance().direction().empty()) continue;
    context.err() << "trial " << trial.number() << ": the slope along " << DirectionText(trial.provenance().direction())
                  << " is welcome (tell --slope NUMBER)\n";
  }
  return kExitDone;
}

absl::StatusOr<int> Tell(Context& context) {
  const Options& options = context.options();
  if (options.failed.empty()) {
    if (options.metrics.empty() && !options.pruned) {
      return UsageError("tell", "needs --metric NAME=VALUE for a result, or --failed REASON for a failure");
    }
    if (options.infra) return UsageError("--infra", "goes with --failed REASON");
    if (!options.message.empty()) return UsageError("--message", "goes with --failed REASON");
    if (options.paused && options.pruned) return UsageError("--paused", "goes without --pruned");
    if (options.paused && !options.step) return UsageError("--paused", "needs --step, the target that was reached");
    if (!options.checkpoint.empty() && !options.paused) return UsageError("--checkpoint", "goes with --paused");
  } else if (!options.metrics.empty() || options.pruned || options.paused || !options.gradient.empty() ||
             !options.gradients_of.empty() || options.slope || !options.training.empty()) {
    return UsageError(
        "--failed", absl::StrCat("a failure has no result; leave out ", !options.metrics.empty()    ? "--metric"
                                                                        : options.pruned            ? "--pruned"
                                                                        : options.paused            ? "--paused"
                                                                        : options.slope             ? "--slope"
                                                                        : !options.training.empty() ? "--training"
                                                                        : !options.gradient.empty() ? "--gradient"
                                                                                                    : "--gradient-of"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Measurement measurement, MeasurementOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const client::LeaseRef lease, FindLease(context));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (options.failed.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::FinishResponse response,
                             options.paused ? client->Pause(lease, measurement, options.checkpoint)
                                            : client->Complete(lease, measurement, options.pruned));
    return PrintFinished(context, response);
  }
  v1::Failure failure;
  failure.set_kind(options.infra ? v1::Failure::INFRA : v1::Failure::CONFIG);
  failure.set_reason(options.failed);
  failure.set_message(options.message);
  LUTHIER_ASSIGN_OR_RETURN(const v1::FinishResponse response, client->Fail(lease, failure));
  return PrintFinished(context, response);
}

absl::StatusOr<int> Report(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const v1::Measurement measurement, MeasurementOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const client::LeaseRef lease, FindLease(context));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::ReportResponse response,
                           client->Report(lease, {measurement}, context.options().checkpoint));
  const std::string directive = v1::HeartbeatResponse::Directive_Name(response.directive());
  if (context.structured())
    context.Print(Json{{"directive", directive}});
  else
    context.out() << directive << "\n";
  return kExitDone;
}

}  // namespace luthier::cli
