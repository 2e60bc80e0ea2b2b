// A whole coordinator over HTTP: every call, as gRPC answers it; who may; streams to their end; limits.
#include "server/gateway/gateway.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/web/assets.h"
#include "lib/base/log.h"
#include "lib/wire/status.h"
#include "luthier/v1/admin_service.grpc.pb.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/gateway/connect.h"
#include "server/server.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::gateway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Answer {
  int status = 0;
  std::map<std::string, std::string> fields;  // By lower-case names.
  std::string body;                           // Chunks are joined.
};

// A port of this machine.
class Loopback {
 public:
  explicit Loopback(int port) : port_(port) {}
  explicit Loopback(const std::string& url) {
    EXPECT_TRUE(absl::SimpleAtoi(url.substr(url.rfind(':') + 1), &port_)) << url;
  }

  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
  }

  // Sends a request as it is, and reads until the server closes the connection.
  std::string Exchange(const std::string& request) const {
    const int fd = Connect();
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t n = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    std::string text;
    char buffer[65536];
    for (ssize_t n = recv(fd, buffer, sizeof(buffer), 0); n > 0; n = recv(fd, buffer, sizeof(buffer), 0)) {
      text.append(buffer, static_cast<size_t>(n));
    }
    close(fd);
    return text;
  }

 private:
  int port_ = 0;
};

class GatewayTest : public ::testing::Test {
 protected:
  virtual void Configure(server::ServerOptions*) {}
  void SetUp() override {
    base::SetLogLevel(base::LogLevel::kError);
    server::ServerOptions options;
    options.data_dir = directory_.path() + "/data";
    options.listen = "127.0.0.1:0";
    options.http_listen = "127.0.0.1:0";
    Configure(&options);
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    std::ifstream(options.data_dir + "/admin.token") >> token_;
    ASSERT_TRUE(absl::SimpleAtoi(server_->http_url().substr(server_->http_url().rfind(':') + 1), &port_));
  }

  int Connect() const { return Loopback(port_).Connect(); }
  std::string Exchange(const std::string& request) const { return Loopback(port_).Exchange(request); }

  static Answer Parsed(const std::string& text) {
    Answer answer;
    const size_t end = text.find("\r\n\r\n");
    const std::vector<std::string> lines = absl::StrSplit(text.substr(0, end), "\r\n");
    EXPECT_TRUE(lines[0].size() <= 12 || absl::SimpleAtoi(lines[0].substr(9, 3), &answer.status));
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::pair<std::string, std::string> field = absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
      answer.fields[absl::AsciiStrToLower(field.first)] = field.second;
    }
    if (end == std::string::npos) return answer;
    std::string rest = text.substr(end + 4);
    if (answer.fields["transfer-encoding"] != "chunked") {
      answer.body = rest;
      return answer;
    }
    while (!rest.empty()) {
      const size_t size = std::stoul(rest, nullptr, 16);
      if (size == 0) break;
      const size_t begin = rest.find("\r\n") + 2;
      answer.body += rest.substr(begin, size);
      rest = rest.substr(begin + size + 2);
    }
    return answer;
  }

  Answer Post(const std::string& path, const std::string& type, const std::string& body,
              const std::string& token) const {
    const std::string authorization = token.empty() ? "" : absl::StrCat("Authorization: Bearer ", token, "\r\n");
    return Parsed(
        Exchange(absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: 127.0.0.1:", port_, "\r\nContent-Type: ", type, "\r\n",
                              authorization, "Connection: close\r\nContent-Length: ", body.size(), "\r\n\r\n", body)));
  }
  Answer Call(const std::string& method, const json& body) const {
    return Post("/luthier.v1." + method, "application/json", body.dump(), token_);
  }
  Answer Get(const std::string& path, const std::string& more = "") const {
    return Parsed(Exchange(
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost:", port_, "\r\n", more, "Connection: close\r\n\r\n")));
  }

  void CreateStudy() {
    const Answer made = Call("StudyService/CreateStudy", json::parse(R"({"studyId": "s", "spec": {
        "space": [{"name": "x", "float": {"min": 0, "max": 1}}], "metric": {"name": "y", "goal": "MINIMIZE"},
        "algorithm": {"random": {}}, "budget": {"maxTrials": "2"}}})"));
    ASSERT_EQ(made.status, 200) << made.body;
  }

  const testing::TemporaryDirectory directory_;
  std::unique_ptr<server::Server> server_;
  std::string token_;
  int port_ = 0;
};

