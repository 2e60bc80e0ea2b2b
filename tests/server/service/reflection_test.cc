#include "server/service/reflection.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "luthier/v1/study_service.pb.h"
#include "server/service/calls.h"
#include "server/service/methods.h"
#include "tests/server/service/fixture.h"

namespace luthier::service {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

ServerReflectionRequest AskForSymbol(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(name);
  return request;
}

ServerReflectionRequest AskForFile(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_by_filename(name);
  return request;
}

ServerReflectionRequest AskForServices() {
  ServerReflectionRequest request;
  request.set_list_services("");
  return request;
}

std::vector<std::string> ServicesIn(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) names.push_back(service.name());
  return names;
}

// The files of an answer by their names, each there once.
std::map<std::string, FileDescriptorProto> FilesIn(const ServerReflectionResponse& response) {
  std::map<std::string, FileDescriptorProto> files;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    EXPECT_TRUE(files.emplace(file.name(), file).second) << file.name() << " is there twice";
  }
  return files;
}

// Adds a file after those that it imports.
void Build(const std::string& name, const std::map<std::string, FileDescriptorProto>& files, DescriptorPool* pool) {
  if (pool->FindFileByName(name) != nullptr) return;
  const auto found = files.find(name);
  ASSERT_NE(found, files.end()) << name << " is imported and was not sent";
  for (const std::string& imported : found->second.dependency()) Build(imported, files, pool);
  ASSERT_NE(pool->BuildFile(found->second), nullptr) << name;
}

TEST(Reflect, ListsTheServicesOfTheApiOfHealthAndItself) {
  EXPECT_THAT(ServicesIn(Reflect(AskForServices())),
              UnorderedElementsAre("luthier.v1.StudyService", "luthier.v1.WorkerService", "luthier.v1.AdminService",
                                   "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"));
}

TEST(Reflect, AClientThatKnowsNothingLearnsEveryCallAndItsMessagesFromOneAnswerEach) {
  std::set<std::string> calls, rows;
  for (const std::string& service : ServicesIn(Reflect(AskForServices()))) {
    const ServerReflectionResponse answer = Reflect(AskForSymbol(service));
    const auto files = FilesIn(answer);
    FileDescriptorProto first;
    ASSERT_TRUE(first.ParseFromString(answer.file_descriptor_response().file_descriptor_proto(0)));
    DescriptorPool pool;
    for (const auto& [name, file] : files) Build(name, files, &pool);
    const auto* const described = pool.FindServiceByName(service);
    ASSERT_NE(described, nullptr) << service;
    EXPECT_EQ(described->file()->name(), first.name()) << "the file that was asked for comes first";
    for (int i = 0; i < described->method_count(); ++i) {
      EXPECT_EQ(described->method(i)->input_type()->DebugString(),
                DescriptorPool::generated_pool()
                    ->FindMethodByName(described->method(i)->full_name())
                    ->input_type()
                    ->DebugString());
      if (service.find("luthier.v1") == 0) calls.insert("/" + service + "/" + described->method(i)->name());
    }
  }
  for (const Method& method : Methods()) rows.insert(method.path);
  EXPECT_EQ(calls, rows);
}

TEST(Reflect, FindsFilesCallsMessagesFieldsAndValues) {
  for (const char* symbol :
       {"luthier.v1.StudyService.GetStudy", "luthier.v1.GetStudyRequest", "luthier.v1.GetStudyRequest.name"}) {
    EXPECT_EQ(FilesIn(Reflect(AskForSymbol(symbol))).count("luthier/v1/study_service.proto"), 1u) << symbol;
  }
  EXPECT_EQ(FilesIn(Reflect(AskForSymbol("luthier.v1.MINIMIZE"))).count("luthier/v1/study.proto"), 1u);
  const auto files = FilesIn(Reflect(AskForFile("luthier/v1/errors.proto")));
  EXPECT_EQ(files.count("luthier/v1/errors.proto"), 1u);
  EXPECT_EQ(files.count("luthier/v1/study_service.proto"), 0u);
}

TEST(Reflect, GivesTheRequestBack) {
  ServerReflectionRequest request = AskForFile("luthier/v1/errors.proto");
  request.set_host("example.com");
  const ServerReflectionResponse answer = Reflect(request);
  EXPECT_EQ(answer.valid_host(), "example.com");
  EXPECT_EQ(answer.original_request().SerializeAsString(), request.SerializeAsString());
}

