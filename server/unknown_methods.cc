#include "server/unknown_methods.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/version.h"
#include "lib/wire/status.h"

namespace luthier::server {
namespace {

class Refused final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  return new Refused(wire::ToGrpc(UnknownMethod(context->method())));
}

absl::Status UnknownMethod(const std::string& path) {
  return base::MakeError(absl::StatusCode::kUnimplemented, base::reason::kUnimplemented,
                         absl::StrCat("luthierd ", base::kVersion, " has no method ", base::Quote(path),
                                      "; a client that is newer than this coordinator needs a newer luthierd, and a "
                                      "health check calls /grpc.health.v1.Health/Check"));
}

}  // namespace luthier::server
