// The table of requests that are answered: every combination of method, host, origin, site, content type and path.
#include "server/gateway/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
                                                           {"127.0.0.1", false},
                                                           {"127.0.0.1:80", false},
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
        {absl::StrCat("http://", host), own_host && host != "LOCALHOST:7792"},
        {"http://evil.example", false},
        {absl::StrCat("https://", host), false},
        {"null", false},
        {"http://127.0.0.1:1", false}};
    for (const auto& [origin, own_origin] : origins) {
      for (const std::string& site : sites) {
        const bool own_site = site.empty() || site == "same-origin" || site == "none";
        for (const auto& [type, kind] : types) {
          for (const char* method : {"POST", "GET", "PUT", "OPTIONS", "DELETE"}) {
            for (const char* path : {kCall, "/", "/plot.js", "/healthz", "/metrics", "/../etc/passwd"}) {
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
  EXPECT_EQ(judged, 13 * 6 * 6 * 9 * 5 * 6);
  EXPECT_GT(answered, 100);
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
