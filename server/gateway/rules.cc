#include "server/gateway/rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace luthier::gateway {
namespace {

Ruling Refused(int status, std::string why) {
  Ruling ruling;
  ruling.status = status;
  ruling.why = std::move(why);
  return ruling;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

bool IsNumber(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Takes the port from "host", "host:1" or "[v6]:1", and the brackets; nothing for any other text.
std::optional<std::string> NameOf(absl::string_view host) {
  const size_t end = absl::StartsWith(host, "[") ? host.find(']') : std::min(host.find(':'), host.size());
  if (host.empty() || end == absl::string_view::npos) return std::nullopt;
  const bool bracket = host[0] == '[';
  const absl::string_view name = host.substr(bracket ? 1 : 0, end - (bracket ? 1 : 0));
  absl::string_view port = host.substr(end + (bracket ? 1 : 0));
  if (!port.empty()) {
    int number = 0;
    if (!absl::ConsumePrefix(&port, ":") || port.size() > 5 ||
        !std::all_of(port.begin(), port.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(port, &number)) {
      return std::nullopt;
    }
  }
  return absl::AsciiStrToLower(name);
}

// Returns true if the place is known by that name.
bool Knows(const Place& place, const std::string& name) {
  const bool everywhere = place.host == "0.0.0.0" || place.host == "::";
  if (name == place.host || ((everywhere || IsLoopback(place.host)) && IsLoopback(name))) return true;
  if (everywhere && IsNumber(name)) return true;
  return std::any_of(place.other_hosts.begin(), place.other_hosts.end(),
                     [&](const std::string& other) { return absl::EqualsIgnoreCase(other, name); });
}

// Returns the ruling on whoever asks; nothing if they may.
std::optional<Ruling> JudgeAsker(const RequestHead& head, const Place& place) {
  const std::string host = absl::AsciiStrToLower(head.host);
  const std::optional<std::string> name = NameOf(host);
  if (place.page && (!name || !Knows(place, *name))) {
    return Refused(403, "this server does not know itself by that host; name it with luthierd --http-host");
  }
  // A proxy may speak TLS where this server does not.
  const bool own =
      head.origin == absl::StrCat("https://", host) || (!place.tls && head.origin == absl::StrCat("http://", host));
  if (!head.origin.empty() && !own) return Refused(403, "requests of other origins are not answered");
  const bool link = head.fetch_mode == "navigate" && head.method == "GET" && head.target == "/";
  if (!head.fetch_site.empty() && head.fetch_site != "same-origin" && head.fetch_site != "none" && !link) {
    return Refused(403, "requests of other sites are not answered");
  }
  return std::nullopt;
}

Ruling JudgeCall(const RequestHead& head, const std::string& path) {
  if (head.method != "POST") return Refused(405, "calls are POST");
  Ruling ruling;
  ruling.subject = path;
  static const auto* const kTypes =
      new std::map<std::string, std::pair<Kind, bool>>{{"application/json", {Kind::kUnary, true}},
                                                       {"application/proto", {Kind::kUnary, false}},
                                                       {"application/connect+json", {Kind::kStream, true}},
                                                       {"application/connect+proto", {Kind::kStream, false}}};
  const std::string type(
      absl::StripAsciiWhitespace(absl::string_view(head.content_type).substr(0, head.content_type.find(';'))));
  const auto known = kTypes->find(absl::AsciiStrToLower(type));
  if (known == kTypes->end()) {
    return Refused(415,
                   "the content type is none of the Connect protocol: application/json, application/proto, "
                   "application/connect+json, application/connect+proto");
  }
  ruling.kind = known->second.first;
  ruling.json = known->second.second;
  return ruling;
}

}  // namespace

std::string Place::url() const {
  const bool everywhere = page && (host == "0.0.0.0" || host == "::");
  const std::string name = !other_hosts.empty() ? other_hosts[0] : everywhere ? "127.0.0.1" : host;
  return absl::StrCat(tls ? "https://" : "http://", absl::StrContains(name, ":") ? absl::StrCat("[", name, "]") : name,
                      ":", port);
}

Ruling Judge(const RequestHead& head, const Place& place) {
  if (head.repeated) return Refused(400, "a header is there twice");
  if (const std::optional<Ruling> refused = JudgeAsker(head, place)) return *refused;
  const std::string path(head.target.substr(0, head.target.find('?')));
  if (place.page && absl::StartsWith(path, "/luthier.v1.")) return JudgeCall(head, path);
  if (head.method != "GET" && head.method != "HEAD") return Refused(405, "files are read with GET");
  Ruling ruling;
  ruling.kind = path == "/healthz"   ? Kind::kHealth
                : path == "/metrics" ? Kind::kMetrics
                : path == "/scale"   ? Kind::kScale
                                     : Kind::kAsset;
  if (ruling.kind == Kind::kScale) {
    ruling.subject = std::string(head.target.substr(std::min(path.size() + 1, head.target.size())));
    return ruling;
  }
  ruling.subject = path == "/" ? "index.html" : std::string(absl::StripPrefix(path, "/"));
  if (!place.page && ruling.kind == Kind::kAsset) return Refused(404, "see /metrics, /scale and /healthz");
  return ruling;
}

bool AcceptsGzip(absl::string_view accept_encoding) {
  for (const absl::string_view part : absl::StrSplit(accept_encoding, ',')) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ';');
    const absl::string_view name = absl::StripAsciiWhitespace(words[0]);
    if (!absl::EqualsIgnoreCase(name, "gzip") && name != "*") continue;
    double weight = 1.0;
    if (words.size() > 1) {
      absl::string_view text = absl::StripAsciiWhitespace(words[1]);
      if (!absl::ConsumePrefix(&text, "q=") || !absl::SimpleAtod(text, &weight)) weight = 0.0;
    }
    return weight > 0.0;
  }
  return false;
}

bool WorthCompressing(absl::string_view peer, std::size_t bytes) {
  constexpr std::size_t kLeast = 1024;
  const bool here = absl::StartsWith(peer, "ipv4:127.") || peer == "ipv6:::1";
  return bytes >= kLeast && !here;
}

const std::vector<std::pair<std::string, std::string>>& SecurityHeaders() {
  static const auto* const kHeaders = new std::vector<std::pair<std::string, std::string>>{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  return *kHeaders;
}

}  // namespace luthier::gateway
