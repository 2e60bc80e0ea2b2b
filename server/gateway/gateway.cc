#include "server/gateway/gateway.h"

#include <utility>  // Boost 1.74's asio needs it, and does not say so.

#define BOOST_BEAST_USE_STD_STRING_VIEW
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <list>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/web/assets.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "server/gateway/connect.h"
#include "server/gateway/rules.h"

namespace luthier::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr absl::Duration kLingerPatience = absl::Seconds(2);

std::chrono::nanoseconds Chrono(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

// Counts the calls that have not ended, so that the end can wait for them.
class OpenStreams {
 public:
  void Add() {
    const base::MutexLock lock(&mutex_);
    ++open_;
  }
  void Remove() {
    const base::MutexLock lock(&mutex_);
    if (--open_ == 0) none_.SignalAll();
  }
  void WaitForNone() {
    const base::MutexLock lock(&mutex_);
    while (open_ > 0) none_.Wait(&mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar none_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Brings what comes of one call to the gateway's thread. Answers are made into text where they come from. It deletes
// itself.
class Carrier final : public service::Responder {
 public:
  using Executor = asio::io_context::executor_type;
  using Written = std::function<void(bool)>;

  Carrier(Executor executor, OpenStreams* streams, bool json)
      : executor_(std::move(executor)), streams_(streams), json_(json) {
    streams_->Add();
  }
  // Sets who hears of messages, of the end, with the answer of a call without a stream, and that the reader is too
  // slow.
  void Tell(std::function<void(std::string, Written)> message,
            std::function<void(const absl::Status&, std::string)> end, std::function<void()> abort) {
    message_ = std::move(message);
    end_ = std::move(end);
    abort_ = std::move(abort);
  }

  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override {
    absl::StatusOr<std::string> text = status.ok() ? ToText(reply, json_) : absl::StatusOr<std::string>(status);
    asio::post(executor_, [this, text = std::move(text)]() mutable {
      const absl::Status end = text.status();
      end_(end, end.ok() ? *std::move(text) : "");
      OpenStreams* const streams = streams_;
      delete this;
      streams->Remove();
    });
  }
  void Write(const google::protobuf::Message& message, Written written) override {
    absl::StatusOr<std::string> text = ToText(message, json_);
    asio::post(executor_, [this, text = std::move(text), written = std::move(written)]() mutable {
      if (!text.ok()) return written(false);
      message_(*std::move(text), std::move(written));
    });
  }
  void Abort() override { asio::post(executor_, abort_); }

 private:
  const Executor executor_;
  OpenStreams* const streams_;
  const bool json_;
  std::function<void(std::string, Written)> message_;
  std::function<void(const absl::Status&, std::string)> end_;
  std::function<void()> abort_;
};

// The things that all connections share. Used in the thread of the gateway alone.
struct Shared {
  GatewayOptions options;
  Place place;
  const service::Calls* calls = nullptr;
  const base::Clock* clock = nullptr;
  OpenStreams streams;
  asio::io_context io{1};
};

// A connection, as the gateway sees it.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void Run() = 0;
  virtual void Close() = 0;
  virtual bool idle() const = 0;  // True if no request is under way.
};

using Connections = std::list<std::shared_ptr<Connection>>;

const char* TypeOf(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(name, ".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

template <typename Stream>
class Session final : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  Session(Stream stream, std::shared_ptr<asio::ssl::context> keys, std::string peer, Shared* shared,
          Connections* connections)
      : stream_(std::move(stream)),
        keys_(std::move(keys)),
        peer_(std::move(peer)),
        shared_(shared),
        connections_(connections) {}

  void Remember(Connections::iterator place) { place_ = place; }
  bool idle() const override { return idle_; }

  void Run() override {
    if constexpr (kTls) {
      Socket().expires_after(Chrono(kHeadPatience));
      stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](Error error) {
        if (error) return self->End();
        self->Read();
      });
    } else {
      Read();
    }
  }

  void Close() override {
    if (call_ != nullptr) HangUp();
    Error ignored;
    Socket().socket().close(ignored);
  }

 private:
  beast::tcp_stream& Socket() { return beast::get_lowest_layer(stream_); }

  void End() {
    if (ended_) return;
    ended_ = true;
    Close();
    connections_->erase(place_);
  }

  // Waits for a request. Its first byte begins the time that its head may take.
  void Read() {
    idle_ = true;
    parser_.emplace();
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(kMaxBodyBytes);
    Socket().expires_after(Chrono(first_ ? kHeadPatience : kIdlePatience));
    first_ = false;
    http::async_read_header(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, std::size_t) {
      if (error == http::error::header_limit) return self->Refuse(431, "the head of the request is too large");
      if (error == http::error::body_limit) return self->Refuse(413, "the request is larger than 4 MiB");
      if (error) return self->End();
      self->OnHead();
    });
  }

  static std::string Field(const Request& request, http::field field, bool* repeated) {
    if (request.count(field) > 1) *repeated = true;
    return std::string(request[field]);
  }

  void OnHead() {
    idle_ = false;
    const Request& request = parser_->get();
    RequestHead head;
    head.method = std::string(request.method_string());
    head.target = std::string(request.target());
    head.host = Field(request, http::field::host, &head.repeated);
    head.origin = Field(request, http::field::origin, &head.repeated);
    head.content_type = Field(request, http::field::content_type, &head.repeated);
    head.fetch_site = std::string(request["Sec-Fetch-Site"]);
    if (request.count("Sec-Fetch-Site") > 1 || request.count(http::field::authorization) > 1) head.repeated = true;
    ruling_ = Judge(head, shared_->place);
    if (ruling_.kind == Kind::kRefused) return Refuse(ruling_.status, ruling_.why);
    const bool call = ruling_.kind == Kind::kUnary || ruling_.kind == Kind::kStream;
    if (call && !request[http::field::content_encoding].empty() &&
        request[http::field::content_encoding] != "identity") {
      return Refuse(415, "compressed requests are refused");
    }
    Socket().expires_after(Chrono(kWritePatience));
    http::async_read(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, std::size_t) {
      if (error == http::error::body_limit) return self->Refuse(413, "the request is larger than 4 MiB");
      if (error) return self->End();
      self->Answer();
    });
  }

  void Answer() {
    if (ruling_.kind == Kind::kHealth) {
      const bool ready = shared_->options.ready && shared_->options.ready();
      return Reply(ready ? 200 : 503, TypeOf(""), ready ? "ready\n" : "not ready\n");
    }
    if (ruling_.kind == Kind::kAsset) {
      const web::Asset* const asset = web::FindAsset(ruling_.subject);
      if (asset == nullptr) return Reply(404, TypeOf(""), "there is no such file\n");
      return Reply(200, TypeOf(asset->name), std::string(asset->bytes));
    }
    Begin();
  }

  // Begins the call of the request.
  void Begin() {
    const service::Method* const method = service::Find(ruling_.subject);
    const google::protobuf::MethodDescriptor* const descriptor = FindMethod(ruling_.subject);
    const bool stream = ruling_.kind == Kind::kStream;
    if (method == nullptr || descriptor == nullptr) {
      return Fail(absl::UnimplementedError(absl::StrCat("there is no method ", base::Quote(ruling_.subject))));
    }
    if (descriptor->server_streaming() != stream) {
      return Fail(absl::UnimplementedError(
          stream ? "this call has one answer: its content type is application/json or application/proto"
                 : "this call has a stream of answers: its content type is application/connect+json or "
                   "application/connect+proto"));
    }
    const Request& request = parser_->get();
    absl::StatusOr<std::string> body = stream ? Unwrapped(request.body()) : absl::StatusOr<std::string>(request.body());
    if (body.ok()) body = ToBinary(descriptor->input_type(), *body, ruling_.json);
    if (!body.ok()) return Fail(body.status());
    const std::optional<absl::Duration> timeout = ParseTimeout(std::string(request["Connect-Timeout-Ms"]));
    if (!timeout) return Fail(base::BadField("Connect-Timeout-Ms", "is no number of milliseconds"));
    service::Arrival arrival;
    arrival.time_left = *timeout;
    arrival.peer.address = peer_;
    arrival.peer.authorization = std::string(request[http::field::authorization]);
    arrival.peer.secret = kTls;
    const auto self = this->shared_from_this();
    auto* const carrier = new Carrier(shared_->io.get_executor(), &shared_->streams, ruling_.json);
    carrier->Tell(
        [self](std::string text, Carrier::Written written) { self->OnMessage(std::move(text), std::move(written)); },
        [self](const absl::Status& status, std::string text) { self->OnEnd(status, std::move(text)); },
        [self] { self->Close(); });
    began_ = shared_->clock->Monotonic();
    hung_up_ = false;
    call_ = shared_->calls->Start(*method, std::move(arrival), *body, carrier);
    if (stream) SendHead();
    Watch();
  }

  // Ends the call when the client hangs up. While a call is under way, clients have nothing to say.
  void Watch() {
    if (watching_) return;
    watching_ = true;
    Socket().expires_never();
    stream_.async_read_some(asio::buffer(&said_, 1), [self = this->shared_from_this()](Error error, std::size_t size) {
      self->watching_ = false;
      if (!error && size > 0) self->spoken_ = true;
      if (self->call_ != nullptr) {
        self->HangUp();
      } else if (self->resume_) {
        self->resume_ = false;
        if (error != asio::error::operation_aborted || self->spoken_) return self->End();
        self->Read();
      }
    });
  }

  // The client is gone: the call hears of it, and of a message under way that it was not sent.
  void HangUp() {
    if (std::exchange(hung_up_, true)) return;
    call_->Cancel();
    if (written_ && !writing_) std::exchange(written_, nullptr)(false);
  }

  void OnMessage(std::string text, Carrier::Written written) {
    if (ended_ || hung_up_) return written(false);
    written_ = std::move(written);
    chunk_ = Enveloped(text);
    if (!writing_) SendChunk();  // If the head is under way, OnWritten sends it.
  }

  void OnEnd(const absl::Status& status, std::string text) {
    const auto call = std::exchange(call_, nullptr);  // It goes once its answer is in ours.
    if (shared_->options.ended) {
      shared_->options.ended(absl::StripPrefix(ruling_.subject, "/luthier.v1."),
                             absl::StatusCodeToString(status.code()), shared_->clock->Monotonic() - began_);
    }
    if (ended_ || hung_up_) return End();
    if (ruling_.kind == Kind::kStream) {
      last_ = EndOfStream(status);
      if (!writing_) SendLast();
      return;
    }
    if (!status.ok()) return Fail(status);
    Reply(200, ruling_.json ? "application/json" : "application/proto", std::move(text));
  }

  void Fail(const absl::Status& status) {
    // A stream that can't begin ends with its error, as one that has begun.
    if (ruling_.kind == Kind::kStream) {
      return Reply(200, ruling_.json ? "application/connect+json" : "application/connect+proto", EndOfStream(status));
    }
    Reply(HttpStatus(status), "application/json", ErrorJson(status));
  }

  // Refuses a request whose body was not read; the connection ends with it.
  void Refuse(int status, const std::string& why) {
    keep_ = false;
    Reply(status, TypeOf(""), absl::StrCat(why, "\n"));
  }

  template <typename Message>
  void Head(Message* message, const std::string& type) {
    message->set(http::field::server, "luthierd");
    message->set(http::field::content_type, type);
    // The names of assets stay when their bytes change.
    message->set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : SecurityHeaders()) message->set(name, value);
  }

  void Reply(int status, const std::string& type, std::string body) {
    response_.emplace(static_cast<http::status>(status), 11);
    Head(&*response_, type);
    keep_ = keep_ && parser_->is_done() && parser_->get().keep_alive();
    response_->keep_alive(keep_);
    const bool head_only = parser_->is_header_done() && parser_->get().method() == http::verb::head;
    const std::size_t size = body.size();
    if (!head_only) response_->body() = std::move(body);
    response_->content_length(size);
    if (!watching_) Socket().expires_after(Chrono(kWritePatience));
    SetWriteTimeout();
    writer_.emplace(*response_);
    if (head_only) {
      http::async_write_header(stream_, *writer_,
                               [self = this->shared_from_this()](Error error, std::size_t) { self->OnReplied(error); });
    } else {
      http::async_write(stream_, *writer_,
                        [self = this->shared_from_this()](Error error, std::size_t) { self->OnReplied(error); });
    }
  }

  void SetWriteTimeout() {
    if (watching_) Socket().expires_after(Chrono(kWritePatience));  // The pending read keeps its own: never.
  }

  void OnReplied(Error error) {
    if (error || spoken_) return End();
    if (!keep_) return Linger();
    // The read that watches for the end of the client is still under way: it would take the next request's first byte.
    if (watching_) {
      Error ignored;
      resume_ = true;
      Socket().socket().cancel(ignored);
      return;
    }
    Read();
  }

  // Reads for a moment what the client still sends, so that it gets to read the answer before the connection breaks.
  void Linger() {
    Error ignored;
    Socket().socket().shutdown(asio::socket_base::shutdown_send, ignored);
    if (watching_ || lingered_ > 2 * kMaxBodyBytes) return End();
    Socket().expires_after(Chrono(kLingerPatience));
    Socket().async_read_some(asio::buffer(rest_), [self = this->shared_from_this()](Error error, std::size_t size) {
      self->lingered_ += size;
      if (error) return self->End();
      self->Linger();
    });
  }

  void SendHead() {
    head_.emplace(http::status::ok, 11);
    Head(&*head_, ruling_.json ? "application/connect+json" : "application/connect+proto");
    head_->keep_alive(false);  // A stream is the last answer of its connection.
    head_->chunked(true);
    head_writer_.emplace(*head_);
    writing_ = true;
    http::async_write_header(stream_, *head_writer_, [self = this->shared_from_this()](Error error, std::size_t) {
      self->OnWritten(error, /*next=*/false);
    });
  }

  void SendChunk() {
    writing_ = true;
    SetWriteTimeout();
    asio::async_write(stream_, http::make_chunk(asio::buffer(chunk_)),
                      [self = this->shared_from_this()](Error error, std::size_t) {
                        self->chunk_.clear();
                        self->OnWritten(error, /*message=*/true);
                      });
  }

  // The head of a stream was sent, or one of its messages.
  void OnWritten(Error error, bool message) {
    writing_ = false;
    if (error && call_ != nullptr && !hung_up_) HangUp();
    if (hung_up_) {
      if (written_) std::exchange(written_, nullptr)(false);
      if (call_ == nullptr) End();
      return;
    }
    if (error) return End();
    if (message && written_) std::exchange(written_, nullptr)(true);
    if (!chunk_.empty() && !writing_) return SendChunk();
    if (!last_.empty() && !writing_) SendLast();
  }

  void SendLast() {
    last_sent_ = std::exchange(last_, "");
    writing_ = true;
    SetWriteTimeout();
    asio::async_write(stream_, http::make_chunk(asio::buffer(last_sent_)),
                      [self = this->shared_from_this()](Error error, std::size_t) {
                        if (error) return self->End();
                        asio::async_write(self->stream_, http::make_chunk_last(),
                                          [self](Error, std::size_t) { self->End(); });
                      });
  }

  Stream stream_;
  const std::shared_ptr<asio::ssl::context> keys_;  // Null for plain text; outlives the stream's use of it.
  const std::string peer_;
  Shared* const shared_;
  Connections* const connections_;
  Connections::iterator place_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Response> response_;
  std::optional<http::serializer<false, http::string_body>> writer_;
  std::optional<http::response<http::empty_body>> head_;
  std::optional<http::response_serializer<http::empty_body>> head_writer_;
  Ruling ruling_;
  std::shared_ptr<service::OpenCall> call_;  // Null while no call is under way.
  absl::Duration began_;                     // When it began, on the clock.
  Carrier::Written written_;                 // To be told that the message under way was sent; null: there is none.
  std::string chunk_, last_, last_sent_;
  std::array<char, 4096> rest_;
  std::size_t lingered_ = 0;
  char said_ = 0;
  bool first_ = true, idle_ = true, keep_ = true, ended_ = false;
  bool watching_ = false, spoken_ = false, hung_up_ = false, resume_ = false, writing_ = false;
};

