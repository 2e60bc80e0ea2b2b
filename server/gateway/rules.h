#ifndef LUTHIER_SERVER_GATEWAY_RULES_H_
#define LUTHIER_SERVER_GATEWAY_RULES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

// Decides which HTTP requests are answered, before anything of them is read but their heads.
namespace luthier::gateway {

// The fields of a request's head that decide. Absent fields are empty.
struct RequestHead {
  std::string method = "", target = "", host = "", origin = "", fetch_site = "", fetch_mode = "", content_type = "";
  bool repeated = false;  // True if a field that decides is there twice.
};

// An address at which something is served.
struct Place {
  std::string host = "";  // "127.0.0.1", without a port.
  int port = 0;
  bool tls = false;
  bool page = true;                           // False: metrics alone.
  std::vector<std::string> other_hosts = {};  // Further names of it, without ports.

  // Returns "http://127.0.0.1:7792", as browsers on this machine reach it, or by the first of `other_hosts`.
  std::string url() const;
};

enum class Kind {
  kUnary,    // A call with one answer.
  kStream,   // A call with a stream of answers.
  kAsset,    // A file of the page.
  kHealth,   // The question whether the server is ready.
  kMetrics,  // The metrics.
  kScale,    // The slots that a pool wants.
  kRefused,
};

struct Ruling {
  Kind kind = Kind::kRefused;
  int status = 200;          // The status of HTTP, if it is refused.
  std::string why = "";      // For people.
  bool json = true;          // For calls: true if messages are JSON, false if they are binary.
  std::string subject = "";  // The path of the call, or the name of the asset.
};

// Judges a request. At a page, the host must be one of the place's names, or a number where it listens at all
// addresses: a name of somebody else that was bound to our address meanwhile is none. Ports are not compared, since
// containers and proxies change them. An origin that is told must be that host, and the request must come from its
// pages, so that no page of another origin reads or writes; links to the page itself may stand anywhere. Calls are POST
// with the content types of the Connect protocol, which other pages may send only after asking, and nobody lets them.
// Metrics alone are served under any name.
Ruling Judge(const RequestHead& head, const Place& place);

// Returns true if the value of Accept-Encoding lets an answer be compressed by gzip.
bool AcceptsGzip(absl::string_view accept_encoding);
// Returns true if an answer of this size for that peer ("ipv4:10.0.0.7") is worth compressing: programs of this machine
// get it sooner as it is.
bool WorthCompressing(absl::string_view peer, std::size_t bytes);

// Returns the headers that every answer has, as name and value.
const std::vector<std::pair<std::string, std::string>>& SecurityHeaders();

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_RULES_H_
