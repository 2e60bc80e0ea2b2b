#include "server/service/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "lib/base/error.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/errors.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// The files that declare services, and all files of the API with those that they import.
struct Published {
  std::vector<const FileDescriptor*> services;
  std::set<const FileDescriptor*> all;
};

void AddWithImports(const FileDescriptor* file, std::set<const FileDescriptor*>* files) {
  if (!files->insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) AddWithImports(file->dependency(i), files);
}

const Published& AllPublished() {
  static const auto* const published = [] {
    auto* const made = new Published;
    made->services = {v1::CreateStudyRequest::descriptor()->file(), v1::SuggestRequest::descriptor()->file(),
                      v1::CreateTokenRequest::descriptor()->file(),
                      grpc::health::v1::HealthCheckRequest::descriptor()->file(),
                      ServerReflectionRequest::descriptor()->file()};
    for (const FileDescriptor* file : made->services) AddWithImports(file, &made->all);
    AddWithImports(v1::ErrorDetail::descriptor()->file(), &made->all);  // Every error carries one.
    return made;
  }();
  return *published;
}

// Returns `file` if it is one of those that are published; else null.
const FileDescriptor* IfPublished(const FileDescriptor* file) {
  return AllPublished().all.count(file) > 0 ? file : nullptr;
}

const Descriptor* FindMessage(const std::string& name) {
  const Descriptor* const type = DescriptorPool::generated_pool()->FindMessageTypeByName(name);
  return type != nullptr && IfPublished(type->file()) != nullptr ? type : nullptr;
}

void SetError(absl::StatusCode code, std::string message, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(code));
  response->mutable_error_response()->set_error_message(std::move(message));
}

void SetNotFound(absl::string_view what, const std::string& name, ServerReflectionResponse* response) {
  SetError(absl::StatusCode::kNotFound, absl::StrCat("there is no ", what, " ", base::Quote(name)), response);
}

void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>* sent, ServerReflectionResponse* response) {
  if (!sent->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i), sent, response);
}

void SetFile(const FileDescriptor* file, absl::string_view what, const std::string& name,
             ServerReflectionResponse* response) {
  if (file == nullptr || IfPublished(file) == nullptr) return SetNotFound(what, name, response);
  std::set<const FileDescriptor*> sent;
  AddFile(file, &sent, response);
}

void ListServices(ServerReflectionResponse* response) {
  for (const FileDescriptor* file : AllPublished().services) {
    for (int i = 0; i < file->service_count(); ++i) {
      response->mutable_list_services_response()->add_service()->set_name(file->service(i)->full_name());
    }
  }
}

void SetExtensionNumbers(const std::string& type_name, ServerReflectionResponse* response) {
  const Descriptor* const type = FindMessage(type_name);
  if (type == nullptr) return SetNotFound("message", type_name, response);
  auto* const numbers = response->mutable_all_extension_numbers_response();
  numbers->set_base_type_name(type_name);
  std::vector<const google::protobuf::FieldDescriptor*> extensions;
  DescriptorPool::generated_pool()->FindAllExtensions(type, &extensions);
  for (const auto* extension : extensions) {
    if (IfPublished(extension->file()) != nullptr) numbers->add_extension_number(extension->number());
  }
}

void SetExtension(const grpc::reflection::v1::ExtensionRequest& asked, ServerReflectionResponse* response) {
  const Descriptor* const type = FindMessage(asked.containing_type());
  const auto* const extension =
      type == nullptr ? nullptr
                      : DescriptorPool::generated_pool()->FindExtensionByNumber(type, asked.extension_number());
  SetFile(extension == nullptr ? nullptr : extension->file(), "extension",
          absl::StrCat(asked.containing_type(), ":", asked.extension_number()), response);
}

// Names in the audit what was asked for.
Target TargetOfReflection(const Method& method, const google::protobuf::Message& any) {
  const auto& asked = static_cast<const ServerReflectionRequest&>(any);
  Target target;
  target.request.method = method.name;
  target.request.right = method.right;
  target.request.object = !asked.file_by_filename().empty()         ? asked.file_by_filename()
                          : !asked.file_containing_symbol().empty() ? asked.file_containing_symbol()
                                                                    : asked.all_extension_numbers_of_type();
  return target;
}

void ServerReflectionInfo(const CallPtr& call, const ServerReflectionRequest& request,
                          ServerReflectionResponse* reply) {
  if (request.ByteSizeLong() > kMaxReflectionRequestBytes) {
    return call->Finish(
        base::BadField("request", absl::StrCat("has more than ", kMaxReflectionRequestBytes, " bytes; no name of a ",
                                               "file or symbol here is that long")));
  }
  *reply = Reflect(request);
  call->Finish(absl::OkStatus());
}

}  // namespace

ServerReflectionResponse Reflect(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const DescriptorPool* const pool = DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool->FindFileByName(request.file_by_filename()), "file", request.file_by_filename(), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool->FindFileContainingSymbol(request.file_containing_symbol()), "symbol",
              request.file_containing_symbol(), &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetExtension(request.file_containing_extension(), &response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensionNumbers(request.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      ListServices(&response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kInvalidArgument, "the request asks for nothing: list_services, file_by_filename, …",
               &response);
      break;
  }
  return response;
}

const std::vector<Method>& ReflectionMethods() {
  static const auto* const rows = [] {
    auto* const made = new std::vector<Method>;
    for (const char* version : {"v1", "v1alpha"}) {
      Method row = Direct("ServerReflection/ServerReflectionInfo", access::Right::kAdmin, Admission::kRead,
                          ServerReflectionInfo);
      row.path = absl::StrCat("/grpc.reflection.", version, ".", row.name);
      row.target = TargetOfReflection;
      made->push_back(std::move(row));
    }
    return made;
  }();
  return *rows;
}

}  // namespace luthier::service
