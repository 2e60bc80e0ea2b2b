// Every limit of docs/reference/api.md that is checked where a request is read: at the limit and one beyond it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::HasSubstr;

class LimitsTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
    spec.mutable_budget()->set_max_trials(100'000);
    ASSERT_TRUE(Create("s", spec).ok());
  }

  // `call(limit)` must go well, and `call(limit + 1)` be refused with `field`, `value` in words and no effect.
  void ExpectLimit(int limit, const std::function<absl::Status(int)>& call, const std::string& field,
                   const std::string& value) {
    const absl::Status good = call(limit);
    EXPECT_TRUE(good.ok()) << field << ": " << good;
    v1::ServerInfo before, after;
    ASSERT_TRUE(work_->GetServerInfo(Context().get(), {}, &before).ok());
    const absl::Status bad = call(limit + 1);
    EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(base::GetReason(bad), base::reason::kBadField);
    EXPECT_THAT(std::string(bad.message()), HasSubstr(field));
    EXPECT_THAT(std::string(bad.message()), HasSubstr(value));
    ASSERT_TRUE(work_->GetServerInfo(Context().get(), {}, &after).ok());
    EXPECT_EQ(before.seq(), after.seq()) << field << ": a refused call left a trace";
  }

  template <typename Request, typename Response, typename Stub>
  absl::Status Call(const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request) {
    Response response;
    return wire::FromGrpc((stub.get()->*method)(Context().get(), request, &response));
  }

  v1::EnqueueTrialsRequest Enqueue(int trials) {
    v1::EnqueueTrialsRequest request;
    request.set_parent("projects/default/studies/s");
    for (int i = 0; i < trials; ++i) {
      auto& fields = *request.add_trials()->mutable_parameters()->mutable_fields();
      fields["x"].set_number_value(0.5);
      fields["k"].set_number_value(2);
    }
    return request;
  }

  v1::ReportRequest Report(const v1::Lease& lease, int64_t first_step, int points, int metrics = 1) {
    v1::ReportRequest request;
    request.set_trial(lease.trial().name());
    request.set_token(lease.token());
    for (int i = 0; i < points; ++i) {
      v1::Measurement& m = *request.add_measurements();
      m.set_step(first_step + i);
      (*m.mutable_metrics())["loss"] = i;
      for (int k = 1; k < metrics; ++k) {
        (*m.mutable_metrics())[absl::StrCat("a_metric_with_a_name_of_some_length_", k)] = k;
      }
    }
    return request;
  }
};

TEST_F(LimitsTest, PagesHaveAThousandRows) {
  ExpectLimit(
      1000,
      [&](int n) {
        v1::ListTrialsRequest request;
        request.set_parent("projects/default/studies/s");
        request.set_page_size(n);
        return Call(studies_, &v1::StudyService::Stub::ListTrials, request);
      },
      "page_size", "1001 is not between 1 and 1000");
  ExpectLimit(
      1000,
      [&](int n) {
        v1::ListStudiesRequest request;
        request.set_page_size(n);
        return Call(studies_, &v1::StudyService::Stub::ListStudies, request);
      },
      "page_size", "1001 is not between 1 and 1000");
}

TEST_F(LimitsTest, AThousandTrialsAreEnqueuedAtOnce) {
  ExpectLimit(
      1000, [&](int n) { return Call(studies_, &v1::StudyService::Stub::EnqueueTrials, Enqueue(n)); }, "trials",
      "has 1001 entries, not 1 to 1000");
}

TEST_F(LimitsTest, ATrialHasSixtyFourAttributesOfAKibibyte) {
  const auto with = [&](int count, int bytes) {
    v1::EnqueueTrialsRequest request = Enqueue(1);
    for (int i = 0; i < count; ++i) {
      (*request.mutable_trials(0)->mutable_attributes())[absl::StrCat("note", i)] = std::string(bytes, 'x');
    }
    return Call(studies_, &v1::StudyService::Stub::EnqueueTrials, request);
  };
  ExpectLimit(64, [&](int n) { return with(n, 1); }, "trials[0].attributes", "has more than 64 entries");
  ExpectLimit(65536, [&](int n) { return with(1, n); }, "trials[0].attributes", "65536");
}

