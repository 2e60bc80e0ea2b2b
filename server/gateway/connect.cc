#include "server/gateway/connect.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/wire/json.h"
#include "lib/wire/status.h"
#include "lib/wire/text.h"
#include "luthier/v1/errors.pb.h"

namespace luthier::gateway {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using Json = nlohmann::json;

constexpr char kDetailType[] = "luthier.v1.ErrorDetail";
constexpr unsigned char kEndFlag = 2;
constexpr std::size_t kHead = 5;

std::unique_ptr<Message> New(const Descriptor* type) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

struct Code {
  const char* name;
  int http;
};

// The codes of gRPC by their numbers, as Connect names them.
Code CodeOf(const absl::Status& status) {
  static constexpr Code kCodes[] = {{"ok", 200},
                                    {"canceled", 499},
                                    {"unknown", 500},
                                    {"invalid_argument", 400},
                                    {"deadline_exceeded", 504},
                                    {"not_found", 404},
                                    {"already_exists", 409},
                                    {"permission_denied", 403},
                                    {"resource_exhausted", 429},
                                    {"failed_precondition", 400},
                                    {"aborted", 409},
                                    {"out_of_range", 400},
                                    {"unimplemented", 501},
                                    {"internal", 500},
                                    {"unavailable", 503},
                                    {"data_loss", 500},
                                    {"unauthenticated", 401}};
  const auto number = static_cast<std::size_t>(status.code());
  return number < std::size(kCodes) ? kCodes[number] : kCodes[2];
}

Json ErrorObject(const absl::Status& status) {
  const grpc::Status sent = wire::ToGrpc(status);
  Json error{{"code", CodeOf(status).name}, {"message", sent.error_message()}};
  v1::ErrorDetail detail;
  if (sent.error_details().empty() || !detail.ParseFromString(sent.error_details())) return error;
  std::string text;
  Json one{{"type", kDetailType}};
  std::string value = absl::Base64Escape(sent.error_details());
  while (!value.empty() && value.back() == '=') value.pop_back();
  one["value"] = value;
  if (google::protobuf::util::MessageToJsonString(detail, &text).ok()) one["debug"] = Json::parse(text, nullptr, false);
  error["details"] = Json::array({one});
  return error;
}

std::string Wrapped(unsigned char flags, absl::string_view message) {
  std::string head(kHead, '\0');
  head[0] = static_cast<char>(flags);
  for (int i = 0; i < 4; ++i) head[static_cast<std::size_t>(i) + 1] = static_cast<char>(message.size() >> (24 - 8 * i));
  return absl::StrCat(head, message);
}

}  // namespace

const google::protobuf::MethodDescriptor* FindMethod(absl::string_view path) {
  const std::string name = absl::StrReplaceAll(absl::StripPrefix(path, "/"), {{"/", "."}});
  return DescriptorPool::generated_pool()->FindMethodByName(name);
}

absl::StatusOr<std::string> ToBinary(const Descriptor* type, const std::string& body, bool json) {
  if (!json) return body;
  const std::unique_ptr<Message> message = New(type);
  const absl::Status parsed =
      wire::FromJson(body.empty() ? std::string("{}") : body, /*unknown_fields=*/false, message.get());
  if (!parsed.ok()) {
    return base::BadField(
        "body", absl::StrCat("is no ", type->name(), " in JSON: ", wire::ValidUtf8(std::string(parsed.message()))));
  }
  return message->SerializeAsString();
}

absl::StatusOr<std::string> ToText(const Message& message, bool json) {
  if (!json) return message.SerializeAsString();
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text).ok()) return text;
  return absl::InternalError(absl::StrCat("the answer, a ", message.GetTypeName(), ", has no JSON"));
}

std::string ErrorJson(const absl::Status& status) {
  return ErrorObject(status).dump();
}

int HttpStatus(const absl::Status& status) {
  return CodeOf(status).http;
}

std::string Enveloped(absl::string_view message) {
  return Wrapped(0, message);
}

std::string EndOfStream(const absl::Status& status) {
  Json end = Json::object();
  if (!status.ok()) end["error"] = ErrorObject(status);
  return Wrapped(kEndFlag, end.dump());
}

absl::StatusOr<std::string> Unwrapped(absl::string_view body) {
  std::size_t size = 0;
  if (body.size() >= kHead) {
    for (std::size_t i = 1; i < kHead; ++i) size = size << 8 | static_cast<unsigned char>(body[i]);
  }
  if (body.size() < kHead || body[0] != 0 || size != body.size() - kHead) {
    return base::BadField("body", "is not one message in an envelope, uncompressed, as the Connect protocol has it");
  }
  return std::string(body.substr(kHead));
}

std::optional<absl::Duration> ParseTimeout(absl::string_view text) {
  if (text.empty()) return absl::InfiniteDuration();
  int64_t ms = 0;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || text.size() > 10 || !absl::SimpleAtoi(text, &ms)) return std::nullopt;
  return absl::Milliseconds(ms);
}

}  // namespace luthier::gateway
