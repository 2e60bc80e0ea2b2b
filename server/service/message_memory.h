#ifndef LUTHIER_SERVER_SERVICE_MESSAGE_MEMORY_H_
#define LUTHIER_SERVER_SERVICE_MESSAGE_MEMORY_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace luthier::service {

// Estimates how much memory messages of one type take once they are parsed, from their bytes, without parsing them:
// two bytes of a request may stand for an empty trial of three hundred. Thread-safe.
class MessageMemory {
 public:
  // `type` must be of compiled code, as all types of services are.
  explicit MessageMemory(const google::protobuf::Descriptor* type);

  // Returns the bytes that the message in `in` would take, rather too many than too few; stops counting at `most`. Of
  // invalid bytes the part before the first wrong one counts, where a parser stops, too.
  int64_t Of(google::protobuf::io::CodedInputStream* in, int64_t most) const;

 private:
  struct Type;
  struct Field {
    enum class Kind { kUnknown, kNumber, kText, kMessage };
    Kind kind = Kind::kUnknown;
    bool repeated = false;
    bool map = false;
    int packed = 0;              // Bytes in memory that one byte of a packed list of numbers takes at most.
    const Type* type = nullptr;  // Null but for kMessage.
  };
  struct Type {
    int64_t bytes = 0;          // Bytes of an empty message.
    std::vector<Field> fields;  // By number.
  };
  class Count;

  const Type* Know(const google::protobuf::Descriptor* type);

  std::map<const google::protobuf::Descriptor*, std::unique_ptr<Type>> types_;
  const Type* root_;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_MESSAGE_MEMORY_H_
