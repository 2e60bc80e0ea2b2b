#ifndef LUTHIER_TESTS_SERVER_SERVICE_OVER_STORAGE_H_
#define LUTHIER_TESTS_SERVER_SERVICE_OVER_STORAGE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/executor.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/service/calls.h"
#include "server/service/grpc_calls.h"
#include "server/storage/memory_storage.h"

namespace luthier::service::testing {

// The service over a coordinator and a storage that the test can get at, with one thread for reads.
template <typename Storage>
class OverStorage : public ::testing::Test {
 protected:
  // `places`: number of reads that may wait.
  void Start(size_t places, coordinator::Coordinator::Options options = {}) {
    coordinator_ = coordinator::Coordinator::Start(&storage_, &clock_, std::move(options)).value();
    readers_ = std::make_unique<base::Executor>(1, places);
    calls_ = std::make_unique<Calls>(Backend{coordinator_.get(), &storage_, readers_.get(), &clock_});
    service_ = std::make_unique<GrpcCalls>(calls_.get());
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::StudyService::NewStub(server_->InProcessChannel({}));
  }
  void TearDown() override {
    coordinator_->Drain();
    server_->Shutdown();
    readers_.reset();
    coordinator_.reset();
  }

  base::SystemClock clock_;
  storage::MemoryStorage memory_;
  Storage storage_{&memory_};
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<base::Executor> readers_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<GrpcCalls> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::StudyService::Stub> stub_;
};

}  // namespace luthier::service::testing

#endif  // LUTHIER_TESTS_SERVER_SERVICE_OVER_STORAGE_H_
