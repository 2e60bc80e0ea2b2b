// The table of requests that are answered: every combination of method, host, origin, site, content type and path.
#include "server/gateway/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace luthier::gateway {
namespace {

constexpr char kCall[] = "/luthier.v1.StudyService/GetStudy";

TEST(RulesTest, OnlyThePlaceItselfIsAnswered) {
  const Place place{.host = "127.0.0.1", .port = 7792, .tls = false, .other_hosts = {"tuner.example"}};
  const std::vector<std::pair<std::string, bool>> hosts = {{"127.0.0.1:7792", true},
                                                           {"localhost:7792", true},
                                                           {"LOCALHOST:7792", true},
                                                           {"[::1]:7792", true},
                                                           {"tuner.example:7792", true},
                                                           {"", false},
                                                           {"127.0.0.1", true},
                                                           {"127.0.0.1:80", true},
                                                           {"Tuner.Example", true},
                                                           {"192.168.1.5:7792", false},
                                                           {"127.0.0.1:", false},
                                                           {"127.0.0.1:x", false},
                                                           {"127.0.0.1:123456", false},
                                                           {"[::1:7792", false},
                                                           {"[::1]7792", false},
                                                           {"evil.example", false},
                                                           {"evil.example:7792", false},
                                                           {"localhost.evil.example:7792", false},
                                                           {"127.0.0.1:7792.evil.example", false},
                                                           {"tuner.example.:7792", false}};
  const std::vector<std::string> sites = {"", "same-origin", "none", "same-site", "cross-site", "else"};
  const std::vector<std::pair<std::string, Kind>> types = {{"application/json", Kind::kUnary},
                                                           {"application/proto", Kind::kUnary},
                                                           {"application/connect+json", Kind::kStream},
                                                           {"application/connect+proto", Kind::kStream},
                                                           {"Application/JSON; charset=utf-8", Kind::kUnary},
                                                           {"text/plain", Kind::kRefused},
                                                           {"application/x-www-form-urlencoded", Kind::kRefused},
                                                           {"multipart/form-data", Kind::kRefused},
                                                           {"", Kind::kRefused}};
  int judged = 0;
  int answered = 0;
  for (const auto& [host, own_host] : hosts) {
    const std::vector<std::pair<std::string, bool>> origins = {
        {"", true},
        {absl::StrCat("http://", host), own_host && host == absl::AsciiStrToLower(host)},
        {"http://evil.example", false},
        {absl::StrCat("https://", host), own_host && host == absl::AsciiStrToLower(host)},
        {"null", false},
        {"http://127.0.0.1:1", false}};
    for (const auto& [origin, own_origin] : origins) {
      for (const std::string& site : sites) {
        const bool own_site = site.empty() || site == "same-origin" || site == "none";
        for (const auto& [type, kind] : types) {
          for (const char* method : {"POST", "GET", "PUT", "OPTIONS", "DELETE"}) {
            for (const char* path :
                 {kCall, "/", "/plot.js", "/healthz", "/metrics", "/scale?pool=a", "/../etc/passwd"}) {
              RequestHead head;
              head.method = method;
              head.target = path;
              head.host = host;
              head.origin = origin;
              head.fetch_site = site;
              head.content_type = type;
              const Ruling ruling = Judge(head, place);
              const bool call = path == absl::string_view(kCall);
              const bool mine = own_host && own_origin && own_site;
              const bool good = mine && (call ? method == absl::string_view("POST") && kind != Kind::kRefused
                                              : method == absl::string_view("GET"));
              const Kind expected = !good                                   ? Kind::kRefused
                                    : call                                  ? kind
                                    : path == absl::string_view("/healthz") ? Kind::kHealth
                                    : path == absl::string_view("/metrics") ? Kind::kMetrics
                                    : absl::StartsWith(path, "/scale")      ? Kind::kScale
                                                                            : Kind::kAsset;
              ASSERT_EQ(ruling.kind, expected) << method << " " << path << " host " << host << " origin " << origin
                                               << " site " << site << " " << type;
              if (!mine) {
                EXPECT_EQ(ruling.status, 403);
              }
              ++judged;
              answered += good ? 1 : 0;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(judged, 20 * 6 * 6 * 9 * 5 * 7);
  EXPECT_GT(answered, 100);
}

TEST(RulesTest, APlaceAtAllAddressesIsKnownByNumbersAndByTheNamesItIsGiven) {
  const Place place{.host = "0.0.0.0", .port = 7792, .other_hosts = {"tuner.example"}};
  const auto answered = [&](const char* host) {
    return Judge({.method = "GET", .target = "/", .host = host}, place).kind == Kind::kAsset;
  };
  for (const char* host : {"192.168.1.5:7792", "[fe80::1]:80", "localhost:7792", "tuner.example", "0.0.0.0:7792"}) {
    EXPECT_TRUE(answered(host)) << host;
  }
  for (const char* host : {"evil.example:7792", "192.168.1.5.evil.example", "1.2.3", ""}) {
    EXPECT_FALSE(answered(host)) << host;
  }
  EXPECT_EQ(place.url(), "http://tuner.example:7792");
  EXPECT_EQ((Place{.host = "0.0.0.0", .port = 7792}).url(), "http://127.0.0.1:7792");
  EXPECT_EQ((Place{.host = "::1", .port = 7792, .tls = true}).url(), "https://[::1]:7792");
}

TEST(RulesTest, WithTlsAPageInPlainTextIsAnotherOrigin) {
  RequestHead head{.method = "POST", .target = kCall, .host = "localhost:1", .content_type = "application/json"};
  const Place place{.host = "127.0.0.1", .port = 1, .tls = true};
  head.origin = "https://localhost:1";
  EXPECT_EQ(Judge(head, place).kind, Kind::kUnary);
  head.origin = "http://localhost:1";
  EXPECT_EQ(Judge(head, place).status, 403);
}

TEST(RulesTest, LinksOfOtherSitesLeadToThePageAndToNothingElse) {
  RequestHead head{.method = "GET", .target = "/", .host = "localhost:1", .fetch_site = "cross-site"};
  const Place place{.host = "127.0.0.1", .port = 1};
  EXPECT_EQ(Judge(head, place).status, 403);
  head.fetch_mode = "navigate";
  EXPECT_EQ(Judge(head, place).kind, Kind::kAsset);
  for (const char* target : {"/page.js", "/metrics", "/healthz", kCall}) {
    head.target = target;
    EXPECT_EQ(Judge(head, place).status, 403) << target;
  }
}

TEST(RulesTest, MetricsAloneAreServedUnderAnyName) {
  const Place place{.host = "127.0.0.1", .port = 7791, .page = false};
  const auto kind = [&](const char* method, const char* target) {
    return Judge({.method = method, .target = target, .host = "luthierd.monitoring:7791"}, place).kind;
  };
  EXPECT_EQ(kind("GET", "/metrics"), Kind::kMetrics);
  EXPECT_EQ(kind("GET", "/metrics?x=1"), Kind::kMetrics);
  EXPECT_EQ(kind("GET", "/scale?pool=a"), Kind::kScale);
  EXPECT_EQ(Judge({.method = "GET", .target = "/scale?pool=a&x", .host = "a:1"}, place).subject, "pool=a&x");
  EXPECT_EQ(Judge({.method = "GET", .target = "/scale", .host = "a:1"}, place).subject, "");
  EXPECT_EQ(kind("HEAD", "/healthz"), Kind::kHealth);
  for (const char* target : {"/", "/metrics/..", "/page.js", kCall}) EXPECT_EQ(kind("GET", target), Kind::kRefused);
  EXPECT_EQ(kind("POST", kCall), Kind::kRefused);
  EXPECT_EQ(kind("POST", "/metrics"), Kind::kRefused);
}

TEST(RulesTest, GzipIsForThoseWhoAcceptItAndAreFarAway) {
  for (const char* yes : {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "*", "gzip ; q=1"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const char* no : {"", "identity", "br", "gzip;q=0", "gzip;q=0.0", "gzip;q=x", "xgzip"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
  EXPECT_TRUE(WorthCompressing("ipv4:10.0.0.7", 1024));
  EXPECT_FALSE(WorthCompressing("ipv4:10.0.0.7", 1023));
  EXPECT_FALSE(WorthCompressing("ipv4:127.0.0.1", 1 << 20));
  EXPECT_FALSE(WorthCompressing("ipv6:::1", 1 << 20));
}

TEST(RulesTest, RepeatedFieldsAreRefused) {
  RequestHead head{.method = "GET", .target = "/", .host = "127.0.0.1:1"};
  EXPECT_EQ(Judge(head, {.host = "127.0.0.1", .port = 1}).subject, "index.html");
  head.repeated = true;
  EXPECT_EQ(Judge(head, {.host = "127.0.0.1", .port = 1}).status, 400);
}

TEST(RulesTest, ThePolicyLetsOnlyOwnScriptsRun) {
  for (const auto& [name, value] : SecurityHeaders()) {
    if (name != "Content-Security-Policy") continue;
    EXPECT_TRUE(absl::StartsWith(value, "default-src 'none'; script-src 'self';"));
    EXPECT_FALSE(absl::StrContains(value, "unsafe"));
    return;
  }
  FAIL() << "there is no policy";
}

}  // namespace
}  // namespace luthier::gateway
