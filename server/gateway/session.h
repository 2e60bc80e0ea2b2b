#ifndef LUTHIER_SERVER_GATEWAY_SESSION_H_
#define LUTHIER_SERVER_GATEWAY_SESSION_H_

#include <utility>  // Boost 1.74's asio needs it, and does not say so.

#define BOOST_BEAST_USE_STD_STRING_VIEW
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <list>
#include <memory>

#include "server/gateway/carrier.h"
#include "server/gateway/gateway.h"
#include "server/gateway/rules.h"

namespace luthier::gateway {

// A connection, as the gateway sees it. Used in the gateway's thread alone.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void Run() = 0;
  virtual void Close() = 0;
  virtual bool idle() const = 0;  // True if no request is under way.
};

using Connections = std::list<std::shared_ptr<Connection>>;

// The things that all connections share.
struct Shared {
  GatewayOptions options;
  const service::Calls* calls = nullptr;
  const base::Clock* clock = nullptr;
  OpenStreams streams;
  Connections connections;
  boost::asio::io_context io{1};
};

// Begins to serve a connection, which is among shared->connections until it ends. `keys`: null for plain text.
// `shared` and `place` must outlive it.
void Serve(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> keys, const Place* place,
           Shared* shared);

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_SESSION_H_