TEST_F(LimitsTest, AnAskWantsSixtyFourTrialsAndAHeartbeatListsAsMany) {
  ExpectLimit(
      64,
      [&](int n) {
        v1::SuggestRequest request = Ask("s", absl::StrCat("ask", n));
        request.set_count(n);
        return Call(work_, &v1::WorkerService::Stub::Suggest, request);
      },
      "count", "65 is not between 1 and 64");
  ExpectLimit(
      64,
      [&](int n) {
        v1::HeartbeatRequest request;
        request.set_worker("w1");
        for (int i = 0; i < n; ++i) request.add_tokens(std::string(16, 'x'));
        return Call(work_, &v1::WorkerService::Stub::Heartbeat, request);
      },
      "tokens", "has 65 entries; at most 64");
}

TEST_F(LimitsTest, ARequestIdHasSixtyFourCharacters) {
  ExpectLimit(
      64, [&](int n) { return Call(work_, &v1::WorkerService::Stub::Suggest, Ask("s", std::string(n, 'r'))); },
      "request_id", "1 to 64 printable ASCII characters");
}

TEST_F(LimitsTest, AReportHasAThousandPointsOfThirtyTwoMetricsAndAShortCheckpoint) {
  const v1::Lease lease = Lease("s", "a1");
  const auto send = [&](const v1::ReportRequest& request) {
    return Call(work_, &v1::WorkerService::Stub::Report, request);
  };
  ExpectLimit(
      1000, [&](int n) { return send(Report(lease, 0, n)); }, "measurements", "has 1001 entries, not 1 to 1000");
  ExpectLimit(
      32, [&](int n) { return send(Report(lease, 1000, 1, n)); }, "measurements[0].metrics",
      "has 33 entries; at most 32");
  ExpectLimit(
      1024,
      [&](int n) {
        v1::ReportRequest request = Report(lease, 1001, 1);
        request.set_checkpoint(std::string(n, 'c'));
        return send(request);
      },
      "checkpoint", "longer than 1024 bytes");
}

TEST_F(LimitsTest, AFailureTextIsCutNotRefused) {
  const v1::Lease lease = Lease("s", "a1");
  v1::FailRequest request;
  request.set_trial(lease.trial().name());
  request.set_token(lease.token());
  request.mutable_failure()->set_kind(v1::Failure::CONFIG);
  request.mutable_failure()->set_reason("EXIT_CODE");
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ü";
  request.mutable_failure()->set_message(text);
  request.set_output_tail(text);
  ASSERT_TRUE(Call(work_, &v1::WorkerService::Stub::Fail, request).ok());
  v1::GetTrialRequest get;
  get.set_name(lease.trial().name());
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  for (const std::string& kept : {trial.failure().message(), trial.attempts(0).output_tail()}) {
    EXPECT_LE(kept.size(), 4096u);
    EXPECT_GE(kept.size(), 4090u);
    EXPECT_EQ(kept.find_first_of("\xBC"), kept.find("ü") + 1) << "cut within a character";
    EXPECT_EQ(kept.substr(kept.size() - 4000), text.substr(text.size() - 4000));
  }
}

TEST_F(LimitsTest, MetadataHasEightKibibytes) {
  for (const auto& [bytes, good] : {std::pair{6 << 10, true}, {10 << 10, false}}) {
    const auto context = Context();
    context->AddMetadata("x-note", std::string(bytes, 'x'));
    v1::ServerInfo info;
    EXPECT_EQ(work_->GetServerInfo(context.get(), {}, &info).ok(), good) << bytes;
  }
}

// --- Replies fit a message, whatever they are asked for. ---