TEST(Reflect, WhatIsUnknownOrNotOfTheApiIsNotFoundByName) {
  // The program is linked with this file, for Struct and others import only some of Protocol Buffers' files.
  ASSERT_NE(DescriptorPool::generated_pool()->FindFileByName("google/protobuf/descriptor.proto"), nullptr);
  for (const ServerReflectionRequest& request :
       {AskForFile("google/protobuf/descriptor.proto"), AskForFile("luthier/v9/none.proto"),
        AskForSymbol("google.protobuf.FileDescriptorProto"), AskForSymbol("luthier.v1.NoSuchService"), AskForSymbol(""),
        AskForSymbol("\n'; drop")}) {
    const ServerReflectionResponse answer = Reflect(request);
    EXPECT_EQ(answer.error_response().error_code(), static_cast<int>(grpc::StatusCode::NOT_FOUND))
        << request.ShortDebugString();
  }
  EXPECT_THAT(Reflect(AskForSymbol("a\nb")).error_response().error_message(), HasSubstr("\"a\\x0ab\""));
  ServerReflectionRequest extension;
  extension.mutable_file_containing_extension()->set_containing_type("luthier.v1.Study");
  extension.mutable_file_containing_extension()->set_extension_number(1);
  EXPECT_EQ(Reflect(extension).error_response().error_code(), static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

TEST(Reflect, AMessageWithoutExtensionsHasNone) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("luthier.v1.Study");
  const ServerReflectionResponse answer = Reflect(request);
  EXPECT_EQ(answer.all_extension_numbers_response().base_type_name(), "luthier.v1.Study");
  EXPECT_EQ(answer.all_extension_numbers_response().extension_number_size(), 0);
  request.set_all_extension_numbers_of_type("google.protobuf.FieldOptions");
  EXPECT_TRUE(Reflect(request).has_error_response());
}

TEST(Reflect, ARequestForNothingIsAnError) {
  EXPECT_EQ(Reflect(ServerReflectionRequest()).error_response().error_code(),
            static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
}

TEST(Reflection, OtherTransportsDoNotKnowIt) {
  for (const Method& method : ReflectionMethods()) EXPECT_EQ(Find(method.path), nullptr) << method.path;
}

// A conversation with a server, by the bytes of its messages.
class ReflectionTest : public testing::ServiceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  using Stub = grpc::TemplatedGenericStub<ServerReflectionRequest, ServerReflectionResponse>;

  // Sends requests one after the other, waiting for each answer; how the conversation ended.
  grpc::Status Converse(const std::vector<ServerReflectionRequest>& requests,
                        std::vector<ServerReflectionResponse>* answers) {
    grpc::CompletionQueue queue;
    const auto context = Context();
    Stub stub(channel_);
    const auto stream = stub.PrepareCall(
        context.get(), std::string("/grpc.reflection.") + GetParam() + ".ServerReflection/ServerReflectionInfo",
        &queue);
    const auto step = [&queue] {
      void* tag;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    stream->StartCall(nullptr);
    bool going = step();
    for (const ServerReflectionRequest& request : requests) {
      if (!going) break;
      stream->Write(request, nullptr);
      if (!step()) break;
      ServerReflectionResponse answer;
      stream->Read(&answer, nullptr);
      going = step();
      if (going) answers->push_back(answer);
    }
    if (going) {
      stream->WritesDone(nullptr);
      step();
    }
    grpc::Status status;
    stream->Finish(&status, nullptr);
    step();
    return status;
  }
};

INSTANTIATE_TEST_SUITE_P(Versions, ReflectionTest, ::testing::Values("v1", "v1alpha"));

TEST_P(ReflectionTest, AConversationIsAnsweredInOrderAndEndsWithItsCaller) {
  std::vector<ServerReflectionResponse> answers;
  const grpc::Status status = Converse(
      {AskForServices(), AskForSymbol("luthier.v1.Study"), AskForSymbol("nothing"), AskForServices()}, &answers);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].list_services_response().service_size(), 5);
  EXPECT_GT(answers[1].file_descriptor_response().file_descriptor_proto_size(), 1);
  EXPECT_TRUE(answers[2].has_error_response());
  EXPECT_TRUE(answers[3].has_list_services_response());
}

TEST_P(ReflectionTest, AConversationHasABoundedNumberOfRequests) {
  std::vector<ServerReflectionResponse> answers;
  const std::vector<ServerReflectionRequest> requests(kMaxReflectionRequests + 1, AskForSymbol("nothing"));
  const grpc::Status status = Converse(requests, &answers);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(answers.size(), static_cast<size_t>(kMaxReflectionRequests));
}

TEST_P(ReflectionTest, ALargeRequestIsRefused) {
  std::vector<ServerReflectionResponse> answers;
  const grpc::Status status =
      Converse({AskForServices(), AskForSymbol(std::string(kMaxReflectionRequestBytes, 'x'))}, &answers);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(answers.size(), 1u);
}

}  // namespace
}  // namespace luthier::service
