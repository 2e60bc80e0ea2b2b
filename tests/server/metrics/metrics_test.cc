#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/version.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/metrics/scale.h"

namespace luthier::metrics {
namespace {

using coordinator::OperationClass;
using ::testing::HasSubstr;
using ::testing::Not;

storage::Event EventOf(storage::EventType type) {
  storage::Event event;
  event.type = type;
  event.study_id = "secret-study";
  event.actor = "secret-worker";
  event.detail = "secret-detail";
  return event;
}

TEST(Metrics, CallsByMethodAndCode) {
  Metrics metrics({{"WorkerService/Suggest"}, "", nullptr});
  metrics.OnCall("WorkerService/Suggest", "OK", absl::Milliseconds(20));
  metrics.OnCall("WorkerService/Suggest", "OK", absl::Seconds(20));
  metrics.OnCall("WorkerService/Suggest", "ABORTED", absl::Seconds(20));
  metrics.OnCall("Evil/\"name\"\n", "OK", absl::Seconds(1));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("luthier_rpc_total{code=\"OK\",method=\"WorkerService/Suggest\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_total{code=\"other\",method=\"WorkerService/Suggest\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_total{code=\"OK\",method=\"other\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_seconds_bucket{method=\"WorkerService/Suggest\",le=\"0.05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_seconds_count{method=\"WorkerService/Suggest\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("Evil")));
}

TEST(Metrics, SlotsByPoolOfAllProjects) {
  Metrics metrics({});
  coordinator::Census census;
  census.slots = {{"default/gpus", {2, 3}}, {"vision/gpus", {1, 10}}, {"vision/default", {4, 0}}};
  metrics.OnCensus(census);
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_wanted_slots{pool=\"gpus\"} 13\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_running_slots{pool=\"gpus\"} 3\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_wanted_slots{pool=\"default\"} 0\n"));
  EXPECT_EQ(metrics.Slots("gpus"), (coordinator::PoolSlots{3, 13}));
  EXPECT_EQ(metrics.Slots("gpus", "vision"), (coordinator::PoolSlots{1, 10}));
  EXPECT_EQ(metrics.Slots("gpu"), coordinator::PoolSlots());
  EXPECT_EQ(*ScaleAnswer(metrics, "pool=gpus"),
            "{\"pool\":\"gpus\",\"wanted_slots\":13,\"running_slots\":3,\"slots\":16}\n");
  EXPECT_EQ(*ScaleAnswer(metrics, "project=vision&pool=gpus"),
            "{\"pool\":\"gpus\",\"wanted_slots\":10,\"running_slots\":1,\"slots\":11}\n");
  EXPECT_EQ(*ScaleAnswer(metrics, ""), "{\"pool\":\"default\",\"wanted_slots\":0,\"running_slots\":4,\"slots\":4}\n");
  for (const char* bad : {"pool=A", "pool=", "pool", "pool=a&pool=b", "pols=a", "=", "pool=a%2Fb"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ScaleAnswer(metrics, bad).status())) << bad;
  }
  // Pools that are gone have no series, and there are never too many.
  census.slots.clear();
  for (int i = 100; i < 200; ++i) census.slots[absl::StrCat("default/p", i)] = {1, 1};
  metrics.OnCensus(census);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, Not(HasSubstr("pool=\"gpus\"")));
  EXPECT_THAT(text, HasSubstr("luthier_wanted_slots{pool=\"p149\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("pool=\"p150\"")));
  EXPECT_THAT(text, HasSubstr("luthier_wanted_slots{pool=\"other\"} 50\n"));
}

TEST(Metrics, TokensInForceAndFailedAuthentications) {
  std::map<std::string, int64_t> tokens = {{"admin", 1}, {"worker", 3}};
  Metrics metrics({{}, "", nullptr, [&] { return tokens; }, true});
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_auth_failures_total{reason=\"bad_token\"} 0\n"));
  metrics.OnAuthFailure(base::reason::kBadToken);
  metrics.OnAuthFailure(base::reason::kRevoked);
  metrics.OnAuthFailure(base::reason::kRevoked);
  metrics.OnAuthFailure("secret-reason");
  tokens["worker"] = 2;
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("luthier_auth_failures_total{reason=\"bad_token\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_auth_failures_total{reason=\"revoked\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("luthier_auth_failures_total{reason=\"other\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_auth_failures_total{reason=\"no_token\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("luthier_tokens{role=\"admin\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_tokens{role=\"worker\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("luthier_insecure 1\n"));
  EXPECT_THAT(Metrics({}).Text(), HasSubstr("luthier_insecure 0\n"));
}

TEST(Metrics, GradientsThatAreNotUsedByReason) {
  Metrics metrics({});
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_gradients_rejected_total{reason=\"invalid\"} 0\n"));
  metrics.OnEvent(EventOf(storage::EventType::kGradientDropped));
  metrics.OnEvent(EventOf(storage::EventType::kGradientSetAside));
  metrics.OnEvent(EventOf(storage::EventType::kGradientSetAside));
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_gradients_rejected_total{reason=\"invalid\"} 1\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_gradients_rejected_total{reason=\"contradicts_losses\"} 2\n"));
}

