#include "server/gateway/rules.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

// Returns the names under which the place is known, with its port as browsers write it.
std::vector<std::string> HostsOf(const Place& place) {
  std::vector<std::string> names = place.other_hosts;
  names.push_back(place.host);
  if (place.host == "127.0.0.1" || place.host == "::1" || place.host == "localhost") {
    names.insert(names.end(), {"localhost", "127.0.0.1", "::1"});
  }
  std::vector<std::string> hosts;
  for (const std::string& name : names) {
    const std::string host = absl::StrContains(name, ":") ? absl::StrCat("[", name, "]") : absl::AsciiStrToLower(name);
    hosts.push_back(absl::StrCat(host, ":", place.port));
    if (place.port == (place.tls ? 443 : 80)) hosts.push_back(host);
  }
  return hosts;
}

bool Has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

Ruling Judge(const RequestHead& head, const Place& place) {
  if (head.repeated) return Refused(400, "a header is there twice");
  const std::string host = absl::AsciiStrToLower(head.host);
  const std::vector<std::string> hosts = HostsOf(place);
  if (!Has(hosts, host)) {
    return Refused(403, "this server does not know itself by that host; name it with luthierd --http-host");
  }
  const std::string own = absl::StrCat(place.tls ? "https://" : "http://", host);
  if (!head.origin.empty() && head.origin != own) return Refused(403, "requests of other origins are not answered");
  if (!head.fetch_site.empty() && head.fetch_site != "same-origin" && head.fetch_site != "none") {
    return Refused(403, "requests of other sites are not answered");
  }
  const std::string path(head.target.substr(0, head.target.find('?')));
  if (absl::StartsWith(path, "/luthier.v1.")) {
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
  if (head.method != "GET" && head.method != "HEAD") return Refused(405, "files are read with GET");
  Ruling ruling;
  ruling.kind = path == "/healthz" ? Kind::kHealth : Kind::kAsset;
  ruling.subject = path == "/" ? "index.html" : std::string(absl::StripPrefix(path, "/"));
  return ruling;
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