std::string PeerOf(const Tcp::endpoint& endpoint) {
  return absl::StrCat(endpoint.address().is_v6() ? "ipv6:" : "ipv4:", endpoint.address().to_string());
}

class BeastGateway final : public Gateway {
 public:
  BeastGateway(GatewayOptions options, const service::Calls* calls, const base::Clock* clock)
      : acceptor_(shared_.io), timer_(shared_.io) {
    shared_.options = std::move(options);
    shared_.calls = calls;
    shared_.clock = clock;
  }

  absl::Status Open() {
    const GatewayOptions& options = shared_.options;
    Error error;
    const asio::ip::address address =
        asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
    const Tcp::endpoint endpoint(address, static_cast<unsigned short>(options.port));
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return base::MakeError(
          absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
          absl::StrCat("can't serve HTTP on ", base::Quote(absl::StrCat(options.host, ":", options.port)), ": ",
                       error.message(), "; choose another address with --http-listen"));
    }
    shared_.place.host = options.host;
    shared_.place.port = acceptor_.local_endpoint(error).port();
    shared_.place.tls = options.certificate != nullptr;
    shared_.place.other_hosts = options.other_hosts;
    Accept();
    work_.emplace(asio::make_work_guard(shared_.io));  // Calls end through the loop when no connection is left, too.
    thread_ = std::thread([this] { shared_.io.run(); });
    return absl::OkStatus();
  }

  ~BeastGateway() override {
    if (!thread_.joinable()) return;
    asio::post(shared_.io, [this] {
      stopping_ = true;
      Error ignored;
      acceptor_.close(ignored);
      timer_.cancel();
      for (const std::shared_ptr<Connection>& connection : Connections(connections_)) connection->Close();
    });
    shared_.streams.WaitForNone();
    work_.reset();
    thread_.join();
    connections_.clear();
  }

  std::string url() const override {
    const std::string& host = shared_.place.host;
    return absl::StrCat(shared_.place.tls ? "https://" : "http://",
                        absl::StrContains(host, ":") ? absl::StrCat("[", host, "]") : host, ":", shared_.place.port);
  }

 private:
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

  void Take(Tcp::socket socket) {
    if (connections_.size() >= kMaxConnections && !MakeRoom()) return;  // The socket is closed.
    Error error;
    const Tcp::endpoint peer = socket.remote_endpoint(error);
    socket.set_option(Tcp::no_delay(true), error);
    if (shared_.place.tls) {
      const auto keys = Keys();
      if (keys == nullptr) return;
      Begin(std::make_shared<Session<beast::ssl_stream<beast::tcp_stream>>>(
          beast::ssl_stream<beast::tcp_stream>(beast::tcp_stream(std::move(socket)), *keys), keys, PeerOf(peer),
          &shared_, &connections_));
    } else {
      Begin(std::make_shared<Session<beast::tcp_stream>>(beast::tcp_stream(std::move(socket)), nullptr, PeerOf(peer),
                                                         &shared_, &connections_));
    }
  }

  template <typename T>
  void Begin(std::shared_ptr<T> session) {
    connections_.push_back(session);
    session->Remember(std::prev(connections_.end()));
    session->Run();
  }

  // Closes the oldest connection without a request; false: there is none.
  bool MakeRoom() {
    for (const std::shared_ptr<Connection>& connection : connections_) {
      if (!connection->idle()) continue;
      connection->Close();  // It leaves the list when its read has ended.
      return connections_.size() < kMaxConnections + 16;
    }
    return false;
  }

  // Returns the keys for a new connection: those of the files as they are now.
  std::shared_ptr<asio::ssl::context> Keys() {
    const auto [certificate, key] = shared_.options.certificate();
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

  Shared shared_;
  Tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  Connections connections_;
  std::string certificate_;  // The one in `keys_`.
  std::shared_ptr<asio::ssl::context> keys_;
  bool stopping_ = false;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(GatewayOptions options, const service::Calls* calls,
                                                        const base::Clock* clock) {
  auto gateway = std::make_unique<BeastGateway>(std::move(options), calls, clock);
  if (const absl::Status opened = gateway->Open(); !opened.ok()) return opened;
  return std::unique_ptr<Gateway>(std::move(gateway));
}

}  // namespace luthier::gateway
