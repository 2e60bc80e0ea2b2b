#ifndef LUTHIER_TESTS_SERVER_ACCESS_ACCESS_FIXTURE_H_
#define LUTHIER_TESTS_SERVER_ACCESS_ACCESS_FIXTURE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/log.h"
#include "lib/wire/channel.h"
#include "lib/wire/status.h"
#include "luthier/v1/admin_service.grpc.pb.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/access/access_store.h"
#include "server/access/token.h"
#include "server/server.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::access::testing {

inline wire::ChannelSecurity WithToken(const std::string& token) {
  wire::ChannelSecurity security;
  security.token = token;
  return security;
}

// A coordinator on a port of loopback that asks for tokens, with one token for each kind of caller.
class AccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base::SetLogLevel(base::LogLevel::kError);
    storage::SqliteOptions studies;  // Tokens alone would say that the studies were lost.
    studies.directory = dir_.path();
    ASSERT_TRUE(storage::SqliteStorage::Open(studies).ok());
    auto store = AccessStore::Open(dir_.path());
    ASSERT_TRUE(store.ok()) << store.status();
    for (const char* project : {"vision", "other", "speech"})
      ASSERT_TRUE((*store)->Put(ProjectRecord{project, absl::Now(), {}}).ok());
    Put(**store, "viewer", {Role::kViewer});
    Put(**store, "user", {Role::kUser});
    Put(**store, "worker", {Role::kWorker});
    Put(**store, "both", {Role::kUser, Role::kWorker});
    Put(**store, "admin", {Role::kAdmin}, "default");
    Put(**store, "commander", {Role::kUser}, "vision", [](TokenRecord* token) { token->commands = true; });
    Put(**store, "stranger", {Role::kUser}, "other");
    Put(**store, "maintainer", {Role::kMaintainer});
    Put(**store, "several", {Role::kUser}, "vision",
        [](TokenRecord* token) { token->projects = {"vision", "speech"}; });
    Put(**store, "speaker", {Role::kUser}, "speech");
    Put(**store, "expired", {Role::kAdmin}, "default",
        [](TokenRecord* token) { token->expire_time = absl::Now() - absl::Seconds(1); });
    Put(**store, "revoked", {Role::kAdmin}, "default",
        [](TokenRecord* token) { token->revoke_time = absl::Now() - absl::Seconds(1); });
    store->reset();
    Start();
  }

  virtual void Configure(server::ServerOptions*) {}

  void Start() {
    server::ServerOptions options;
    options.data_dir = dir_.path();
    options.listen = "127.0.0.1:0";
    Configure(&options);
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Put(AccessStore& store, const std::string& name, std::set<Role> roles, const std::string& project = "vision",
           const std::function<void(TokenRecord*)>& change = nullptr) {
    const TokenText text = NewToken();
    TokenRecord token;
    token.id = text.id;
    token.name = name;
    token.project = project;
    token.roles = std::move(roles);
    token.hash = HashOf(text.secret);
    token.create_time = absl::Now();
    token.lifetime = absl::Hours(1);
    token.expire_time = absl::Now() + absl::Hours(1);
    if (change) change(&token);
    ASSERT_TRUE(store.Put(token).ok());
    tokens_[name] = text.ToString();
    ids_[name] = text.id;
  }

  // A channel of the caller; "": without a token.
  std::shared_ptr<grpc::Channel> Channel(const std::string& name) {
    wire::ChannelSecurity security;
    if (!name.empty()) security.token = tokens_.count(name) > 0 ? tokens_[name] : name;
    return wire::CreateChannel(server_->address(), security).value();
  }
  std::shared_ptr<grpc::Channel> Socket() {
    return wire::CreateChannel(absl::StrCat("unix:", dir_.path(), "/socket")).value();
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return context;
  }

  // A study that can be created.
  static v1::CreateStudyRequest Study(const std::string& id) {
    v1::CreateStudyRequest create;
    create.set_study_id(id);
    auto* parameter = create.mutable_spec()->add_space();
    parameter->set_name("x");
    parameter->mutable_float_()->set_min(0);
    parameter->mutable_float_()->set_max(1);
    create.mutable_spec()->mutable_metric()->set_name("loss");
    create.mutable_spec()->mutable_metric()->set_goal(v1::MINIMIZE);
    create.mutable_spec()->mutable_algorithm()->mutable_random();
    create.mutable_spec()->mutable_budget()->set_max_trials(10);
    return create;
  }
  static std::string Reason(const grpc::Status& status) { return base::GetReason(wire::FromGrpc(status)); }

  // Makes any call that has one answer, or a stream that is refused.
  static absl::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           const google::protobuf::MethodDescriptor* method, const google::protobuf::Message& request) {
    const grpc::Slice bytes(request.SerializeAsString());
    const std::string path = absl::StrCat("/", method->service()->full_name(), "/", method->name());
    return wire::FromGrpc(CallPath(channel, path, grpc::ByteBuffer(&bytes, 1)));
  }
  static grpc::Status CallPath(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                               const grpc::ByteBuffer& sent) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    const auto context = Context();
    auto call = stub.PrepareUnaryCall(context.get(), path, sent, &queue);
    call->StartCall();
    grpc::ByteBuffer received;
    grpc::Status status;
    call->Finish(&received, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  luthier::testing::TemporaryDirectory dir_;
  std::map<std::string, std::string> tokens_, ids_;
  std::unique_ptr<server::Server> server_;
};

}  // namespace luthier::access::testing

#endif  // LUTHIER_TESTS_SERVER_ACCESS_ACCESS_FIXTURE_H_
