#ifndef LUTHIER_SERVER_GATEWAY_CONNECT_H_
#define LUTHIER_SERVER_GATEWAY_CONNECT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// The Connect protocol (connectrpc.com/docs/protocol), without HTTP: messages, errors and envelopes. No method is known
// by name: all that our services have are found by their descriptors.
namespace luthier::gateway {

// Returns the method of a path, "/luthier.v1.StudyService/GetStudy"; null: there is none.
const google::protobuf::MethodDescriptor* FindMethod(absl::string_view path);

// Returns the binary form of a request. INVALID_ARGUMENT naming the field for JSON that is not one: unknown fields are
// refused.
absl::StatusOr<std::string> ToBinary(const google::protobuf::Descriptor* type, const std::string& body, bool json);
// Returns a message as it is to be sent.
absl::StatusOr<std::string> ToText(const google::protobuf::Message& message, bool json);

// Returns {"code", "message", "details"}; a detail is our ErrorDetail, as gRPC's callers get it.
std::string ErrorJson(const absl::Status& status);
// Returns the status of HTTP that belongs to a status.
int HttpStatus(const absl::Status& status);

// Returns a message of a stream in its envelope; and the one that ends a stream.
std::string Enveloped(absl::string_view message);
std::string EndOfStream(const absl::Status& status);
// Returns the only message of a stream's request. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> Unwrapped(absl::string_view body);

// Reads Connect-Timeout-Ms: up to ten digits. "" is no timeout; absent: it is not one.
std::optional<absl::Duration> ParseTimeout(absl::string_view text);

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_CONNECT_H_
