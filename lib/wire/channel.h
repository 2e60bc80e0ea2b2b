#ifndef LUTHIER_LIB_WIRE_CHANNEL_H_
#define LUTHIER_LIB_WIRE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

inline constexpr int kMaxMessageBytes = 4 << 20;

// Returns gRPC's target for a server address: "host:port", "[v6]:port", "dns:///host:port" or "unix:path". This is the
// one place where file names are escaped: everywhere else an address has the path as it is, whatever characters it
// consists of. A path that gRPC cannot use, with a comma or longer than 107 bytes, is reached by way of its folder,
// which this opens, and which stays open. Returns INVALID_ARGUMENT saying what is missing.
absl::StatusOr<std::string> ServerTarget(absl::string_view address);

// Prepares gRPC; every program that uses it calls this before anything else of it. gRPC's log lines become events
// `grpc` of ours, errors as warnings and the rest as debug. Of the errors from one line of its source, one a minute is
// written, with the number of lines left out since. Errors that matter reach users as the status of a call, so
// `errors_too` = false (for programs whose standard error is read by people) makes all of them debug; the first call in
// a process decides. Abseil's search for deadlocks among gRPC's locks, which Debian's packages have, is off: it is for
// tests of gRPC, and took 3 % of a busy coordinator's time.
void PrepareGrpc(bool errors_too = true);

// Makes gRPC check pending connections every 100 ms; clients call it before any thread starts and before anything else
// of gRPC. By default only calls in flight check them, and without any a thread every 5 s, so that a server that was
// away for a moment was found again many seconds later.
void LookAfterConnections();

// A channel is protected by these. Files are in PEM, and new contents are used for new connections.
struct ChannelSecurity {
  std::string tls_ca;    // Certificates that the server's must be signed by; "system": those of the system.
  std::string tls_cert;  // With `tls_key`: what the server may ask for.
  std::string tls_key;
  std::string tls_server_name;    // The name in the server's certificate; empty: the host of its address.
  std::string token;              // Sent with every call; empty: none.
  std::string token_file;         // The token came from here; another one that is put there is used within seconds.
  bool accept_plaintext = false;  // The token may go to other machines without TLS.
  bool only_own = false;          // Nobody named the address: each call looks first who answers there (CheckUnnamed).

  bool tls() const { return !tls_ca.empty() || !tls_cert.empty(); }
};

// Adds what the environment says: LUTHIER_TLS_CA, _CERT, _KEY, _SERVER_NAME; LUTHIER_TOKEN_FILE, else LUTHIER_TOKEN;
// LUTHIER_ACCEPT_PLAINTEXT (1 or 0). `token_file` and the fields of `given` go first. Returns the errors of
// ReadTokenFile (token_file.h): INVALID_ARGUMENT about the option, without its dashes, or the variable.
absl::StatusOr<ChannelSecurity> SecurityFrom(ChannelSecurity given, std::string token_file);

// INVALID_ARGUMENT about "server" for addresses (addresses.h) of which one is none, and for one to which the token must
// not go: another machine, without TLS and without `accept_plaintext`; about "token" for one that no header can carry.
// This machine is "localhost", 127.0.0.0/8, [::1] and every Unix socket: an SSH tunnel begins here.
absl::Status CheckServer(absl::string_view address, const ChannelSecurity& security);

// A channel to `address`, in plain text without tls(). It connects at the first call and again whenever the connection
// broke:
//  * keepalive pings every 10 s, also without calls, answered within 3 s, else the connection counts as dead: gRPC's
//    default is to hang until each call's deadline after a partition;
//  * reconnects soon: after 0.1 s, then 1.6 times as long each time, ± 20 %, up to 2 s (gRPC's default: 1 s to two
//    minutes). So a pause is about as long as the outage was, and never noticed beside a long one;
//  * no retries of gRPC's own: ours (retry.h) know which calls may be repeated, and two layers would multiply.
//  * Errors: as CheckServer, and INVALID_ARGUMENT about "tls-…" for files that are missing or don't go together.
absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address,
                                                             const ChannelSecurity& security = {});

// Returns a channel to each of the addresses in `servers` (addresses.h). If there are several, and for "dns:///", an
// attempt to connect takes a second at most. Certificates are compared with the host of each, unless a name is given.
// Errors as CreateChannel and SplitAddresses.
absl::StatusOr<std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>>> CreateChannels(
    absl::string_view servers, const ChannelSecurity& security = {});

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_CHANNEL_H_
