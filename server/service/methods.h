#ifndef LUTHIER_SERVER_SERVICE_METHODS_H_
#define LUTHIER_SERVER_SERVICE_METHODS_H_

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"
#include "lib/study/project.h"
#include "lib/wire/resource_name.h"
#include "server/service/call.h"
#include "server/service/message_memory.h"

// The columns of the table of calls, and the kinds of its rows. The rows are at the end of study_service.cc,
// study_trials.cc, study_reads.cc, worker_service.cc and admin_service.cc, each below the functions that it names.
namespace luthier::service {

// Classes of calls, for when memory is short or the server is about to end.
enum class Admission {
  kAlways,  // Needs nothing.
  kRead,    // Reads: as kWork, and not while the server drains.
  kWork,    // Brings work: refused first.
  kEnding,  // Ends studies or trials: refused a little above the limit.
  kResult,  // Results and heartbeats: as kEnding, and counted among the results.
};

// Names what a call is about.
struct Target {
  access::Request request;
  wire::ResourceName name;  // Empty: the request names no resource.
};

struct Method {
  std::string path;  // "/luthier.v1.StudyService/GetStudy".
  const char* name;  // "StudyService/GetStudy".
  access::Right right;
  Admission admission;
  bool streams;
  // Empty messages of its types.
  const google::protobuf::Message* request;
  const google::protobuf::Message* reply;
  const MessageMemory* weight;  // Weighs requests.
  Target (*target)(const Method& method, const google::protobuf::Message& request);
  std::function<void(const CallPtr&)> run;  // Sees to it that the call is finished.
};

// Parts of the table.
std::vector<Method> StudyMethods();
std::vector<Method> TrialMethods();
std::vector<Method> StudyReadMethods();
std::vector<Method> WorkerMethods();
std::vector<Method> AdminMethods();

// Returns the resource that a request is about. The fields that name it are the same in all requests.
template <typename Message>
Target TargetOf(const Method& method, const google::protobuf::Message& any) {
  const Message& message = static_cast<const Message&>(any);
  Target target;
  access::Request& request = target.request;
  request.method = method.name;
  request.right = method.right;
  const auto names = [&](const char* field, const std::string& name) {
    target.name = wire::ResourceName(field, name);
    request.object = name;
  };
  if constexpr (requires { message.parent(); }) names("parent", message.parent());
  if constexpr (requires { message.name(); }) names("name", message.name());
  if constexpr (requires { message.id(); }) request.object = message.id();
  if constexpr (requires { message.projects(); }) {  // A token that is to be made.
    const std::string& first =
        !message.project().empty() || message.projects().empty() ? message.project() : message.projects(0);
    const absl::string_view project = first.empty() ? absl::string_view(study::kDefaultProject) : first;
    request.object = absl::StrCat("projects/", project, "/tokens/", message.name());
  }
  if constexpr (requires { message.study(); }) {
    if (!message.study().empty()) names("study", message.study());
  }
  if constexpr (requires { message.trial(); }) names("trial", message.trial());
  if constexpr (requires { message.request_id(); }) request.request_id = message.request_id();
  if constexpr (requires { message.spec().objective(); }) request.command = message.spec().objective().has_command();
  request.project = target.name.project();
  if constexpr (requires { message.study_id(); }) request.object = request.new_study = message.study_id();
  return target;
}

template <typename Request, typename Reply>
Method Row(const char* name, access::Right right, Admission admission, std::function<void(const CallPtr&)> run) {
  static const auto* const weight = new MessageMemory(Request::descriptor());
  return {absl::StrCat("/luthier.v1.", name),
          name,
          right,
          admission,
          false,
          &Request::default_instance(),
          &Reply::default_instance(),
          weight,
          TargetOf<Request>,
          std::move(run)};
}

// A call that `run` sees to.
template <typename Request, typename Reply>
Method Direct(const char* name, access::Right right, Admission admission,
              void (*run)(const CallPtr& call, const Request& request, Reply* reply)) {
  return Row<Request, Reply>(name, right, admission,
                             [run](const CallPtr& call) { run(call, call->request<Request>(), call->reply<Reply>()); });
}

// A stream of `Event`.
template <typename Event, typename Request>
Method Stream(const char* name, access::Right right, void (*run)(const CallPtr& call, const Request& request)) {
  Method row = Row<Request, Event>(name, right, Admission::kWork,
                                   [run](const CallPtr& call) { run(call, call->request<Request>()); });
  row.streams = true;
  return row;
}

// Sets what every operation takes over from its call.
template <typename Op, typename Request>
void TakeCaller(const Call& call, const Request& request, Op* op) {
  if constexpr (requires { op->actor; }) op->actor = call.actor(std::string(study::ProjectOf(op->id)));
  if constexpr (requires { op->request_id; }) op->request_id = call.caller().RequestId(request.request_id());
  if constexpr (requires { op->token; }) op->token = call.caller().Lease(request.token());
  if constexpr (requires { op->by; } || requires { op->owner; }) {
    const access::Caller& caller = call.caller();
    const std::string project(study::ProjectOf(op->id));
    const std::string owner = caller.Owner(project);
    if constexpr (requires { op->owner; }) op->owner = owner;
    if constexpr (requires { op->by; }) {
      op->by = {caller.maintains(), owner, caller.token.empty() ? "" : caller.Worker("", project)};
    }
  }
}

// A call that becomes an operation of the coordinator. `parse` makes it of the request, but for what TakeCaller sets;
// `fill` makes the reply, and may return a status: whether it could. `study`: the operation's.
template <typename Op, typename Result, typename Request, typename Reply, typename Filled>
Method Operation(const char* name, access::Right right, Admission admission,
                 absl::StatusOr<Op> (*parse)(const Call& call, const Request& request),
                 Filled (*fill)(const std::string& study, const Result& result, Reply* reply)) {
  return Row<Request, Reply>(name, right, admission, [parse, fill](const CallPtr& call) {
    const Request& request = call->request<Request>();
    absl::StatusOr<Op> op = parse(*call, request);
    if (!op.ok()) return call->Finish(op.status());
    TakeCaller(*call, request, &*op);
    op->done = [call, fill, study = op->id](absl::StatusOr<Result> result) {
      if (!result.ok()) return call->Finish(result.status());
      if constexpr (std::is_void_v<Filled>) {
        fill(study, *result, call->reply<Reply>());
        call->Finish(absl::OkStatus());
      } else {
        call->Finish(fill(study, *result, call->reply<Reply>()));
      }
    };
    call->backend().coordinator->Submit(*std::move(op), call->deadline(), call->permit());
  });
}

// Work on other threads: SQLite, and whatever computes.
enum class Work {
  kRead,    // The permit is checked again before the reply is sent.
  kScan,    // Looks at all of a study, or computes. Scans wait for each other, and yield to all others.
  kChange,  // The work checks the permit itself, and its reply is sent in any case.
};
void OnThreads(const CallPtr& call, Work kind, std::function<absl::Status()> work);

// A call that is answered by `work` on the readers' threads, or on the scanners' if `scans` says so.
template <typename Request, typename Reply>
Method Read(const char* name, access::Right right,
            absl::Status (*work)(const Call& call, const Request& request, Reply* reply),
            bool (*scans)(const Request& request) = nullptr) {
  return Row<Request, Reply>(name, right, Admission::kRead, [work, scans](const CallPtr& call) {
    const Request& request = call->request<Request>();
    OnThreads(call, scans != nullptr && scans(request) ? Work::kScan : Work::kRead,
              [call = call.get(), work, &request] { return work(*call, request, call->reply<Reply>()); });
  });
}
template <typename Request>
bool Always(const Request&) {
  return true;
}

// A call by which an admin changes tokens or projects.
template <typename Request, typename Reply>
Method AdminChange(const char* name, absl::Status (*work)(const Call& call, const Request& request, Reply* reply)) {
  return Row<Request, Reply>(name, access::Right::kAdmin, Admission::kRead, [work](const CallPtr& call) {
    OnThreads(call, Work::kChange,
              [call = call.get(), work] { return work(*call, call->request<Request>(), call->reply<Reply>()); });
  });
}

// Checks that `id` has 1 to 64 printable ASCII characters, or is empty where that is allowed.
absl::Status CheckRequestId(const std::string& id, bool required = false);

// The error when too much waits: "reads".
absl::Status Busy(const Backend& backend, absl::string_view what);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_METHODS_H_
