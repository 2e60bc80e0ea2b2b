#include "lib/wire/deterministic.h"

#include <google/protobuf/io/coded_stream.h>

namespace google::protobuf::internal {

// The one function that may set the default, which gRPC uses. The library befriends and declares it, and leaves its
// definition to programs that need it.
void MapTestForceDeterministic() {
  io::CodedOutputStream::SetDefaultSerializationDeterministic();
}

}  // namespace google::protobuf::internal

namespace luthier::wire {

void SendMapsInOrder() {
  google::protobuf::internal::MapTestForceDeterministic();
}

}  // namespace luthier::wire
