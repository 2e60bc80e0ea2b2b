// What callers are told whose calls are under way when the server closes its connections.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

class ClosingTest : public ServiceTest {
 protected:
  // Heartbeats, one after the other on a connection of its own, until the connection ends. Returns what was answered
  // that is neither OK nor UNAVAILABLE.
  std::vector<absl::Status> HeartbeatToTheEnd(std::atomic<int>* answered) const {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::WorkerService::NewStub(
        grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), own));
    v1::HeartbeatRequest request;
    request.set_worker("w1");
    std::vector<absl::Status> others;
    while (true) {
      v1::HeartbeatResponse response;
      const absl::Status status = wire::FromGrpc(stub->Heartbeat(Context().get(), request, &response));
      ++*answered;
      if (status.ok()) continue;
      if (!absl::IsUnavailable(status)) {
        others.push_back(status);
      } else if (base::GetReason(status) != base::reason::kDraining) {
        return others;
      }
    }
  }
};

// gRPC tells calls CANCELLED that arrive while it shuts down: clients take that for their own doing.
TEST_F(ClosingTest, CallsUnderWayAreUnavailable) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) SetUp();
    std::atomic<int> answered{0};
    std::vector<std::vector<absl::Status>> others(4);
    std::vector<std::thread> workers;
    for (auto& mine : others) workers.emplace_back([&] { mine = HeartbeatToTheEnd(&answered); });
    while (answered < 40) std::this_thread::yield();
    server_->Stop();
    for (std::thread& worker : workers) worker.join();
    for (const auto& mine : others) {
      for (const absl::Status& status : mine) ADD_FAILURE() << status;
    }
  }
}

}  // namespace
}  // namespace luthier::service::testing
