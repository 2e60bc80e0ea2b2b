#include "server/gateway/gateway.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <optional>
#include <thread>
#include <utility>  // Boost 1.74's asio needs it, and does not say so.

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "server/gateway/session.h"

namespace luthier::gateway {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

// A port that accepts connections. Used in the gateway's thread, once it has begun.
class Listener {
 public:
  Listener(Place place, Tcp::acceptor acceptor, Shared* shared)
      : place_(std::move(place)), shared_(shared), acceptor_(std::move(acceptor)), timer_(shared->io) {}

  void Accept() {
    acceptor_.async_accept([this](Error error, Tcp::socket socket) {
      if (stopping_ || error == asio::error::operation_aborted) return;
      if (error) {
        // No descriptor is left, or worse: accepting is tried again after a while.
        timer_.expires_after(std::chrono::milliseconds(100));
        timer_.async_wait([this](Error) {
          if (!stopping_) Accept();
        });
        return;
      }
      Take(std::move(socket));
      Accept();
    });
  }

  void Stop() {
    stopping_ = true;
    Error ignored;
    acceptor_.close(ignored);
    timer_.cancel();
  }

 private:
  void Take(Tcp::socket socket) {
    if (shared_->connections.size() >= kMaxConnections && !MakeRoom()) return;  // The socket is closed.
    const std::shared_ptr<asio::ssl::context> keys = place_.tls ? Keys() : nullptr;
    if (place_.tls && keys == nullptr) return;
    Serve(std::move(socket), keys, &place_, shared_);
  }

  // Closes the oldest connection without a request; false: there is none.
  bool MakeRoom() {
    for (const std::shared_ptr<Connection>& connection : shared_->connections) {
      if (!connection->idle()) continue;
      connection->Close();  // It leaves the list when its read has ended.
      return shared_->connections.size() < kMaxConnections + 16;
    }
    return false;
  }

  // Returns the keys for a new connection: those of the files as they are now.
  std::shared_ptr<asio::ssl::context> Keys() {
    const auto [certificate, key] = shared_->options.certificate();
    if (keys_ != nullptr && certificate == certificate_) return keys_;
    auto keys = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    Error error;
    keys->set_options(
        asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 | asio::ssl::context::default_workarounds, error);
    if (!error) keys->use_certificate_chain(asio::buffer(certificate), error);
    if (!error) keys->use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
    if (error) {
      base::LogError("http_certificate", {{"error", error.message()}});
      return keys_;
    }
    certificate_ = certificate;
    keys_ = std::move(keys);
    return keys_;
  }

  const Place place_;
  Shared* const shared_;
  Tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  bool stopping_ = false;
  std::string certificate_;  // The one in `keys_`.
  std::shared_ptr<asio::ssl::context> keys_;
};

class BeastGateway final : public Gateway {
 public:
  BeastGateway(GatewayOptions options, const service::Calls* calls, const base::Clock* clock) {
    shared_.options = std::move(options);
    shared_.calls = calls;
    shared_.clock = clock;
    work_.emplace(asio::make_work_guard(shared_.io));  // Calls end through the loop when no connection is left, too.
    thread_ = std::thread([this] { shared_.io.run(); });
  }

  ~BeastGateway() override {
    asio::post(shared_.io, [this] {
      for (Listener& listener : listeners_) listener.Stop();
      for (const std::shared_ptr<Connection>& connection : Connections(shared_.connections)) connection->Close();
    });
    shared_.streams.WaitForNone();
    work_.reset();
    thread_.join();
    shared_.connections.clear();
  }

  absl::StatusOr<std::string> Listen(Serves what, const std::string& host, int port,
                                     const std::vector<std::string>& names) override {
    Error error;
    const asio::ip::address address = asio::ip::make_address(host, error);
    const Tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
    Tcp::acceptor acceptor(shared_.io);
    if (!error) acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    const bool page = what != Serves::kMetrics;
    Place place{host, 0, what == Serves::kPage && shared_.options.certificate != nullptr, page, names};
    if (!error) place.port = acceptor.local_endpoint(error).port();
    if (error) {
      place.port = port;
      return base::MakeError(
          absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
          absl::StrCat("can't serve ", page ? "the page" : "metrics", " at ", place.url(), ": ", error.message(),
                       "; choose another address with ", page ? "--http-listen" : "--metrics-listen"));
    }
    std::string url = place.url();
    asio::post(shared_.io, [this, place = std::move(place), acceptor = std::move(acceptor)]() mutable {
      listeners_.emplace_back(std::move(place), std::move(acceptor), &shared_).Accept();
    });
    return url;
  }

 private:
  Shared shared_;
  std::deque<Listener> listeners_;  // Used by the thread.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Gateway> Gateway::Create(GatewayOptions options, const service::Calls* calls,
                                         const base::Clock* clock) {
  return std::make_unique<BeastGateway>(std::move(options), calls, clock);
}

}  // namespace luthier::gateway
