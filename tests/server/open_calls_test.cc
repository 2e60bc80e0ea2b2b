#include "server/open_calls.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "lib/base/log.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/server.h"

namespace luthier::server {
namespace {

using ::testing::IsEmpty;

constexpr auto kPatience = absl::Seconds(20);  // Whoever waits in vain fails.

std::shared_ptr<grpc::Channel> OwnConnection(const std::string& address) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own);
}

// Begins every call and ends none before it is told to, whatever the client does.
class Holder final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
      void OnDone() override { delete this; }
    };
    auto* reactor = new Reactor;
    const base::MutexLock lock(&mutex_);
    held_.push_back(reactor);
    changed_.SignalAll();
    return reactor;
  }
  void WaitFor(size_t calls) {
    const base::MutexLock lock(&mutex_);
    while (held_.size() < calls) ASSERT_FALSE(changed_.WaitFor(&mutex_, kPatience)) << held_.size() << " calls";
  }
  void EndAll() {
    std::vector<grpc::ServerGenericBidiReactor*> held;
    {
      const base::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (auto* reactor : held) reactor->Finish(grpc::Status::OK);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<grpc::ServerGenericBidiReactor*> held_ ABSL_GUARDED_BY(mutex_);
};

class OpenCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&holder_);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(calls_.Interceptors());
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  void TearDown() override {
    holder_.EndAll();
    server_->Shutdown();
  }
  // Calls, resets the stream, and waits until the client has forgotten the call. The server holds `calls` then.
  void CallAndReset(v1::WorkerService::Stub& stub, size_t calls) {
    grpc::ClientContext context;
    v1::HeartbeatResponse response;
    const v1::HeartbeatRequest request;
    absl::Notification over;
    stub.async()->Heartbeat(&context, &request, &response, [&](const grpc::Status& status) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
      over.Notify();
    });
    holder_.WaitFor(calls);
    context.TryCancel();
    EXPECT_TRUE(over.WaitForNotificationWithTimeout(kPatience));
  }
  std::vector<std::string> aborted() {
    const base::MutexLock lock(&mutex_);
    return aborted_;
  }

  base::SystemClock clock_;
  base::Mutex mutex_;
  std::vector<std::string> aborted_ ABSL_GUARDED_BY(mutex_);
  OpenCalls calls_{&clock_, 2, [this](const std::string& peer) {
                     const base::MutexLock lock(&mutex_);
                     aborted_.push_back(peer);
                   }};
  Holder holder_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(OpenCallsTest, StreamsThatAreResetCountUntilTheirCallIsOver) {
  const auto stub = v1::WorkerService::NewStub(OwnConnection(address_));
  CallAndReset(*stub, 1);
  CallAndReset(*stub, 2);
  EXPECT_THAT(aborted(), IsEmpty());
  const auto other = v1::WorkerService::NewStub(OwnConnection(address_));
  CallAndReset(*other, 3);
  EXPECT_THAT(aborted(), IsEmpty()) << "each connection has its own";
  CallAndReset(*stub, 4);
  ASSERT_EQ(aborted().size(), 1u);
  EXPECT_TRUE(absl::StartsWith(aborted()[0], "ipv4:127.0.0.1:")) << aborted()[0];
  CallAndReset(*stub, 5);
  EXPECT_EQ(aborted().size(), 1u) << "once";
  holder_.EndAll();
  calls_.WaitForNone(kPatience);
  CallAndReset(*stub, 1);
  CallAndReset(*stub, 2);
  EXPECT_EQ(aborted().size(), 1u) << "those that are over are forgotten";
  CallAndReset(*stub, 3);
  EXPECT_EQ(aborted().size(), 2u);
}

TEST_F(OpenCallsTest, WaitForNoneEndsAtItsTimeout) {
  calls_.WaitForNone(absl::InfiniteDuration());
  const auto stub = v1::WorkerService::NewStub(OwnConnection(address_));
  CallAndReset(*stub, 1);
  const absl::Duration begin = clock_.Monotonic();
  calls_.WaitForNone(absl::Milliseconds(5));
  EXPECT_GE(clock_.Monotonic() - begin, absl::Milliseconds(5));
}

// The whole server ends the connection, and no other.
TEST(OpenCallsOfAServer, AConnectionWithTooManyCallsIsAborted) {
  base::SetLogLevel(base::LogLevel::kOff);
  for (const char* listen : {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"}) {
    ServerOptions options;
    options.listen = listen;
    options.accept_plaintext = true;
    options.auth = access::Auth::kOff;
    options.calls_per_connection = 3;
    const auto server = Server::Start(options);
    if (!server.ok() && absl::StartsWith(listen, "[")) continue;  // No IPv6 here.
    ASSERT_TRUE(server.ok()) << server.status();
    std::string address = (*server)->address();
    if (absl::StartsWith(address, "0.0.0.0")) address.replace(0, 7, "127.0.0.1");
    const auto bystander = v1::WorkerService::NewStub(OwnConnection(address));
    const auto info = [&] {
      grpc::ClientContext context;
      v1::ServerInfo answer;
      return wire::FromGrpc(bystander->GetServerInfo(&context, {}, &answer));
    };
    EXPECT_TRUE(info().ok());
    // Asks of any study wait.
    const auto greedy = v1::WorkerService::NewStub(OwnConnection(address));
    struct Ask {
      grpc::ClientContext context;
      v1::SuggestRequest request;
      v1::SuggestResponse response;
      grpc::Status status;
      absl::Notification over;
    };
    std::vector<std::unique_ptr<Ask>> asks;
    for (int i = 0; i < 4; ++i) {
      Ask& ask = *asks.emplace_back(std::make_unique<Ask>());
      ask.request.set_worker("w");
      ask.request.set_request_id(std::to_string(i));
      greedy->async()->Suggest(&ask.context, &ask.request, &ask.response, [&ask](const grpc::Status& status) {
        ask.status = status;
        ask.over.Notify();
      });
    }
    for (const auto& ask : asks) {
      ASSERT_TRUE(ask->over.WaitForNotificationWithTimeout(kPatience)) << listen;
      EXPECT_EQ(ask->status.error_code(), grpc::StatusCode::UNAVAILABLE) << ask->status.error_message();
    }
    EXPECT_TRUE(info().ok());
  }
}

}  // namespace
}  // namespace luthier::server