TEST_F(GatewayTest, EveryCallIsAnsweredAsByGrpc) {
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  int calls = 0;
  for (const auto* file : {v1::GetStudyRequest::descriptor()->file(), v1::SuggestRequest::descriptor()->file(),
                           v1::CreateTokenRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* const method = file->service(s)->method(m);
        if (method->name() == "Backup") continue;  // It changes the data directory.
        const std::string path = absl::StrCat("/", file->service(s)->full_name(), "/", method->name());
        // An empty request, which most calls refuse, by gRPC …
        grpc::ClientContext context;
        context.AddMetadata("authorization", "Bearer " + token_);
        grpc::CompletionQueue queue;
        const auto stream = stub.PrepareCall(&context, path, &queue);
        const auto wait = [&] {
          void* tag = nullptr;
          bool ok = false;
          queue.Next(&tag, &ok);
        };
        stream->StartCall(nullptr);
        wait();
        const grpc::Slice nothing;
        stream->WriteLast(grpc::ByteBuffer(&nothing, 1), {}, nullptr);
        wait();
        grpc::ByteBuffer bytes;
        stream->Read(&bytes, nullptr);
        wait();
        grpc::Status status;
        stream->Finish(&status, nullptr);
        wait();
        // … and by HTTP, in both forms.
        for (const char* form : {"json", "proto"}) {
          const bool json_form = form == absl::string_view("json");
          const std::string text = json_form ? "{}" : "";
          const Answer answer = method->server_streaming()
                                    ? Post(path, absl::StrCat("application/connect+", form), Enveloped(text), token_)
                                    : Post(path, absl::StrCat("application/", form), text, token_);
          if (method->server_streaming()) {
            EXPECT_EQ(answer.status, 200) << path;
            EXPECT_EQ(answer.body, EndOfStream(wire::FromGrpc(status))) << path;
          } else if (!status.ok()) {
            EXPECT_EQ(answer.status, HttpStatus(wire::FromGrpc(status))) << path;
            EXPECT_EQ(json::parse(answer.body)["code"], json::parse(ErrorJson(wire::FromGrpc(status)))["code"]) << path;
            EXPECT_EQ(json::parse(answer.body)["details"], json::parse(ErrorJson(wire::FromGrpc(status)))["details"])
                << path;
          } else {
            EXPECT_EQ(answer.status, 200) << path << answer.body;
            EXPECT_EQ(answer.fields.at("content-type"), absl::StrCat("application/", form)) << path;
          }
        }
        ++calls;
      }
    }
  }
  EXPECT_GT(calls, 40);
}

TEST_F(GatewayTest, CallsNeedAToken) {
  const Answer none = Post("/luthier.v1.StudyService/ListStudies", "application/json", "{}", "");
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(none.body, HasSubstr("NO_TOKEN"));
  const Answer wrong = Post("/luthier.v1.StudyService/ListStudies", "application/json", "{}", "nonsense");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(Call("StudyService/ListStudies", json::object()).status, 200);
  // The audit has the address of the client, not that of the gateway.
  EXPECT_THAT(Call("AdminService/ListAudit", json::object()).body, HasSubstr("ipv4:127.0.0.1"));
}

TEST_F(GatewayTest, AStreamIsReadToItsEnd) {
  CreateStudy();
  for (int i = 0; i < 2; ++i) {
    const Answer asked = Call("WorkerService/Suggest", {{"study", "projects/default/studies/s"},
                                                        {"worker", "w"},
                                                        {"count", 1},
                                                        {"requestId", absl::StrCat("ask-", i)}});
    ASSERT_EQ(asked.status, 200) << asked.body;
    const json lease = json::parse(asked.body)["leases"][0];
    const Answer told = Call(
        "WorkerService/Complete",
        {{"trial", lease["trial"]["name"]}, {"token", lease["token"]}, {"measurement", {{"metrics", {{"y", i}}}}}});
    ASSERT_EQ(told.status, 200) << told.body;
  }
  const json request = {{"name", "projects/default/studies/s"}, {"untilFinished", true}};
  const Answer watched =
      Post("/luthier.v1.StudyService/WatchStudy", "application/connect+json", Enveloped(request.dump()), token_);
  EXPECT_EQ(watched.status, 200);
  EXPECT_THAT(watched.body, HasSubstr("STUDY_COMPLETED"));
  EXPECT_TRUE(absl::EndsWith(watched.body, EndOfStream(absl::OkStatus())));
}