// About 1.4 MiB of labels.
v1::StudySpec LargeSpec(int labels) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  for (int p = 0; p < 100; ++p) {
    v1::ParameterSpec& parameter = *spec.add_space();
    parameter.set_name(absl::StrCat("p", p));
    for (int i = 0; i < labels; ++i) {
      parameter.mutable_categorical()->add_values(absl::StrCat(i, std::string(236, 'x')));
    }
  }
  return spec;
}

TEST_F(LimitsTest, ASpecIsGoodAtEveryLimitAndRefusedBeyondAnyOne) {
  v1::StudySpec full = FromJson<v1::StudySpec>(kSpec);
  full.set_display_name(std::string(200, 'd'));
  full.set_description(std::string(4000, 'd'));
  full.mutable_budget()->set_max_trials(1'000'000);
  full.mutable_budget()->set_max_parallel(10'000);
  full.mutable_lease()->mutable_ttl()->set_seconds(3600);
  full.mutable_lease()->set_max_attempts(100);
  for (int i = 0; i < 64; ++i) {
    std::string key = absl::StrCat("key", i);
    key.resize(64, 'k');
    (*full.mutable_labels())[key] = std::string(1024, 'v');
  }
  while (full.space_size() < 1000) {
    v1::ParameterSpec& p = *full.add_space();
    std::string name = absl::StrCat("p", full.space_size(), "_");
    name.resize(64, 'p');
    p.set_name(name);
    p.mutable_float_()->set_min(0);
    p.mutable_float_()->set_max(1);
  }
  v1::ParameterSpec& labels = *full.mutable_space(999);
  labels.mutable_categorical()->add_values(std::string(256, 'v'));
  for (int i = 1; i < 1000; ++i) labels.mutable_categorical()->add_values(absl::StrCat("v", i));
  const absl::Status status = Create("full", full);
  EXPECT_TRUE(status.ok()) << status;

  const std::vector<std::pair<std::string, std::function<void(v1::StudySpec*)>>> beyond = {
      {"display_name", [](v1::StudySpec* s) { s->mutable_display_name()->push_back('d'); }},
      {"description", [](v1::StudySpec* s) { s->mutable_description()->push_back('d'); }},
      {"budget.max_trials", [](v1::StudySpec* s) { s->mutable_budget()->set_max_trials(1'000'001); }},
      {"budget.max_parallel", [](v1::StudySpec* s) { s->mutable_budget()->set_max_parallel(10'001); }},
      {"lease.ttl", [](v1::StudySpec* s) { s->mutable_lease()->mutable_ttl()->set_nanos(1); }},
      {"lease.max_attempts", [](v1::StudySpec* s) { s->mutable_lease()->set_max_attempts(101); }},
      {"labels", [](v1::StudySpec* s) { (*s->mutable_labels())["one more"] = ""; }},
      {"space", [](v1::StudySpec* s) { *s->add_space() = s->space(0); }},
      {"space[5].name", [](v1::StudySpec* s) { s->mutable_space(5)->mutable_name()->push_back('p'); }},
      {"categorical.values", [](v1::StudySpec* s) { s->mutable_space(999)->mutable_categorical()->add_values("w"); }},
      {"categorical.values[0]",
       [](v1::StudySpec* s) { s->mutable_space(999)->mutable_categorical()->mutable_values(0)->push_back('v'); }},
  };
  for (const auto& [field, spoil] : beyond) {
    v1::StudySpec spec = full;
    spoil(&spec);
    const absl::Status refused = Create("beyond", spec);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(field));
  }
  EXPECT_EQ(StudyCount(), 2);
}

TEST_F(LimitsTest, AnIdHasSixtyFourCharacters) {
  ExpectLimit(64, [&](int n) { return Create(std::string(n, 'i'), FromJson<v1::StudySpec>(kSpec)); }, "study_id", "64");
}

TEST_F(LimitsTest, ASpecHasTwoMebibytes) {
  const v1::StudySpec spec = LargeSpec(100);
  const absl::Status status = Create("large", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("spec: has ", spec.ByteSizeLong(),
                         " bytes; at most 2097152 are allowed: use fewer or shorter labels"));
  EXPECT_EQ(StudyCount(), 1);
}

// Labels of two bytes fit a message as none else do: in memory each takes 256.
TEST_F(LimitsTest, ASpecHasTheMemoryOfAHundredThirtyThousandLabels) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  const auto grow = [&](int parameters) {
    for (int p = 0; p < parameters; ++p) {
      v1::ParameterSpec& parameter = *spec.add_space();
      parameter.set_name(absl::StrCat("p", spec.space_size()));
      for (int i = 0; i < 1000; ++i) parameter.mutable_categorical()->add_values(absl::StrCat(i));
    }
  };
  grow(100);
  const absl::Status taken = Create("many", spec);
  EXPECT_TRUE(taken.ok()) << taken;
  grow(300);
  ASSERT_LT(spec.ByteSizeLong(), size_t{2} << 20);
  const absl::Status refused = Create("too_many", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()),
            "spec: would take 99 MiB of memory, more than the 32 MiB that a study may: space, with 403 parameters, of "
            "which space[3] (\"p4\", 1000 labels) is the largest, takes 99 MiB of it; use fewer or shorter labels");
  EXPECT_EQ(StudyCount(), 2);
}

// Two bytes of an import are an empty trial, which takes hundreds.
TEST_F(LimitsTest, RequestsOfManySmallPartsAreRefusedBeforeTheyAreParsed) {
  v1::ImportTrialsRequest request;
  request.set_parent("projects/default/studies/s");
  for (int i = 0; i < 1'500'000; ++i) request.add_trials();
  ASSERT_LT(request.ByteSizeLong(), size_t{4} << 20);
  v1::ImportTrialsResponse response;
  const absl::Status refused = wire::FromGrpc(studies_->ImportTrials(Context().get(), request, &response));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(base::GetReason(refused), base::reason::kLimitExceeded);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("would take more than 96 MiB of memory"));
}

