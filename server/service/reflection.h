#ifndef LUTHIER_SERVER_SERVICE_REFLECTION_H_
#define LUTHIER_SERVER_SERVICE_REFLECTION_H_

#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"
#include "server/service/calls.h"

// Server reflection: tells grpcurl and its like which services, calls and messages there are. Each request on a
// conversation's stream is a call by itself: it is judged, admitted and kept in the audit like a call of the API, and
// needs the right of an admin.
namespace luthier::service {

// Bounds of one conversation, and of a request in it.
inline constexpr int kMaxReflectionRequests = 1000;
inline constexpr size_t kMaxReflectionRequestBytes = size_t{4} << 10;

// Returns the rows of grpc.reflection.v1 and of grpc.reflection.v1alpha, which has the same messages. They are no part
// of Methods(): no other transport has conversations.
const std::vector<Method>& ReflectionMethods();

// Answers a request about the services of the API, of health and of reflection, and about the files that declare them;
// nothing else that the program was linked with is known. What is not known is an `error_response` NOT_FOUND, and a
// request that asks for nothing is INVALID_ARGUMENT. Thread-safe.
grpc::reflection::v1::ServerReflectionResponse Reflect(const grpc::reflection::v1::ServerReflectionRequest& request);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_REFLECTION_H_
