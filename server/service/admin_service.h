#ifndef LUTHIER_SERVER_SERVICE_ADMIN_SERVICE_H_
#define LUTHIER_SERVER_SERVICE_ADMIN_SERVICE_H_

#include "luthier/v1/admin_service.grpc.pb.h"
#include "server/access/access.h"
#include "server/service/call_memory.h"
#include "server/service/handler.h"

namespace luthier::service {

// luthier.v1.AdminService over the tokens and projects of a coordinator; admin_service.proto is the manual.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `access` must outlive it.
  AdminService(Backend backend, access::Access* access) : backend_(backend), access_(access) {}
  const Backend& backend() const { return backend_; }

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RotateToken(grpc::CallbackServerContext* context, const v1::RotateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
                                        v1::Token* response) override;
  grpc::ServerUnaryReactor* CreateProject(grpc::CallbackServerContext* context, const v1::CreateProjectRequest* request,
                                          v1::Project* response) override;
  grpc::ServerUnaryReactor* UpdateProject(grpc::CallbackServerContext* context, const v1::UpdateProjectRequest* request,
                                          v1::Project* response) override;
  grpc::ServerUnaryReactor* ListProjects(grpc::CallbackServerContext* context, const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context, const v1::ListAuditRequest* request,
                                      v1::ListAuditResponse* response) override;

 private:
  // Returns the right by which a change is made, and its id.
  absl::StatusOr<access::Change> ChangeOf(const grpc::CallbackServerContext& context,
                                          const std::string& request_id) const;

  const Backend backend_;
  access::Access* const access_;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_ADMIN_SERVICE_H_