TEST_F(LimitsTest, PagesAndLeasesOfLargeStudiesStayBelowTheSizeOfAMessage) {
  for (const char* id : {"t1", "t2", "t3"}) {
    const absl::Status status = Create(id, LargeSpec(60));
    ASSERT_TRUE(status.ok()) << status;
  }
  v1::ListStudiesRequest list;
  std::vector<std::string> names;
  v1::ListStudiesResponse page;
  do {
    page.Clear();
    const grpc::Status status = studies_->ListStudies(Context().get(), list, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(page.studies_size(), 0);
    for (const v1::Study& study : page.studies()) names.push_back(study.name().substr(25));
    list.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty());
  EXPECT_THAT(names, ::testing::ElementsAre("s", "t1", "t2", "t3"));
  v1::SuggestRequest ask = Ask("t1", "a1");
  ask.set_count(64);
  v1::SuggestResponse reply;
  const grpc::Status status = work_->Suggest(Context().get(), ask, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(reply.leases_size(), 0);
}

// One request of 5 KiB asked for 60 MiB of defaults; the reply could not be sent, but all of it was stored.
TEST_F(LimitsTest, TrialsWhoseReplyWouldNotFitAreRefusedBeforeTheyAreStored) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_budget()->set_max_trials(100'000);
  for (int i = spec.space_size(); i < 1000; ++i) {
    v1::ParameterSpec& p = *spec.add_space();
    p.set_name(absl::StrCat("a_parameter_with_a_long_name_", i));
    p.mutable_float_()->set_min(0);
    p.mutable_float_()->set_max(1);
  }
  ASSERT_TRUE(Create("wide", spec).ok());
  const auto enqueue = [&](int trials, v1::EnqueueTrialsResponse* response) {
    v1::EnqueueTrialsRequest request;
    request.set_parent("projects/default/studies/wide");
    for (int i = 0; i < trials; ++i) request.add_trials()->mutable_parameters();
    return wire::FromGrpc(studies_->EnqueueTrials(Context().get(), request, response));
  };
  v1::ServerInfo before, after;
  ASSERT_TRUE(work_->GetServerInfo(Context().get(), {}, &before).ok());
  v1::EnqueueTrialsResponse response;
  const absl::Status refused = enqueue(1000, &response);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(base::GetReason(refused), base::reason::kLimitExceeded);
  ASSERT_TRUE(work_->GetServerInfo(Context().get(), {}, &after).ok());
  EXPECT_EQ(before.seq(), after.seq());
  // What the message says fits, fits; with one more it does not.
  const std::string text(refused.message());
  const size_t first = text.find("the first ");
  ASSERT_NE(first, std::string::npos) << text;
  const int fitting = std::atoi(text.c_str() + first + 10);
  ASSERT_GT(fitting, 10);
  EXPECT_FALSE(enqueue(fitting + 1, &response).ok());
  const absl::Status taken = enqueue(fitting, &response);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(response.trials_size(), fitting);
  EXPECT_EQ(response.trials(0).parameters().fields_size(), 1000);
  EXPECT_LT(response.ByteSizeLong(), size_t{3} << 20) << "counted as fewer bytes than they are";
  EXPECT_GT(response.ByteSizeLong(), size_t{1} << 20) << "counted as far more bytes than they are";

  // Pages of such rows end early, and all rows come, each once.
  v1::ListTrialsRequest list;
  list.set_parent("projects/default/studies/wide");
  list.set_page_size(1000);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(enqueue(fitting, &response).ok());
  std::vector<int64_t> numbers;
  int pages = 0;
  v1::ListTrialsResponse page;
  do {
    page.Clear();
    const grpc::Status status = studies_->ListTrials(Context().get(), list, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(page.trials_size(), 0);
    EXPECT_LE(page.ByteSizeLong(), size_t{4} << 20);
    for (const v1::Trial& trial : page.trials()) numbers.push_back(trial.number());
    list.set_page_token(page.next_page_token());
    ++pages;
  } while (!page.next_page_token().empty());
  EXPECT_GT(pages, 1);
  ASSERT_EQ(numbers.size(), static_cast<size_t>(3 * fitting));
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int64_t>(i) + 1);
}

// Inflated before any limit is looked at, 2 MiB may stand for 2 GiB.
TEST_F(LimitsTest, CompressedRequestsAreRefused) {
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const auto context = Context();
    context->set_compression_algorithm(algorithm);
    v1::CreateStudyRequest request;
    request.set_study_id("compressed");
    *request.mutable_spec() = FromJson<v1::StudySpec>(kSpec);
    request.mutable_spec()->set_description(std::string(4000, 'x'));  // Short messages are not compressed.
    v1::Study study;
    const grpc::Status status = studies_->CreateStudy(context.get(), request, &study);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("Compression algorithm"));
  }
  EXPECT_EQ(StudyCount(), 1);
}

TEST_F(LimitsTest, ALongCurveOfManyMetricsIsReadBackWithTheStudysOwn) {
  const v1::Lease lease = Lease("s", "a1");
  for (int block = 0; block < 10; ++block) {
    ASSERT_TRUE(Call(work_, &v1::WorkerService::Stub::Report, Report(lease, 1000 * block, 1000, 32)).ok());
  }
  v1::GetTrialRequest get;
  get.set_name(lease.trial().name());
  get.set_with_measurements(true);
  v1::Trial trial;
  const grpc::Status status = studies_->GetTrial(Context().get(), get, &trial);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(trial.measurements_size(), 10'000);
  EXPECT_EQ(trial.measurements(0).metrics_size(), 32);
  for (const v1::Measurement& m : trial.measurements()) ASSERT_EQ(m.metrics().count("loss"), 1u);
}

}  // namespace
}  // namespace luthier::service::testing
