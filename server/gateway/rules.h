#ifndef LUTHIER_SERVER_GATEWAY_RULES_H_
#define LUTHIER_SERVER_GATEWAY_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// Decides which HTTP requests are answered, before anything of them is read but their heads.
namespace luthier::gateway {

// The fields of a request's head that decide. Absent fields are empty.
struct RequestHead {
  std::string method = "", target = "", host = "", origin = "", fetch_site = "", content_type = "";
  bool repeated = false;  // True if a field that decides is there twice.
};

// The address at which a browser has the page, and how.
struct Place {
  std::string host = "";  // "127.0.0.1", without a port.
  int port = 0;
  bool tls = false;
  std::vector<std::string> other_hosts = {};  // Further names of it, without ports.
};

enum class Kind {
  kUnary,   // A call with one answer.
  kStream,  // A call with a stream of answers.
  kAsset,   // A file of the page.
  kHealth,  // The question whether the server is ready.
  kRefused,
};

struct Ruling {
  Kind kind = Kind::kRefused;
  int status = 200;          // The status of HTTP, if it is refused.
  std::string why = "";      // For people.
  bool json = true;          // For calls: true if messages are JSON, false if they are binary.
  std::string subject = "";  // The path of the call, or the name of the asset.
};

// Judges a request. The host must be the place's (which a name that was bound to another address meanwhile is not), and
// an origin that is told must be the place itself, so that no page of another origin reads or writes. Calls are POST
// with the content types of the Connect protocol, which other pages may send only after asking, and nobody lets them.
Ruling Judge(const RequestHead& head, const Place& place);

// Returns the headers that every answer has, as name and value.
const std::vector<std::pair<std::string, std::string>>& SecurityHeaders();

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_RULES_H_
