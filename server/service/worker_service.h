#ifndef LUTHIER_SERVER_SERVICE_WORKER_SERVICE_H_
#define LUTHIER_SERVER_SERVICE_WORKER_SERVICE_H_

#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/service/call_memory.h"
#include "server/service/handler.h"

namespace luthier::service {

// luthier.v1.WorkerService over a coordinator; worker_service.proto is the manual.
class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(Backend backend) : backend_(backend) {}
  const Backend& backend() const { return backend_; }

  grpc::ServerUnaryReactor* Suggest(grpc::CallbackServerContext* context, const v1::SuggestRequest* request,
                                    v1::SuggestResponse* response) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context, const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override;
  grpc::ServerUnaryReactor* Report(grpc::CallbackServerContext* context, const v1::ReportRequest* request,
                                   v1::ReportResponse* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context, const v1::CompleteRequest* request,
                                     v1::FinishResponse* response) override;
  grpc::ServerUnaryReactor* Fail(grpc::CallbackServerContext* context, const v1::FailRequest* request,
                                 v1::FinishResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context, const v1::ReleaseRequest* request,
                                    v1::FinishResponse* response) override;
  grpc::ServerUnaryReactor* DeclareParameters(grpc::CallbackServerContext* context,
                                              const v1::DeclareParametersRequest* request,
                                              v1::DeclareParametersResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const v1::GetServerInfoRequest* request,
                                          v1::ServerInfo* response) override;

 private:
  grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const std::string& trial,
                                   const std::string& token, coordinator::FinishOp op, base::Violations violations,
                                   v1::FinishResponse* response);

  const Backend backend_;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_WORKER_SERVICE_H_
