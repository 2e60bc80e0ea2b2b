#ifndef LUTHIER_SERVER_SERVICE_CALL_H_
#define LUTHIER_SERVER_SERVICE_CALL_H_

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/wire/resource_name.h"
#include "server/access/access.h"
#include "server/service/backend.h"
#include "server/service/calls.h"
#include "server/service/kept.h"

namespace luthier::service {

// A call as its method sees it: who calls, what was asked, and where the answer goes. Thread-safe, but for the reply,
// which whoever finishes the call fills before.
class Call final : public OpenCall, public std::enable_shared_from_this<Call> {
 public:
  // A call that goes on after its method has returned, and can end by itself.
  class Lasting {
   public:
    virtual ~Lasting() = default;
    virtual void OnCancel() = 0;
  };

  Call(const Backend& backend, Kept* kept, const Method& method, Arrival arrival, Responder* responder);

  const Backend& backend() const { return backend_; }
  Kept& kept() const { return *kept_; }
  const access::Peer& peer() const { return peer_; }
  const access::Caller& caller() const { return admission_.caller; }
  // Returns the name in the request of the resource that the call is about.
  const wire::ResourceName& name() const { return name_; }
  // Returns the project that the call is about: its caller's, if the request names none.
  absl::StatusOr<std::string> Project() const;
  // Returns the caller's name for events of the project `of`: "alice@ipv4:10.0.0.7", or the address alone of a caller
  // without a token.
  std::string actor(const std::string& of) const;
  // Returns the caller's deadline on Clock::Monotonic(): after 30 s if it gave none, after at most 60 s.
  absl::Duration deadline() const { return deadline_; }
  // Returns the caller's right to have the call go on; null: none is needed.
  access::PermitPtr permit() const { return admission_.standing; }
  absl::Status StillAllowed() const;
  // Raised when the caller has hung up, or its token has ended.
  base::StopToken caller_gone() const { return gone_.token(); }

  template <typename Message>
  const Message& request() const {
    return static_cast<const Message&>(*request_);
  }
  template <typename Message>
  Message* reply() {
    return static_cast<Message*>(reply_.get());
  }

  // Ends the call, unless it has ended: the first one counts.
  void Finish(const absl::Status& status);
  // As Responder's. For streams, until Finish.
  void Write(const google::protobuf::Message& message, std::function<void(bool ok)> written) {
    responder_->Write(message, std::move(written));
  }
  void Abort() { responder_->Abort(); }
  // Calls `ended` once when the caller's token ends before the call does: on any thread, and on this one if it has.
  void OnTokenEnd(access::WaitingCalls::Listener ended);
  // Ends the call with the caller's token.
  void EndWithToken();
  // Keeps `lasting` until Finish.
  void Keep(std::shared_ptr<Lasting> lasting);
  void Cancel() override;

 private:
  friend class Calls;

  // Parses the request, unless it would take more memory than there is for it.
  absl::Status Read(absl::string_view bytes);
  // Finishes after the refusal's delay.
  void FinishRefused(const access::Refusal& refusal);

  const Backend& backend_;
  Kept* const kept_;
  const Method& method_;
  const access::Peer peer_;
  const absl::Duration deadline_;
  Responder* const responder_;  // Valid until it is told the end.
  const base::StopSource gone_;
  std::unique_ptr<google::protobuf::Message> request_, reply_;
  wire::ResourceName name_;
  MemoryGuard::Promise memory_;
  access::Admitted admission_;
  base::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  access::Registry::Ending ending_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Lasting> lasting_ ABSL_GUARDED_BY(mutex_);
};

using CallPtr = std::shared_ptr<Call>;

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_CALL_H_