TEST_F(GatewayTest, AConnectionCarriesOneRequestAfterTheOther) {
  const int fd = Connect();
  for (int i = 0; i < 20; ++i) {
    const std::string request = absl::StrCat(
        "POST /luthier.v1.StudyService/ListStudies HTTP/1.1\r\nHost: 127.0.0.1:", port_,
        "\r\nContent-Type: application/json\r\nAuthorization: Bearer ", token_, "\r\nContent-Length: 2\r\n\r\n{}");
    ASSERT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string text;
    char buffer[4096];
    while (!absl::StrContains(text, "\r\n\r\n{}")) {
      const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
      ASSERT_GT(n, 0) << "after " << i << " requests: " << text;
      text.append(buffer, static_cast<size_t>(n));
    }
    EXPECT_TRUE(absl::StartsWith(text, "HTTP/1.1 200"));
  }
  close(fd);
}

TEST_F(GatewayTest, WhatIsTooLargeOrCompressedIsRefused) {
  EXPECT_EQ(
      Post("/luthier.v1.StudyService/GetStudy", "application/json", std::string(kMaxBodyBytes + 1, ' '), token_).status,
      413);
  EXPECT_EQ(Parsed(Exchange(absl::StrCat("GET / HTTP/1.1\r\nHost: localhost:", port_,
                                         "\r\nX: ", std::string(kMaxHeadBytes, 'x'), "\r\n\r\n")))
                .status,
            431);
  EXPECT_EQ(Parsed(Exchange(absl::StrCat(
                       "POST /luthier.v1.StudyService/GetStudy HTTP/1.1\r\nHost: localhost:", port_,
                       "\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")))
                .status,
            415);
  EXPECT_EQ(Call("StudyService/GetNothing", json::object()).status, 501);
}

TEST_F(GatewayTest, WhatIsNotHttpOrMeansTwoThingsIsRefused) {
  const std::string call = absl::StrCat("POST /luthier.v1.StudyService/ListStudies HTTP/1.1\r\nHost: localhost:", port_,
                                        "\r\nContent-Type: application/json\r\nAuthorization: Bearer ", token_, "\r\n");
  // Where the body ends must be said once.
  for (const std::string& text :
       {std::string("nonsense\r\n\r\n"), std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        call + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", call + "Content-Length: 2, 3\r\n\r\n{}",
        call + "Content-Length: -1\r\n\r\n{}",
        call + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        call + "Content-Length : 2\r\n\r\n{}", call + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        call + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"}) {
    const Answer answer = Parsed(Exchange(text));
    EXPECT_EQ(answer.status, 400) << text;
  }
}

TEST_F(GatewayTest, AClientThatWaitsBeforeItSendsTheBodyIsTold) {
  const int fd = Connect();
  const std::string head = absl::StrCat("POST /luthier.v1.StudyService/ListStudies HTTP/1.1\r\nHost: localhost:", port_,
                                        "\r\nContent-Type: application/json\r\nAuthorization: Bearer ", token_,
                                        "\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  ASSERT_EQ(send(fd, head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
  char buffer[4096];
  ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(0, n))), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_EQ(send(fd, "{}", 2, MSG_NOSIGNAL), 2);
  n = recv(fd, buffer, sizeof(buffer), 0);
  EXPECT_THAT(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(0, n))), HasSubstr("HTTP/1.1 200"));
  close(fd);
}