// An alert on an increase would not see an event with which its series begins.
TEST(Metrics, WhatAlertsAreAboutIsThereBeforeItHappens) {
  const std::string text = Metrics({}).Text();
  for (const char* reason : {"queue_full", "memory", "storage_low"}) {
    for (const char* operations : {"results", "requests"}) {
      EXPECT_THAT(
          text, HasSubstr(absl::StrCat("luthier_shed_total{class=\"", operations, "\",reason=\"", reason, "\"} 0\n")));
    }
  }
  for (const char* event : {"granted", "retried", "completed", "imported"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("luthier_trial_events_total{event=\"", event, "\"} 0\n")));
  }
  EXPECT_THAT(text, HasSubstr("luthier_gradients_rejected_total{reason=\"invalid\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("luthier_sync_errors_total 0\n"));
}

TEST(Metrics, RefusalsCommitsAndSuggestions) {
  Metrics metrics({});
  metrics.OnRefused(OperationClass::kRequests, coordinator::Draining());
  metrics.OnRefused(OperationClass::kResults, coordinator::QueueFull("results"));
  metrics.OnRefused(OperationClass::kRequests, absl::DeadlineExceededError("late"));
  metrics.OnRefused(OperationClass::kRequests,
                    base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kMemory, "the server is full"));
  metrics.OnCommit(absl::Microseconds(200), 5, absl::OkStatus());
  metrics.OnCommit(absl::Seconds(3), 5, absl::UnavailableError("disk full"));
  metrics.OnSuggestions("bo", absl::Milliseconds(5));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("luthier_shed_total{class=\"requests\",reason=\"draining\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_shed_total{class=\"results\",reason=\"queue_full\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_shed_total{class=\"requests\",reason=\"deadline\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_shed_total{class=\"requests\",reason=\"memory\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_commit_seconds_bucket{le=\"0.0003\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_commit_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_commit_batch_sum 5\n"));
  EXPECT_THAT(text, HasSubstr("luthier_sync_errors_total 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_search_compute_seconds_bucket{algorithm=\"bo\",le=\"0.01\"} 1\n"));
}

TEST(Metrics, TrialsQueuesAndDisk) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/metrics");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/luthier.db") << std::string(1000, 'x');
  bool ready = false;
  Metrics metrics({{}, folder, [&] { return ready; }});
  EXPECT_THAT(metrics.Text(), HasSubstr("luthier_ready 0\n"));
  ready = true;
  coordinator::Census census;
  census.trials[static_cast<size_t>(study::TrialState::kRunning)] = 7;
  census.leases = 7;
  census.waiting_asks = 3;
  census.queues[static_cast<size_t>(OperationClass::kResults)] = {12, 3456};
  metrics.OnCensus(census);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("luthier_ready 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_trials{state=\"running\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("luthier_trials{state=\"paused\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("luthier_leases 7\n"));
  EXPECT_THAT(text, HasSubstr("luthier_waiting_asks 3\n"));
  EXPECT_THAT(text, HasSubstr("luthier_queue_depth{class=\"results\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("luthier_queue_bytes{class=\"results\"} 3456\n"));
  EXPECT_THAT(text, HasSubstr("luthier_db_bytes 1000\n"));
  EXPECT_THAT(text, HasSubstr("luthier_wal_bytes 0\n"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("luthier_build_info{version=\"", base::kVersion, "\"} 1\n")));
  EXPECT_THAT(text, Not(HasSubstr("luthier_rss_bytes 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("luthier_open_fds 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("luthier_disk_free_bytes 0\n")));
  std::filesystem::remove_all(folder);
}

// Whatever is called, refused and reported: Prometheus must not be flooded, nor learn a name.
TEST(Metrics, AtMostFiveHundredSeriesAndNoNames) {
  std::vector<std::string> methods;
  for (int i = 0; i < 21; ++i) methods.push_back(absl::StrCat("Service/Method", i));
  Metrics metrics({methods, "", nullptr});
  for (const std::string& method : methods) {
    for (int code = 0; code <= 16; ++code)
      metrics.OnCall(method, absl::StatusCodeToString(static_cast<absl::StatusCode>(code)), absl::Seconds(1));
  }
  for (int i = 0; i < 1000; ++i) metrics.OnCall(absl::StrCat("secret-", i), "OK", absl::Seconds(1));
  for (int i = 0; i <= 30; ++i) metrics.OnEvent(EventOf(static_cast<storage::EventType>(i)));
  for (int i = 0; i < 16; ++i) metrics.OnSuggestions(absl::StrCat("algorithm", i), absl::Seconds(1));
  metrics.OnCensus({});
  for (const auto operation_class : {OperationClass::kResults, OperationClass::kRequests}) {
    metrics.OnRefused(operation_class, coordinator::Draining());
    metrics.OnRefused(operation_class, coordinator::QueueFull("asks"));
    metrics.OnRefused(operation_class, absl::DeadlineExceededError(""));
    for (const char* reason : {base::reason::kMemory, base::reason::kStorageLow})
      metrics.OnRefused(operation_class, base::MakeError(absl::StatusCode::kUnavailable, reason, ""));
  }
  const std::string text = metrics.Text();
  int series = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    if (text[begin] != '#') ++series;
    begin = text.find('\n', begin) + 1;
  }
  EXPECT_GT(series, 300);
  EXPECT_LE(series, 500);
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace luthier::metrics
