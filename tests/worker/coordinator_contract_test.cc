#include "tests/contract/coordinator_contract.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/convert.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "server/server.h"
#include "tests/worker/fake_coordinator.h"
#include "worker/grpc_coordinator.h"

namespace luthier::worker {
namespace {

class FakeUnderTest final : public CoordinatorUnderTest {
 public:
  explicit FakeUnderTest(const ContractStudy& study) {
    fake_.study_id = kContractStudy;
    fake_.spec = study.spec;
    for (int64_t trial = 1; trial <= study.trials; ++trial) {
      Lease lease;
      lease.run.study = kContractStudy;
      lease.run.trial = trial;
      lease.run.parameters = {{"lr", 0.5}};
      lease.token = absl::StrCat("token-", trial);
      lease.ttl = study.spec.lease.ttl;
      lease.run.spec = study.spec;
      fake_.queue.push_back(lease);
    }
  }
  CoordinatorApi& api() override { return fake_; }
  void NoteAllEnded() override {
    fake_.Do([&] { fake_.done = true; });
  }
  void GoAway() override {
    fake_.Do([&] { fake_.away = true; });
  }

 private:
  World world_;
  FakeWaitClock clock_{&world_};
  FakeCoordinator fake_{&world_, &clock_};
};

// A whole server that keeps its data in memory, and the adapter that ships, over a loopback connection.
class ServerUnderTest final : public CoordinatorUnderTest {
 public:
  explicit ServerUnderTest(const ContractStudy& study) {
    base::SetLogLevel(base::LogLevel::kOff);
    server::ServerOptions options;
    options.listen = "127.0.0.1:0";
    server_ = server::Server::Start(options).value();
    const auto studies =
        v1::StudyService::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    v1::CreateStudyRequest request;
    request.set_study_id(kContractStudy);
    *request.mutable_spec() = wire::ToProto(study.spec);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::Study response;
    const absl::Status created = wire::FromGrpc(studies->CreateStudy(&context, request, &response));
    EXPECT_TRUE(created.ok()) << created;
    api_ = ConnectCoordinator(server_->address()).value();
  }
  ~ServerUnderTest() override { base::SetLogLevel(base::LogLevel::kInfo); }
  CoordinatorApi& api() override { return *api_; }
  void GoAway() override { server_.reset(); }

 private:
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<CoordinatorApi> api_;
};

template <typename UnderTest>
std::unique_ptr<CoordinatorUnderTest> Make(const ContractStudy& study) {
  return std::make_unique<UnderTest>(study);
}

INSTANTIATE_TEST_SUITE_P(Fake, CoordinatorContract, ::testing::Values(Make<FakeUnderTest>),
                         [](auto&) { return "All"; });
INSTANTIATE_TEST_SUITE_P(Server, CoordinatorContract, ::testing::Values(Make<ServerUnderTest>),
                         [](auto&) { return "All"; });

}  // namespace
}  // namespace luthier::worker