TEST_F(GatewayTest, FilesHaveTheirTypesAndThePolicy) {
  const Answer script = Get("/plot.js");
  EXPECT_EQ(script.status, 200);
  EXPECT_EQ(script.fields.at("content-type"), "text/javascript; charset=utf-8");
  EXPECT_THAT(script.fields.at("content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(script.fields.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(Get("/nothing.js").status, 404);
  EXPECT_EQ(Get("/../../etc/passwd").status, 404);
  EXPECT_EQ(Get("/%2e%2e/etc/passwd").status, 404);
  EXPECT_EQ(Get("/healthz").body, "ready\n");
}

TEST_F(GatewayTest, EveryCommittedFileIsServedToTheByte) {
  const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                    {".js", "text/javascript; charset=utf-8"},
                                                    {".css", "text/css; charset=utf-8"},
                                                    {".txt", "text/plain; charset=utf-8"},
                                                    {".binpb", "application/octet-stream"}};
  const char* const source = std::getenv("LUTHIER_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::map<std::string, std::string> expected;
  for (const auto& file : std::filesystem::directory_iterator(absl::StrCat(source, "/client/web/dist"))) {
    std::ifstream in(file.path(), std::ios::binary);
    expected[file.path().filename()] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_GE(expected.size(), 6);
  std::set<std::string> served;
  for (const web::Asset& asset : web::Assets()) {
    const std::string name(asset.name);
    served.insert(name);
    const Answer answer = Get(absl::StrCat("/", name));
    EXPECT_EQ(answer.status, 200) << name;
    EXPECT_EQ(answer.fields.at("content-type"), types.at(name.substr(name.rfind('.')))) << name;
    EXPECT_THAT(answer.fields.at("content-security-policy"), HasSubstr("require-trusted-types-for 'script'")) << name;
    EXPECT_EQ(answer.fields.at("x-content-type-options"), "nosniff") << name;
    EXPECT_EQ(answer.fields.at("referrer-policy"), "no-referrer") << name;
    EXPECT_TRUE(answer.body == asset.bytes) << name;
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(answer.body.data()), answer.body.size(), hash);
    const std::string hex =
        absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), sizeof(hash)));
    EXPECT_EQ(asset.sha256, hex) << name;
    EXPECT_EQ(answer.fields.at("etag"), absl::StrCat("\"", hex.substr(0, 32), "\"")) << name;
    if (name != "api.binpb") {
      EXPECT_TRUE(expected.at(name) == answer.body) << name;
    }
  }
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(served.contains(name)) << name;
  EXPECT_TRUE(Get("/").body == expected.at("index.html"));
}

TEST_F(GatewayTest, TheFormOfAStudyHasFieldsAndComments) {
  google::protobuf::FileDescriptorSet set;
  ASSERT_TRUE(set.ParseFromString(Get("/api.binpb").body));
  google::protobuf::SimpleDescriptorDatabase files;
  for (const auto& file : set.file()) files.Add(file);
  google::protobuf::DescriptorPoolDatabase imports(*google::protobuf::DescriptorPool::generated_pool());
  google::protobuf::MergedDescriptorDatabase all(&files, &imports);
  const google::protobuf::DescriptorPool pool(&all);
  const auto* const told = pool.FindMessageTypeByName("luthier.v1.StudySpec");
  const auto* const own = v1::StudySpec::descriptor();
  ASSERT_NE(told, nullptr);
  ASSERT_EQ(told->field_count(), own->field_count());
  for (int i = 0; i < own->field_count(); ++i) {
    google::protobuf::SourceLocation place;
    EXPECT_EQ(told->field(i)->name(), own->field(i)->name());
    EXPECT_TRUE(told->field(i)->GetSourceLocation(&place) && !place.leading_comments.empty()) << own->field(i)->name();
  }
}

TEST_F(GatewayTest, FilesAreSentCompressedAndOnlyOnce) {
  const Answer plain = Get("/page.js");
  const Answer zipped = Get("/page.js", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(zipped.fields.at("content-encoding"), "gzip");
  EXPECT_EQ(zipped.fields.at("vary"), "Accept-Encoding");
  EXPECT_LT(3 * zipped.body.size(), 2 * plain.body.size());
  EXPECT_NE(zipped.fields.at("etag"), plain.fields.at("etag"));
  const Answer again =
      Get("/page.js", absl::StrCat("Accept-Encoding: gzip\r\nIf-None-Match: ", zipped.fields.at("etag"), "\r\n"));
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(Get("/page.js", "If-None-Match: \"other\"\r\n").status, 200);
}

TEST_F(GatewayTest, MetricsAreForThoseWhoMayCall) {
  EXPECT_EQ(Get("/metrics").status, 404) << "none are kept";
  EXPECT_EQ(Get("/scale").status, 404);
}

class MetricsGatewayTest : public GatewayTest {
 protected:
  void Configure(server::ServerOptions* options) override { options->metrics_listen = "127.0.0.1:0"; }
};

TEST_F(MetricsGatewayTest, AreForThoseWhoMayCallAtThePageAndForEverybodyAtTheirOwnPort) {
  EXPECT_EQ(Get("/metrics").status, 401);
  EXPECT_EQ(Get("/metrics", "Authorization: Bearer nonsense\r\n").status, 401);
  const Answer allowed = Get("/metrics", absl::StrCat("Authorization: Bearer ", token_, "\r\n"));
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.fields.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(allowed.body, HasSubstr("luthier_ready 1\n"));
  EXPECT_EQ(Get("/scale?pool=gpus").status, 401);
  const Answer scale = Get("/scale?pool=gpus", absl::StrCat("Authorization: Bearer ", token_, "\r\n"));
  EXPECT_EQ(scale.fields.at("content-type"), "application/json");
  EXPECT_EQ(json::parse(scale.body), (json{{"pool", "gpus"}, {"wanted_slots", 0}, {"running_slots", 0}, {"slots", 0}}));
  const std::string address = server_->metrics_address();
  ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port_));
  EXPECT_THAT(Get("/metrics").body, ::testing::StartsWith("# HELP"));
  EXPECT_EQ(json::parse(Get("/scale").body)["pool"], "default");
  for (const char* bad : {"pool=A", "pool=", "pool", "pool=a&pool=b", "x=1", "pool=a%20b", "project=../x"}) {
    EXPECT_EQ(Get(absl::StrCat("/scale?", bad)).status, 400) << bad;
  }
  EXPECT_EQ(Get("/healthz").body, "ready\n");
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Call("StudyService/ListStudies", json::object()).status, 405);
}

