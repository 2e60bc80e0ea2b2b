#include "server/service/message_memory.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include "lib/base/check.h"

namespace luthier::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Overhead of the allocator and the library, measured with glibc 2.36 and protobuf 3.21 on 64 bits.
constexpr int64_t kBlock = 16;    // A block of the heap, beyond what is asked for.
constexpr int64_t kPointer = 16;  // An entry of a repeated field, which grows by doubling.
constexpr int64_t kString = 32;   // std::string; up to 15 characters are within it.
constexpr int64_t kShortText = 15;
constexpr int64_t kMapEntry = 160;     // A node with its part of the table; the first entry allocates a table.
constexpr int64_t kUnknownField = 32;  // An entry of an UnknownFieldSet, which grows by doubling.
constexpr int kMaxDepth = 100;         // Protobuf parses no deeper than this.
constexpr int kMaxFieldNumber = 4096;  // Our fields have smaller numbers.

int64_t BytesOfText(int64_t length) {
  return length > kShortText ? length + 1 + kBlock : 0;
}

// Returns the most bytes in memory for one byte of a packed list. Numbers of fixed size take as many bytes in memory as
// on the wire; others take at least one byte on the wire.
int BytesForPackedByte(const FieldDescriptor& field) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  if (WireFormatLite::WireTypeForFieldType(type) != WireFormatLite::WIRETYPE_VARINT) return 1;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return 8;
    default:
      return 4;
  }
}

}  // namespace

// One walk through a message.
class MessageMemory::Count {
 public:
  Count(CodedInputStream* in, int64_t most) : in_(in), most_(most) {}

  int64_t bytes() const { return bytes_; }

  // Returns true if there is more to be read. `group`: the message ends with its tag.
  bool Walk(const Type* type, int depth, bool group) {
    if (depth > kMaxDepth) return false;
    while (bytes_ < most_) {
      const uint32_t tag = in_->ReadTag();
      if (tag == 0) return !group && in_->ConsumedEntireMessage();
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const auto wire = WireFormatLite::GetTagWireType(tag);
      if (wire == WireFormatLite::WIRETYPE_END_GROUP) return group;
      if (!Take(FieldOf(type, number), wire, depth)) return false;
    }
    return false;
  }

 private:
  static Field FieldOf(const Type* type, int number) {
    if (type == nullptr || static_cast<size_t>(number) >= type->fields.size()) return {};
    return type->fields[static_cast<size_t>(number)];
  }

  bool Take(const Field& field, WireFormatLite::WireType wire, int depth) {
    const bool known = field.kind != Field::Kind::kUnknown;
    bytes_ += known ? (field.repeated ? kPointer : 0) : kUnknownField;
    switch (wire) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t value = 0;
        return in_->ReadVarint64(&value);
      }
      case WireFormatLite::WIRETYPE_FIXED64:
        return in_->Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        return in_->Skip(4);
      case WireFormatLite::WIRETYPE_START_GROUP:
        bytes_ += kUnknownField + 2 * kBlock;
        return Walk(nullptr, depth + 1, /*group=*/true);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return TakeLengthDelimited(field, depth);
      default:
        return false;
    }
  }

  bool TakeLengthDelimited(const Field& field, int depth) {
    int length = 0;
    if (!in_->ReadVarintSizeAsInt(&length)) return false;
    if (field.kind == Field::Kind::kNumber) {
      bytes_ += int64_t{2} * field.packed * length;  // The list grows by doubling.
      return in_->Skip(length);
    }
    if (field.kind != Field::Kind::kMessage) {
      bytes_ += kString + kBlock + BytesOfText(length);
      return in_->Skip(length);
    }
    bytes_ += field.map ? kMapEntry : field.type->bytes + kBlock;
    const CodedInputStream::Limit limit = in_->PushLimit(length);
    const bool whole = Walk(field.type, depth + 1, /*group=*/false);
    in_->PopLimit(limit);
    return whole;
  }

  CodedInputStream* const in_;
  const int64_t most_;
  int64_t bytes_ = 0;
};

MessageMemory::MessageMemory(const Descriptor* type) : root_(Know(type)) {}

const MessageMemory::Type* MessageMemory::Know(const Descriptor* descriptor) {
  std::unique_ptr<Type>& place = types_[descriptor];
  if (place != nullptr) return place.get();
  place = std::make_unique<Type>();
  Type* const type = place.get();            // Types may contain themselves.
  if (!descriptor->options().map_entry()) {  // Map entries count as kMapEntry, and have no default instance.
    const google::protobuf::Message* const empty =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
    LUTHIER_CHECK(empty != nullptr);
    type->bytes = static_cast<int64_t>(empty->SpaceUsedLong());
  }
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const described = descriptor->field(i);
    LUTHIER_CHECK(described->number() < kMaxFieldNumber);
    Field field;
    field.repeated = described->is_repeated();
    field.map = described->is_map();
    switch (described->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        field.kind = Field::Kind::kText;
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        field.kind = Field::Kind::kMessage;
        field.type = Know(described->message_type());
        break;
      default:
        field.kind = Field::Kind::kNumber;
        field.packed = BytesForPackedByte(*described);
    }
    const auto number = static_cast<size_t>(described->number());
    if (type->fields.size() <= number) type->fields.resize(number + 1);
    type->fields[number] = field;
  }
  return type;
}

int64_t MessageMemory::Of(CodedInputStream* in, int64_t most) const {
  Count count(in, most);
  count.Walk(root_, 0, /*group=*/false);
  return root_->bytes + count.bytes();
}

}  // namespace luthier::service
