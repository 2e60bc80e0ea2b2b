#include "server/gateway/session.h"

#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "server/gateway/compression.h"
#include "server/gateway/connect.h"
#include "server/gateway/files.h"

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
constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

std::chrono::nanoseconds Chrono(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

template <typename Stream>
class Session final : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  Session(Stream stream, std::shared_ptr<asio::ssl::context> keys, std::string peer, const Place* place, Shared* shared)
      : stream_(std::move(stream)), keys_(std::move(keys)), peer_(std::move(peer)), place_(place), shared_(shared) {}

  void Remember(Connections::iterator self) { self_ = self; }
  bool idle() const override { return idle_; }

  void Run() override {
    if constexpr (kTls) {
      Socket().expires_after(Chrono(shared_->options.head_patience));
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
    shared_->connections.erase(self_);
  }

  // Waits for a request. Its first byte begins the time that its head may take.
  void Read() {
    idle_ = true;
    parser_.emplace();
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(kMaxBodyBytes);
    Socket().expires_after(Chrono(first_ ? shared_->options.head_patience : kIdlePatience));
    first_ = false;
    http::async_read_header(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, std::size_t) {
      if (error == http::error::header_limit) return self->Refuse(431, "the head of the request is too large");
      if (error == http::error::body_limit) return self->Refuse(413, "the request is larger than 4 MiB");
      if (IsBadRequest(error)) return self->Refuse(400, "this is no request of HTTP/1.1");
      if (error) return self->End();
      self->OnHead();
    });
  }

  // True for bytes that are no request; false for a connection that ended, or never spoke.
  static bool IsBadRequest(const Error& error) {
    return error && error.category() == http::make_error_code(http::error::bad_version).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message;
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
    head.fetch_mode = std::string(request["Sec-Fetch-Mode"]);
    if (request.count("Sec-Fetch-Site") > 1 || request.count("Sec-Fetch-Mode") > 1 ||
        request.count(http::field::authorization) > 1) {
      head.repeated = true;
    }
    gzip_ = AcceptsGzip(std::string(request[http::field::accept_encoding]));
    ruling_ = Judge(head, *place_);
    if (ruling_.kind == Kind::kRefused) return Refuse(ruling_.status, ruling_.why);
    const bool call = ruling_.kind == Kind::kUnary || ruling_.kind == Kind::kStream;
    if (call && !request[http::field::content_encoding].empty() &&
        request[http::field::content_encoding] != "identity") {
      return Refuse(415, "compressed requests are refused");
    }
    // Whoever is between may take another end for that of the body.
    const auto encoding = request[http::field::transfer_encoding];
    if (request.count(http::field::transfer_encoding) > 1 ||
        (!encoding.empty() && !beast::iequals(encoding, "chunked"))) {
      return Refuse(400, "transfer encodings other than chunked are refused");
    }
    const auto length = parser_->content_length();
    if (length && *length > kMaxBodyBytes) return Refuse(413, "the request is larger than 4 MiB");
    Socket().expires_after(Chrono(kWritePatience));
    if (beast::iequals(request[http::field::expect], "100-continue")) return GoAhead();
    ReadBody();
  }

  // Tells a client that waits for it to send the body.
  void GoAhead() {
    static constexpr absl::string_view kGoAhead = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kGoAhead.data(), kGoAhead.size()),
                      [self = this->shared_from_this()](Error error, std::size_t) {
                        if (error) return self->End();
                        self->ReadBody();
                      });
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, std::size_t) {
      if (error == http::error::body_limit) return self->Refuse(413, "the request is larger than 4 MiB");
      if (IsBadRequest(error)) return self->Refuse(400, "this is no request of HTTP/1.1");
      if (error) return self->End();
      self->Answer();
    });
  }

  void Answer() {
    const GatewayOptions& options = shared_->options;
    if (ruling_.kind == Kind::kHealth) {
      const bool ready = options.ready && options.ready();
      return Reply(ready ? 200 : 503, kPlainText, {ready ? "ready\n" : "not ready\n"});
    }
    if (ruling_.kind == Kind::kMetrics || ruling_.kind == Kind::kScale) return AnswerMetrics();
    if (ruling_.kind == Kind::kAsset) {
      FileAnswer file = FileOfPage(ruling_.subject, gzip_, std::string(parser_->get()[http::field::if_none_match]));
      tag_ = file.tag;
      return Reply(file.status, file.type, {std::move(file.body), file.zipped});
    }
    Begin();
  }

  void AnswerMetrics() {
    const GatewayOptions& options = shared_->options;
    if (!options.metrics)
      return Reply(404, kPlainText, {"no metrics are kept: start luthierd with --metrics-listen\n"});
    if (place_->page) {
      const absl::Status may = options.may_see_metrics(PeerOfRequest());
      if (!may.ok()) return Fail(may);
    }
    if (ruling_.kind == Kind::kScale) {
      absl::StatusOr<std::string> scale = options.scale(ruling_.subject);
      if (!scale.ok()) return Fail(scale.status());
      return Reply(200, "application/json", {*std::move(scale)});
    }
    std::string text = options.metrics();
    if (gzip_ && WorthCompressing(peer_, text.size())) return Reply(200, kMetricsType, {Gzip(text, 1), true});
    Reply(200, kMetricsType, {std::move(text)});
  }

  access::Peer PeerOfRequest() const {
    access::Peer peer;
    peer.address = peer_;
    peer.authorization = std::string(parser_->get()[http::field::authorization]);
    peer.secret = kTls;
    return peer;
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
    arrival.peer = PeerOfRequest();
    const auto self = this->shared_from_this();
    auto* const carrier =
        new Carrier(shared_->io.get_executor(), &shared_->streams, {ruling_.json, gzip_ ? peer_ : ""});
    carrier->Tell(
        [self](std::string text, Carrier::Written written) { self->OnMessage(std::move(text), std::move(written)); },
        [self](const absl::Status& status, Text text) { self->OnEnd(status, std::move(text)); },
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

  void OnEnd(const absl::Status& status, Text text) {
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
      return Reply(200, ruling_.json ? "application/connect+json" : "application/connect+proto", {EndOfStream(status)});
    }
    Reply(HttpStatus(status), "application/json", {ErrorJson(status)});
  }

  // Refuses a request whose body was not read; the connection ends with it.
  void Refuse(int status, const std::string& why) {
    keep_ = false;
    Reply(status, kPlainText, {absl::StrCat(why, "\n")});
  }

  template <typename Message>
  void Head(Message* message, const std::string& type) {
    message->set(http::field::server, "luthierd");
    message->set(http::field::content_type, type);
    for (const auto& [name, value] : SecurityHeaders()) message->set(name, value);
  }

  void Reply(int status, const std::string& type, Text text) {
    response_.emplace(static_cast<http::status>(status), 11);
    Head(&*response_, type);
    // The names of files stay when their bytes change: browsers ask each time, and get them again if they have.
    const std::string tag = std::exchange(tag_, "");
    if (!tag.empty()) response_->set(http::field::etag, tag);
    response_->set(http::field::cache_control, tag.empty() ? "no-store" : "no-cache");
    if (text.zipped) response_->set(http::field::content_encoding, "gzip");
    if (text.zipped || !tag.empty()) response_->set(http::field::vary, "Accept-Encoding");
    keep_ = keep_ && parser_->is_done() && parser_->get().keep_alive();
    response_->keep_alive(keep_);
    const bool head_only = parser_->is_header_done() && parser_->get().method() == http::verb::head;
    const std::size_t size = text.bytes.size();
    if (!head_only) response_->body() = std::move(text.bytes);
    if (status != 304) response_->content_length(size);
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
    head_->set(http::field::cache_control, "no-store");
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
  const Place* const place_;
  Shared* const shared_;
  Connections::iterator self_;
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
  std::string tag_;    // The hash of the file that is answered.
  bool gzip_ = false;  // True if the client accepts it.
  bool first_ = true, idle_ = true, keep_ = true, ended_ = false;
  bool watching_ = false, spoken_ = false, hung_up_ = false, resume_ = false, writing_ = false;
};

std::string PeerOf(const Tcp::endpoint& endpoint) {
  return absl::StrCat(endpoint.address().is_v6() ? "ipv6:" : "ipv4:", endpoint.address().to_string());
}

template <typename Stream>
void Begin(Stream stream, std::shared_ptr<asio::ssl::context> keys, const std::string& peer, const Place* place,
           Shared* shared) {
  const auto session = std::make_shared<Session<Stream>>(std::move(stream), std::move(keys), peer, place, shared);
  shared->connections.push_back(session);
  session->Remember(std::prev(shared->connections.end()));
  session->Run();
}

}  // namespace

void Serve(Tcp::socket socket, std::shared_ptr<asio::ssl::context> keys, const Place* place, Shared* shared) {
  Error error;
  const std::string peer = PeerOf(socket.remote_endpoint(error));
  socket.set_option(Tcp::no_delay(true), error);
  beast::tcp_stream stream(std::move(socket));
  if (keys == nullptr) return Begin(std::move(stream), nullptr, peer, place, shared);
  asio::ssl::context& context = *keys;
  Begin(beast::ssl_stream<beast::tcp_stream>(std::move(stream), context), std::move(keys), peer, place, shared);
}

}  // namespace luthier::gateway
