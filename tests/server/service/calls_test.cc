#include "server/service/calls.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/service/methods.h"
#include "server/storage/memory_storage.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using coordinator::Coordinator;
using ::testing::HasSubstr;

// A transport that keeps what it is told.
class Kept final : public Responder {
 public:
  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override {
    const base::MutexLock lock(&mutex_);
    ++finished_;
    status_ = status;
    reply_ = reply.SerializeAsString();
    changed_.SignalAll();
  }
  void Write(const google::protobuf::Message&, std::function<void(bool)> written) override { written(true); }
  void Abort() override {}

  absl::Status Wait() {
    const base::MutexLock lock(&mutex_);
    while (finished_ == 0) changed_.Wait(&mutex_);
    return status_;
  }
  int finished() {
    const base::MutexLock lock(&mutex_);
    return finished_;
  }
  template <typename Message>
  Message reply() {
    Message message;
    EXPECT_TRUE(message.ParseFromString(reply_));
    return message;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int finished_ = 0;
  absl::Status status_;
  std::string reply_;
};

class CallsTest : public ::testing::Test {
 protected:
  void TearDown() override { coordinator_->Drain(); }

  std::shared_ptr<OpenCall> Start(const std::string& name, const std::string& bytes, Responder* responder) {
    const Method* const method = Find("/luthier.v1." + name);
    EXPECT_NE(method, nullptr) << name;
    return calls_.Start(*method, {}, bytes, responder);
  }

  base::SystemClock clock_;
  storage::MemoryStorage storage_;
  std::unique_ptr<Coordinator> coordinator_ = Coordinator::Start(&storage_, &clock_, {}).value();
  std::unique_ptr<base::Executor> readers_ = std::make_unique<base::Executor>(1, 8);
  const Calls calls_{Backend{coordinator_.get(), &storage_, readers_.get(), &clock_}};
};

TEST_F(CallsTest, TheTableHasEveryMethodOfTheServicesAndNoOther) {
  std::set<std::string> described, rows;
  for (const auto* file : {v1::CreateStudyRequest::descriptor()->file(), v1::SuggestRequest::descriptor()->file(),
                           v1::CreateTokenRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service(0)->method_count(); ++i) {
      const auto* const method = file->service(0)->method(i);
      const std::string path = absl::StrCat("/", file->service(0)->full_name(), "/", method->name());
      described.insert(path);
      const Method* const row = Find(path);
      ASSERT_NE(row, nullptr) << path;
      EXPECT_EQ(row->request->GetDescriptor(), method->input_type()) << path;
      EXPECT_EQ(row->reply->GetDescriptor(), method->output_type()) << path;
      EXPECT_EQ(row->streams, method->server_streaming()) << path;
    }
  }
  for (const Method& method : Methods())
    EXPECT_TRUE(rows.insert(method.path).second) << method.path << " is there twice";
  EXPECT_EQ(rows, described);
  EXPECT_EQ(Find("/luthier.v1.StudyService/NoSuchMethod"), nullptr);
}

TEST_F(CallsTest, ATransportOfItsOwnIsAnsweredLikeAnyOther) {
  v1::CreateStudyRequest create;
  create.set_study_id("s");
  *create.mutable_spec() = FromJson<v1::StudySpec>(kSpec);
  Kept made;
  const auto call = Start("StudyService/CreateStudy", create.SerializeAsString(), &made);
  ASSERT_TRUE(made.Wait().ok()) << made.Wait();
  EXPECT_EQ(made.reply<v1::Study>().name(), "projects/default/studies/s");
}

TEST_F(CallsTest, ARequestThatIsNoMessageIsRefusedByName) {
  Kept kept;
  const auto call = Start("StudyService/GetStudy", "\xff\xff\xff", &kept);
  const absl::Status status = kept.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a luthier.v1.GetStudyRequest"));
}

TEST_F(CallsTest, AWaitingAskThatHangsUpIsFinishedOnce) {
  v1::CreateStudyRequest create;
  create.set_study_id("s");
  *create.mutable_spec() = FromJson<v1::StudySpec>(kSpec);
  create.mutable_spec()->mutable_budget()->set_max_parallel(1);
  Kept made;
  const auto creating = Start("StudyService/CreateStudy", create.SerializeAsString(), &made);
  ASSERT_TRUE(made.Wait().ok()) << made.Wait();
  v1::SuggestRequest ask;
  ask.set_study("projects/default/studies/s");
  ask.set_worker("w");
  ask.set_request_id("a");
  Kept granted, waiting;
  const auto first = Start("WorkerService/Suggest", ask.SerializeAsString(), &granted);
  ASSERT_TRUE(granted.Wait().ok());
  EXPECT_EQ(granted.reply<v1::SuggestResponse>().leases_size(), 1);
  ask.set_request_id("b");
  const auto second = Start("WorkerService/Suggest", ask.SerializeAsString(), &waiting);
  EXPECT_EQ(waiting.finished(), 0);
  second->Cancel();
  EXPECT_FALSE(waiting.Wait().ok());
  second->Cancel();
  EXPECT_EQ(waiting.finished(), 1);
}

}  // namespace
}  // namespace luthier::service::testing
