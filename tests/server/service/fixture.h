#ifndef LUTHIER_TESTS_SERVER_SERVICE_FIXTURE_H_
#define LUTHIER_TESTS_SERVER_SERVICE_FIXTURE_H_

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "lib/base/log.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/server.h"

namespace luthier::service::testing {

// A study with three parameters, two of them differentiable, and room for 20 trials.
inline constexpr char kSpec[] = R"({
  "space": [{"name": "x", "float": {"min": 0, "max": 1}},
            {"name": "lr", "float": {"min": 1e-6, "max": 1, "scale": "LOG"}},
            {"name": "k", "int": {"min": 1, "max": 5}}],
  "metric": {"name": "loss", "goal": "MINIMIZE"},
  "algorithm": {"random": {}},
  "budget": {"max_trials": 20},
  "seed": 3})";

template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return message;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base::SetLogLevel(base::LogLevel::kWarning);
    server::ServerOptions options;
    options.data_dir = "";
    options.listen = "127.0.0.1:0";
    options.designers = designers_;
    options.metrics_listen = metrics_listen_;
    options.farewell = farewell_;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    studies_ = v1::StudyService::NewStub(channel_);
    work_ = v1::WorkerService::NewStub(channel_);
  }

  static std::unique_ptr<grpc::ClientContext> Context(int seconds = 20) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
    return context;
  }

  absl::Status Create(const std::string& id, const v1::StudySpec& spec, v1::Study* out = nullptr) {
    v1::CreateStudyRequest request;
    request.set_study_id(id);
    *request.mutable_spec() = spec;
    v1::Study study;
    const absl::Status status = wire::FromGrpc(studies_->CreateStudy(Context().get(), request, &study));
    if (out != nullptr) *out = study;
    return status;
  }

  v1::SuggestRequest Ask(const std::string& study, const std::string& request_id) {
    v1::SuggestRequest request;
    request.set_study("projects/default/studies/" + study);
    request.set_worker("w1");
    request.set_request_id(request_id);
    return request;
  }

  v1::Lease Lease(const std::string& study, const std::string& request_id) {
    v1::SuggestResponse response;
    const grpc::Status status = work_->Suggest(Context().get(), Ask(study, request_id), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.leases_size(), 1);
    return response.leases_size() > 0 ? response.leases(0) : v1::Lease();
  }

  absl::Status Complete(const v1::Lease& lease, double value, v1::FinishResponse* out = nullptr,
                        const v1::Gradient* gradient = nullptr) {
    v1::CompleteRequest request;
    request.set_trial(lease.trial().name());
    request.set_token(lease.token());
    (*request.mutable_measurement()->mutable_metrics())["loss"] = value;
    if (gradient != nullptr) *request.mutable_measurement()->mutable_gradient() = *gradient;
    v1::FinishResponse response;
    const absl::Status status = wire::FromGrpc(work_->Complete(Context().get(), request, &response));
    if (out != nullptr) *out = response;
    return status;
  }

  int StudyCount() {
    v1::ListStudiesResponse response;
    EXPECT_TRUE(studies_->ListStudies(Context().get(), v1::ListStudiesRequest(), &response).ok());
    return response.studies_size();
  }

  // Set before SetUp: who makes designers. Null: the registry.
  decltype(server::ServerOptions::designers) designers_;
  std::string metrics_listen_;
  absl::Duration farewell_ = absl::ZeroDuration();
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::StudyService::Stub> studies_;
  std::unique_ptr<v1::WorkerService::Stub> work_;
};

}  // namespace luthier::service::testing

#endif  // LUTHIER_TESTS_SERVER_SERVICE_FIXTURE_H_
