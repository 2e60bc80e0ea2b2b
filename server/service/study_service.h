#ifndef LUTHIER_SERVER_SERVICE_STUDY_SERVICE_H_
#define LUTHIER_SERVER_SERVICE_STUDY_SERVICE_H_

#include <atomic>

#include "luthier/v1/study_service.grpc.pb.h"
#include "server/service/call_memory.h"
#include "server/service/handler.h"
#include "server/service/importances.h"
#include "server/service/trial_table.h"

namespace luthier::service {

// luthier.v1.StudyService over a coordinator; study_service.proto is the manual.
class StudyService final : public v1::StudyService::CallbackService {
 public:
  explicit StudyService(Backend backend) : backend_(backend) {}
  const Backend& backend() const { return backend_; }

  grpc::ServerUnaryReactor* CreateStudy(grpc::CallbackServerContext* context, const v1::CreateStudyRequest* request,
                                        v1::Study* response) override;
  grpc::ServerUnaryReactor* GetStudy(grpc::CallbackServerContext* context, const v1::GetStudyRequest* request,
                                     v1::Study* response) override;
  grpc::ServerUnaryReactor* ListStudies(grpc::CallbackServerContext* context, const v1::ListStudiesRequest* request,
                                        v1::ListStudiesResponse* response) override;
  grpc::ServerUnaryReactor* PauseStudy(grpc::CallbackServerContext* context, const v1::ControlStudyRequest* request,
                                       v1::Study* response) override;
  grpc::ServerUnaryReactor* ResumeStudy(grpc::CallbackServerContext* context, const v1::ControlStudyRequest* request,
                                        v1::Study* response) override;
  grpc::ServerUnaryReactor* StopStudy(grpc::CallbackServerContext* context, const v1::ControlStudyRequest* request,
                                      v1::Study* response) override;
  grpc::ServerUnaryReactor* CancelStudy(grpc::CallbackServerContext* context, const v1::ControlStudyRequest* request,
                                        v1::Study* response) override;
  grpc::ServerUnaryReactor* DeleteStudy(grpc::CallbackServerContext* context, const v1::ControlStudyRequest* request,
                                        v1::DeleteStudyResponse* response) override;
  grpc::ServerUnaryReactor* GetTrial(grpc::CallbackServerContext* context, const v1::GetTrialRequest* request,
                                     v1::Trial* response) override;
  grpc::ServerUnaryReactor* ListTrials(grpc::CallbackServerContext* context, const v1::ListTrialsRequest* request,
                                       v1::ListTrialsResponse* response) override;
  grpc::ServerUnaryReactor* EnqueueTrials(grpc::CallbackServerContext* context, const v1::EnqueueTrialsRequest* request,
                                          v1::EnqueueTrialsResponse* response) override;
  grpc::ServerUnaryReactor* UpdateStudy(grpc::CallbackServerContext* context, const v1::UpdateStudyRequest* request,
                                        v1::Study* response) override;
  grpc::ServerUnaryReactor* ImportTrials(grpc::CallbackServerContext* context, const v1::ImportTrialsRequest* request,
                                         v1::ImportTrialsResponse* response) override;
  grpc::ServerUnaryReactor* RetryTrials(grpc::CallbackServerContext* context, const v1::RetryTrialsRequest* request,
                                        v1::EnqueueTrialsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteTrial(grpc::CallbackServerContext* context, const v1::DeleteTrialRequest* request,
                                        v1::DeleteTrialResponse* response) override;
  grpc::ServerUnaryReactor* SetAttributes(grpc::CallbackServerContext* context, const v1::SetAttributesRequest* request,
                                          v1::Trial* response) override;
  grpc::ServerUnaryReactor* CancelTrial(grpc::CallbackServerContext* context, const v1::CancelTrialRequest* request,
                                        v1::Trial* response) override;
  grpc::ServerUnaryReactor* StopTrial(grpc::CallbackServerContext* context, const v1::StopTrialRequest* request,
                                      v1::Trial* response) override;
  grpc::ServerUnaryReactor* GetTrialTable(grpc::CallbackServerContext* context, const v1::GetTrialTableRequest* request,
                                          v1::GetTrialTableResponse* response) override;
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context, const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override;
  grpc::ServerUnaryReactor* GetImportance(grpc::CallbackServerContext* context, const v1::GetImportanceRequest* request,
                                          v1::GetImportanceResponse* response) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;
  grpc::ServerUnaryReactor* ExplainTrial(grpc::CallbackServerContext* context, const v1::ExplainTrialRequest* request,
                                         v1::ExplainTrialResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerWriteReactor<v1::Event>* WatchStudy(grpc::CallbackServerContext* context,
                                                  const v1::WatchStudyRequest* request) override;

 private:
  grpc::ServerUnaryReactor* RunControl(grpc::CallbackServerContext* context, const v1::ControlStudyRequest& request,
                                       coordinator::Control control, v1::Study* response);
  // Finishes the call with the study as the write left it, with the counts at the time of reading, and keeps that
  // answer for repetitions of `request_id` (unless empty) before it leaves. `place` is for reading the study. It is
  // reserved before the write, so that busy readers refuse the call before anything has changed. UNAVAILABLE if the
  // study can't be read back.
  coordinator::Done<coordinator::StudyReply> AnswerWithStudy(grpc::ServerUnaryReactor* reactor,
                                                             base::Executor::Place place, const std::string& request_id,
                                                             v1::Study* response);

  // Runs `compute`, or returns UNAVAILABLE while another one runs.
  absl::Status OneAtATime(absl::FunctionRef<absl::Status()> compute);

  const Backend backend_;
  std::atomic<int> watchers_{0};
  TrialTables tables_{backend_.memory, backend_.clock};
  Importances importances_;
  std::atomic<bool> computing_{false};  // True while importance or a prediction is computed.
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_STUDY_SERVICE_H_
