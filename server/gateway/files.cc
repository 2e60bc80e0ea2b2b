#include "server/gateway/files.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/web/assets.h"
#include "server/gateway/compression.h"

namespace luthier::gateway {
namespace {

const char* TypeOf(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(name, ".binpb")) return "application/octet-stream";
  return "text/plain; charset=utf-8";
}

const std::string& Zipped(const web::Asset& asset) {
  static auto* const zipped = new std::map<absl::string_view, std::string>();
  std::string& text = (*zipped)[asset.name];
  if (text.empty()) text = Gzip(asset.bytes, /*level=*/9);
  return text;
}

}  // namespace

FileAnswer FileOfPage(const std::string& name, bool gzip, absl::string_view known) {
  const web::Asset* const asset = web::FindAsset(name);
  FileAnswer answer;
  if (asset == nullptr) {
    answer.status = 404;
    answer.body = "there is no such file\n";
    return answer;
  }
  answer.type = TypeOf(asset->name);
  // Bytes and their compressed form are different things to HTTP.
  answer.tag = absl::StrCat("\"", asset->sha256.substr(0, 32), gzip ? "-gzip" : "", "\"");
  answer.zipped = gzip;
  if (known == answer.tag) {
    answer.status = 304;
    return answer;
  }
  answer.body = gzip ? Zipped(*asset) : std::string(asset->bytes);
  return answer;
}

}  // namespace luthier::gateway
