#ifndef LUTHIER_SERVER_ACCEPTOR_H_
#define LUTHIER_SERVER_ACCEPTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "server/listen_address.h"

namespace luthier::server {

// docs/reference/api.md lists these.
struct AcceptorOptions {
  // Largest number of connections that have not finished their preface. Beyond it the peer with the most of them loses
  // its oldest one, so that silent peers cannot keep out those that speak at once, and a fleet that reconnects all
  // together finds room. At most half of `max_descriptors`.
  int unfinished = 2048;
  absl::Duration patience = absl::Seconds(10);  // Time limit of the preface.
  // A connection is closed when its descriptor is not below this. The kernel gives the lowest free descriptor, so this
  // bounds all connections and leaves the other descriptors to files. 0: the process's limit less 256.
  int max_descriptors = 0;
  // True if clients begin with the hello of TLS, whose encryption hides the preface of HTTP/2.
  bool tls = false;
  // Counts all accepted connections, if given. Must outlive the acceptor.
  std::atomic<uint64_t>* accepted = nullptr;
};

// Listens in gRPC's place, and hands a connection over when its client has sent the preface of HTTP/2 (RFC 9113, 3.4):
// 24 bytes and the head of a SETTINGS frame; or the head of a client's hello (RFC 8446, 4.1.2 and 5.1). gRPC 1.51
// accepts connections without any bound, and after one "too many open files" never again.
class Acceptor {
 public:
  // Takes over the descriptor, which does not block, and the bytes that were read from it.
  using HandOver = std::function<void(int fd, const std::string& received)>;

  // Binds to `address` and listens; nothing is accepted before Start. `clock` must outlive the result. Errors:
  // UNAVAILABLE ADDRESS_IN_USE.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const ListenAddress& address, const base::Clock* clock,
                                                          AcceptorOptions options = {});
  // Stops listening, closes connections that were not handed over, and removes the socket's file, unless another is in
  // its place.
  virtual ~Acceptor() = default;

  // State of the file of a Unix socket, compared with the one that was bound. TCP: always kInPlace.
  enum class SocketFile {
    kInPlace,
    kMissing,   // Nobody can connect any more.
    kReplaced,  // Clients that connect reach another server.
  };
  virtual SocketFile LookForSocket() const = 0;
  // The bound address, with the port that was chosen.
  virtual const ListenAddress& bound() const = 0;
  // Accepts from now on, on a thread of its own, which calls `hand_over`. To be called once.
  virtual void Start(HandOver hand_over) = 0;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_ACCEPTOR_H_
