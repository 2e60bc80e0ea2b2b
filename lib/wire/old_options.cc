#include "lib/wire/old_options.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/study/parameters.h"

namespace luthier::wire {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// A field that a message had once. Its reserved number is never used again.
struct FormerField {
  absl::string_view message;
  int number;
  const char* name;
  uint64_t default_bits;  // Its former default: the bits of a double, or the number.
};

constexpr uint64_t Bits(double value) {
  return std::bit_cast<uint64_t>(value);
}

constexpr FormerField kFormer[] = {
    {"BoExpert", 7, "criterion", 1},
    {"BoExpert", 15, "growth_factor", Bits(10.0)},
    {"BoExpert", 23, "feasibility", 1},
    {"BoExpert", 24, "trust_box", 1},
    {"SuccessiveHalving", 3, "quorum", Bits(1.0)},
    {"SuccessiveHalving", 4, "overlap", 1},
    {"Hyperband", 2, "sizes", 1},
    {"Hyperband", 3, "quorum", Bits(1.0)},
    {"Hyperband", 4, "overlap", 1},
    {"Asha", 3, "skip_rungs", 0},
    {"Asha", 4, "first_go_on", 0},
    {"HarmonicaExpert", 6, "lambda", 1},
    {"HarmonicaExpert", 7, "lambda_factor", Bits(0.35)},
    {"HarmonicaExpert", 8, "lambda_abs", Bits(0.0)},
    {"HarmonicaExpert", 10, "gray", 0},
    {"HarmonicaExpert", 11, "cell_centres", 0},
    {"HarmonicaExpert", 12, "strict", 0},
    {"CmaEsExpert", 3, "restarts", 1},
    {"HoagExpert", 4, "reject_guard", 1},
    {"HoagExpert", 6, "max_step", Bits(2.0)},
    {"Tpe", 4, "gamma", 1},
    {"Tpe", 5, "bandwidth", 1},
};

// Takes former fields out of `message`, whose path was `path` when they were fields.
void TakeFormerFields(const std::string& path, Message* message, std::vector<RemovedOption>* removed) {
  UnknownFieldSet* const unknown = message->GetReflection()->MutableUnknownFields(message);
  for (int i = 0; i < unknown->field_count(); ++i) {
    const UnknownField& field = unknown->field(i);
    const bool whole = field.type() == UnknownField::TYPE_VARINT;
    if (!whole && field.type() != UnknownField::TYPE_FIXED64) continue;
    for (const FormerField& former : kFormer) {
      if (former.number != field.number() || former.message != message->GetDescriptor()->name()) continue;
      const uint64_t bits = whole ? field.varint() : field.fixed64();
      if (bits == former.default_bits) continue;
      removed->push_back({absl::StrCat(path, ".", former.name),
                          whole ? absl::StrCat(bits) : study::FormatDouble(std::bit_cast<double>(bits)),
                          "leave it out"});
    }
  }
  unknown->Clear();
}

// Returns the name that the value `number` of an enum had; "" if it never was a value.
std::string FormerName(const EnumDescriptor& type, int number) {
  int index = 0;
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    const EnumDescriptor::ReservedRange& range = *type.reserved_range(i);
    if (number >= range.start && number <= range.end) return type.reserved_name(index + number - range.start);
    index += range.end - range.start + 1;
  }
  return "";
}

// Takes values of enums that are no more out of `message`.
void TakeFormerValues(const std::string& path, Message* message, std::vector<RemovedOption>* removed) {
  const Reflection* const reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(i);
    if (field->type() != FieldDescriptor::TYPE_ENUM) continue;
    const std::string name = FormerName(*field->enum_type(), reflection->GetEnumValue(*message, field));
    if (name.empty()) continue;
    removed->push_back(
        {absl::StrCat(path, ".", field->name()), name, absl::StrCat("use one of ", ValueNames(*field->enum_type()))});
    reflection->ClearField(message, field);
  }
}

}  // namespace

std::string ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return absl::StrJoin(names, ", ");
}

std::vector<RemovedOption> MoveOldOptions(const std::string& path, v1::Algorithm* algorithm) {
  const Reflection* const reflection = algorithm->GetReflection();
  const FieldDescriptor* const kind =
      reflection->GetOneofFieldDescriptor(*algorithm, algorithm->GetDescriptor()->FindOneofByName("kind"));
  if (kind == nullptr) return {};
  Message* const options = reflection->MutableMessage(algorithm, kind);
  const Reflection* const inside = options->GetReflection();
  const std::string at = absl::StrCat(path, ".", kind->name());
  std::vector<RemovedOption> removed;
  const FieldDescriptor* const expert_field = kind->message_type()->FindFieldByName("expert");
  if (expert_field == nullptr) {
    TakeFormerFields(at, options, &removed);
  } else {
    UnknownFieldSet* const old = inside->MutableUnknownFields(options);
    std::string moved;
    if (!old->empty() && old->SerializeToString(&moved)) {
      inside->MutableMessage(options, expert_field)->MergeFromString(moved);
      old->Clear();
    }
    if (inside->HasField(*options, expert_field)) {
      Message* const expert = inside->MutableMessage(options, expert_field);
      TakeFormerFields(at, expert, &removed);
      TakeFormerValues(absl::StrCat(at, ".expert"), expert, &removed);
    }
  }
  for (const char* name : {"sampler", "base"}) {
    const FieldDescriptor* const nested = kind->message_type()->FindFieldByName(name);
    if (nested == nullptr || !inside->HasField(*options, nested)) continue;
    auto* const other = static_cast<v1::Algorithm*>(inside->MutableMessage(options, nested));
    for (RemovedOption& option : MoveOldOptions(absl::StrCat(at, ".", name), other)) removed.push_back(option);
  }
  return removed;
}

}  // namespace luthier::wire
