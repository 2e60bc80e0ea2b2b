#ifndef LUTHIER_SERVER_SERVICE_CALLS_H_
#define LUTHIER_SERVER_SERVICE_CALLS_H_

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/access.h"
#include "server/service/backend.h"

// The calls of the API, whatever carries them: gRPC (grpc_calls.h), or anything else that knows who calls and can send
// messages back. A transport finds the method by its path, starts the call with the bytes of its request, and is told
// the answer:
//
//   const Method* method = Find("/luthier.v1.StudyService/GetStudy");
//   open = calls.Start(*method, {peer, time_left}, bytes, &responder);
//
// A call is weighed before it is parsed, needs its right, is admitted by its class, and is kept in the audit, all in
// Start and in the order of calls.cc.
namespace luthier::service {

struct Method;  // A row of the table of calls: methods.h.

// Returns the whole table.
const std::vector<Method>& Methods();
// Returns the method at a path "/luthier.v1.Service/Method"; null: there is none.
const Method* Find(absl::string_view path);

// The arrival of a call.
struct Arrival {
  access::Peer peer;
  absl::Duration time_left = absl::InfiniteDuration();  // Time until the caller gives up; infinite: it did not say.
};

// Sends what comes of one call. The functions are called on any thread, even before Calls::Start returns, and must not
// block. It must live until Finish is called, and is not used any more from then on.
class Responder {
 public:
  virtual ~Responder() = default;
  // Ends the call. Called exactly once. `reply` counts only if `status` is OK, and never for streams.
  virtual void Finish(const absl::Status& status, const google::protobuf::Message& reply) = 0;
  // Sends one message of a stream, then calls `written`, at once or later; false: it could not be sent, and the caller
  // is gone. The next one follows only after that, and so does Finish.
  virtual void Write(const google::protobuf::Message& message, std::function<void(bool ok)> written) = 0;
  // Hangs up on a caller who does not read a stream: a Write under way then fails, but only once this has returned.
  virtual void Abort() = 0;
};

// A call under way, for its transport, which keeps it until the answer was sent: it holds the memory that the call was
// promised.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  // The caller has hung up. The call goes on if it changes something; its Responder hears of its end in any case.
  virtual void Cancel() = 0;
};

struct Kept;  // kept.h

class Calls {
 public:
  explicit Calls(const Backend& backend);
  ~Calls();

  // Starts a call. `request` is used until it returns. `responder` as there; both it and this must outlive the call.
  std::shared_ptr<OpenCall> Start(const Method& method, Arrival arrival, absl::string_view request,
                                  Responder* responder) const;

 private:
  const Backend backend_;
  const std::unique_ptr<Kept> kept_;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_CALLS_H_