TEST_F(MetricsGatewayTest, SayThatTheirPortIsTaken) {
  server::ServerOptions options;
  options.listen = "";
  options.metrics_listen = server_->metrics_address();
  const auto second = server::Server::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics-listen"));
}

TEST(HalfRequests, BlockNobodyAndAreCutOff) {
  const base::SystemClock clock;
  GatewayOptions options;
  options.metrics = [] { return std::string("metric 1\n"); };
  options.head_patience = absl::Milliseconds(200);
  const auto gateway = Gateway::Create(std::move(options), nullptr, &clock);
  const auto url = gateway->Listen(Serves::kMetrics, "127.0.0.1", 0);
  ASSERT_TRUE(url.ok()) << url.status();
  const Loopback port(*url);
  std::vector<int> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back(port.Connect());
    ASSERT_EQ(send(half.back(), "GET /me", 7, MSG_NOSIGNAL), 7);
  }
  EXPECT_THAT(port.Exchange("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("metric 1\n"));
  for (const int fd : half) {
    char byte = 0;
    const ssize_t n = recv(fd, &byte, 1, 0);
    EXPECT_TRUE(n == 0 || (n < 0 && errno != EAGAIN)) << "a silent client is disconnected";
    close(fd);
  }
}

// A coordinator of one person: on a socket, without tokens.
TEST(OwnPage, IsOpenedThroughTheSocketWithATokenThatEndsWithTheCoordinator) {
  const testing::TemporaryDirectory directory;
  server::ServerOptions options;
  options.data_dir = directory.path() + "/data";
  options.listen = "unix:" + directory.path() + "/data/socket";
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto admin =
      v1::AdminService::NewStub(grpc::CreateChannel((*server)->address(), grpc::experimental::LocalCredentials(UDS)));
  v1::OpenPageResponse page, again;
  grpc::ClientContext first, second;
  const grpc::Status opened = admin->OpenPage(&first, v1::OpenPageRequest(), &page);
  ASSERT_TRUE(opened.ok()) << opened.error_message();
  ASSERT_TRUE(admin->OpenPage(&second, v1::OpenPageRequest(), &again).ok());
  EXPECT_EQ(page.url(), again.url());
  EXPECT_EQ(page.token(), again.token());
  const Loopback port(page.url());
  const auto list = [&](const std::string& token) {
    return port.Exchange(absl::StrCat("POST /luthier.v1.StudyService/ListStudies HTTP/1.1\r\nHost: localhost\r\n",
                                      "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n",
                                      token.empty() ? "" : absl::StrCat("Authorization: Bearer ", token, "\r\n"),
                                      "\r\n{}"));
  };
  EXPECT_THAT(list(page.token()), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(list(""), HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(list(page.token().substr(0, 50)), HasSubstr("HTTP/1.1 401"));
  (*server)->Stop();
  server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->http_url(), "") << "a page is opened for one run";
}

TEST_F(GatewayTest, StoppingEndsOpenStreams) {
  CreateStudy();
  const int fd = Connect();
  const json request = {{"name", "projects/default/studies/s"}};
  const std::string body = Enveloped(request.dump());
  const std::string head = absl::StrCat("POST /luthier.v1.StudyService/WatchStudy HTTP/1.1\r\nHost: 127.0.0.1:", port_,
                                        "\r\nContent-Type: application/connect+json\r\nAuthorization: Bearer ", token_,
                                        "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
  ASSERT_EQ(send(fd, head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
  char buffer[65536];
  ASSERT_GT(recv(fd, buffer, sizeof(buffer), 0), 0);
  server_->Stop();
  while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
  }
  close(fd);
}

}  // namespace
}  // namespace luthier::gateway
