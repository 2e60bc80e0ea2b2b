#include "lib/wire/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/wire/channel.h"

namespace luthier::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Unavailable(const std::string& what, const char* reason = "") {
  return *reason == '\0' ? absl::UnavailableError(what) : base::MakeError(absl::StatusCode::kUnavailable, reason, what);
}

TEST(Addresses, AreSplitAtCommas) {
  EXPECT_THAT(*SplitAddresses("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(*SplitAddresses("a:1,[::1]:2,dns:///c:3"), ElementsAre("a:1", "[::1]:2", "dns:///c:3"));
  // Paths may have commas.
  EXPECT_THAT(*SplitAddresses("unix:/a,b:1/socket"), ElementsAre("unix:/a,b:1/socket"));
  EXPECT_THAT(*SplitAddresses("a:1,unix:/a,b/socket"), ElementsAre("a:1", "unix:/a,b/socket"));
  for (const char* bad : {",", "a:1,", ",a:1", "a:1,,b:1"}) {
    EXPECT_THAT(std::string(SplitAddresses(bad).status().message()), HasSubstr("has an empty address")) << bad;
  }
  std::string many = "a:1";
  for (size_t i = 1; i < kMostAddresses; ++i) many += ",a:1";
  EXPECT_EQ(SplitAddresses(many)->size(), kMostAddresses);
  EXPECT_THAT(std::string(SplitAddresses(many + ",a:1").status().message()), HasSubstr("more than 16 addresses"));
}

TEST(Addresses, EachIsChecked) {
  EXPECT_TRUE(CheckServer("a:1,dns:///b:2,unix:/c", {}).ok());
  EXPECT_THAT(std::string(CheckServer("a:1,b", {}).message()), HasSubstr("\"b\" has no port"));
  EXPECT_THAT(std::string(CheckServer("dns:///b", {}).message()), HasSubstr("has no port"));
  EXPECT_THAT(std::string(CheckServer("dns://8.8.8.8/b:1", {}).message()), HasSubstr("leave out the scheme"));
  ChannelSecurity security;
  security.token = "lut_0123456789abcdef_secret";
  EXPECT_TRUE(CheckServer("localhost:1,dns:///127.0.0.1:2", security).ok());
  EXPECT_THAT(std::string(CheckServer("localhost:1,db2.example:1", security).message()),
              HasSubstr("\"db2.example:1\" is another machine"));
  EXPECT_EQ(*ServerTarget("dns:///b:2"), "dns:///b:2");
}

TEST(Turns, TheAddressThatAnsweredLastIsAskedFirst) {
  Turns turns({"a:1", "b:1", "c:1"});
  std::vector<size_t> asked;
  size_t serves = 1;
  const auto call = [&](size_t index) {
    asked.push_back(index);
    return index == serves ? absl::OkStatus() : Unavailable("refused");
  };
  EXPECT_TRUE(turns.Try(call).ok());
  EXPECT_TRUE(turns.Try(call).ok());
  EXPECT_THAT(asked, ElementsAre(0, 1, 1));
  asked.clear();
  serves = 0;  // It moves, and all others are tried before it is found.
  EXPECT_TRUE(turns.Try(call).ok());
  EXPECT_THAT(asked, ElementsAre(1, 2, 0));
}

TEST(Turns, AnErrorNamesEachAddressOnce) {
  Turns turns({"a:1", "b:1"});
  int calls = 0;
  const absl::Status status = turns.Try([&](size_t index) {
    ++calls;
    return Unavailable(index == 0 ? "refused" : "no route");
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "no coordinator answers at any of 2 addresses: a:1: refused; b:1: no route");
  Turns one({"a:1"});
  EXPECT_EQ(one.Try([](size_t) { return Unavailable("refused"); }), Unavailable("refused"));
}

TEST(Turns, WhatACoordinatorSaidIsTheAnswer) {
  for (const absl::Status& said :
       {absl::OkStatus(), absl::NotFoundError("no"), Unavailable("full", base::reason::kStorageFull)}) {
    Turns turns({"a:1", "b:1"});
    int calls = 0;
    EXPECT_EQ(turns
                  .Try([&](size_t) {
                    ++calls;
                    return said;
                  })
                  .code(),
              said.code());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(turns.now(), 0u);
  }
  // One that is about to end is left for the next one; if nobody else answers, its word and its delay count.
  Turns turns({"a:1", "b:1"});
  const absl::Status draining = turns.Try([&](size_t index) {
    return index == 1 ? Unavailable("stops", base::reason::kDraining) : Unavailable("refused");
  });
  EXPECT_EQ(base::GetReason(draining), base::reason::kDraining);
}

TEST(Turns, OfSeveralCallersThatFailTheFirstPassesOn) {
  Turns turns({"a:1", "b:1", "c:1"});
  turns.PassOn(0);
  turns.PassOn(0);
  EXPECT_EQ(turns.now(), 1u);
}

}  // namespace
}  // namespace luthier::wire
