// Calls that only look: tables of trials, the log backwards, importance; and what open spaces are through the API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kReadStudy[] = "projects/default/studies/s";

class ReadsTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  }
  void Import(int count, int from = 0, size_t label = 0, const std::string& study = "s") {
    v1::ImportTrialsRequest request;
    request.set_parent(absl::StrCat("projects/default/studies/", study));
    for (int i = 0; i < count; ++i) {
      const double x = static_cast<double>((7 * (from + i)) % 100) / 100.0;
      v1::Trial& trial = *request.add_trials();
      trial.set_state(v1::Trial::COMPLETE);
      auto& fields = *trial.mutable_parameters()->mutable_fields();
      fields["x"].set_number_value(x);
      fields["lr"].set_number_value(0.5);
      fields["k"].set_number_value(2);
      (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = x * x;
      (*trial.mutable_attributes())["note"] = absl::StrCat(from + i, std::string(label, 'n'));
    }
    v1::ImportTrialsResponse response;
    ASSERT_TRUE(studies_->ImportTrials(Context().get(), request, &response).ok());
  }
  void ImportFailure(const std::string& message) {
    v1::ImportTrialsRequest request;
    request.set_parent("projects/default/studies/s");
    v1::Trial& trial = *request.add_trials();
    trial.set_state(v1::Trial::FAILED);
    auto& fields = *trial.mutable_parameters()->mutable_fields();
    fields["x"].set_number_value(0.25);
    fields["lr"].set_number_value(0.5);
    fields["k"].set_number_value(2);
    trial.mutable_failure()->set_kind(v1::Failure::CONFIG);
    trial.mutable_failure()->set_reason("EXIT");
    trial.mutable_failure()->set_message(message);
    v1::ImportTrialsResponse response;
    ASSERT_TRUE(studies_->ImportTrials(Context().get(), request, &response).ok());
  }
  absl::StatusOr<v1::GetTrialTableResponse> Table(const v1::GetTrialTableRequest& request) {
    v1::GetTrialTableResponse response;
    const absl::Status status = wire::FromGrpc(studies_->GetTrialTable(Context().get(), request, &response));
    if (!status.ok()) return status;
    return response;
  }
  static v1::GetTrialTableRequest Request(const std::vector<std::string>& columns = {}) {
    v1::GetTrialTableRequest request;
    request.set_name(kReadStudy);
    for (const std::string& column : columns) request.add_columns(column);
    return request;
  }
  absl::Status Delete(int64_t number) {
    v1::DeleteTrialRequest request;
    request.set_name(absl::StrCat(kReadStudy, "/trials/", number));
    v1::DeleteTrialResponse response;
    return wire::FromGrpc(studies_->DeleteTrial(Context().get(), request, &response));
  }
};

// Numbers of the trials that ListTrials gives, page by page; `between` is done after each page.
std::vector<int64_t> Listed(
    v1::StudyService::Stub& studies, v1::ListTrialsRequest request, const std::function<void()>& between = [] {}) {
  std::vector<int64_t> numbers;
  request.set_parent(kReadStudy);
  do {
    grpc::ClientContext context;
    v1::ListTrialsResponse page;
    const grpc::Status status = studies.ListTrials(&context, request, &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const v1::Trial& trial : page.trials()) numbers.push_back(trial.number());
    request.set_page_token(page.next_page_token());
    between();
  } while (!request.page_token().empty());
  return numbers;
}

std::vector<double> Numbers(const v1::GetTrialTableResponse& table, const std::string& name) {
  for (const v1::TrialColumn& column : table.columns()) {
    if (column.name() != name) continue;
    std::vector<double> values(column.numbers().size() / sizeof(double));
    std::memcpy(values.data(), column.numbers().data(), column.numbers().size());
    return values;
  }
  return {};
}

std::vector<std::string> Words(const v1::GetTrialTableResponse& table, const std::string& name) {
  std::vector<std::string> words;
  for (const v1::TrialColumn& column : table.columns()) {
    if (column.name() != name) continue;
    for (size_t i = 0; i < column.words().indexes().size(); i += sizeof(uint32_t)) {
      uint32_t place = 0;
      std::memcpy(&place, column.words().indexes().data() + i, sizeof(place));
      words.push_back(place == 0xffffffff ? "" : column.words().words(static_cast<int>(place)));
    }
  }
  return words;
}

// Trial n has x = 7 (n - 1) / 100 up to a whole number, loss x^2 and note n - 1.
TEST_F(ReadsTest, AListHasWhatItsFilterSaysInItsOrder) {
  Import(12);
  ASSERT_TRUE(Delete(3).ok());
  const auto listed = [&](const std::string& filter, const std::string& order = "", int page = 0) {
    v1::ListTrialsRequest request;
    request.set_filter(filter);
    request.set_order_by(order);
    request.set_page_size(page);
    return Listed(*studies_, request);
  };
  EXPECT_THAT(listed("number < 5"), ElementsAre(1, 2, 4));
  EXPECT_THAT(listed("number < 5", "", 1), ElementsAre(1, 2, 4));
  EXPECT_THAT(listed("params.x > 0.5 AND metrics.loss < .4"), ElementsAre(9, 10));
  EXPECT_THAT(listed("NOT params.x > 0.1 OR attributes.note = 11"), ElementsAre(1, 2, 12));
  EXPECT_THAT(listed("state = FAILED"), ElementsAre());
  EXPECT_THAT(listed("attributes.note:1 AND designer = import"), ElementsAre(2, 11, 12));
  EXPECT_THAT(listed("attributes.other:* OR metrics.nothing < 1"), ElementsAre());
  EXPECT_THAT(listed("attributes.other != a AND number <= 2"), ElementsAre(1, 2));
  EXPECT_THAT(listed("worker:*"), ElementsAre());
  for (const int page : {1, 2, 3, 100}) {
    EXPECT_THAT(listed("number < 5", "metrics.loss desc", page), ElementsAre(4, 2, 1)) << page;
    EXPECT_THAT(listed("number < 5", "number desc", page), ElementsAre(4, 2, 1)) << page;
    EXPECT_THAT(listed("number < 5", "designer", page), ElementsAre(1, 2, 4)) << page;
    EXPECT_THAT(listed("number > 9", "attributes.note", page), ElementsAre(11, 12, 10)) << page;  // "10" < "11" < "9"
    EXPECT_THAT(listed("number < 5", "metrics.nothing desc", page), ElementsAre(1, 2, 4)) << page;
  }
}

TEST_F(ReadsTest, PagesOfAnOrderGoOnWhileTrialsArrive) {
  Import(10);
  v1::ListTrialsRequest request;
  request.set_order_by("metrics.loss desc");
  request.set_page_size(3);
  int arrived = 10;
  const std::vector<int64_t> numbers = Listed(*studies_, request, [&] { Import(1, arrived++); });
  std::vector<int64_t> old;
  for (const int64_t number : numbers) {
    if (number <= 10) old.push_back(number);
  }
  EXPECT_THAT(old, ElementsAre(10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
}

TEST_F(ReadsTest, AListRefusesInvalidFiltersAndTokens) {
  Import(3);
  v1::ListTrialsRequest request;
  request.set_parent(kReadStudy);
  v1::ListTrialsResponse page;
  const auto why = [&] {
    return std::string(wire::FromGrpc(studies_->ListTrials(Context().get(), request, &page)).message());
  };
  request.set_filter("params.x > a");
  EXPECT_THAT(why(), HasSubstr("filter: at byte 12, \"a\": is no number"));
  request.set_filter("number > 0");
  request.set_order_by("params.nothing");
  EXPECT_THAT(why(), HasSubstr("order_by"));
  request.set_order_by("metrics.loss");
  request.set_page_size(1);
  EXPECT_EQ(why(), "");
  request.set_page_token(page.next_page_token());
  const std::string token = page.next_page_token();
  request.set_filter("number > 1");
  EXPECT_THAT(why(), HasSubstr("is not from a reply to this same request"));
  request.set_filter("number > 0");
  for (const char* wrong : {"x", "-", "1", "1-", "-1-n0", "1-nxyz", "1-w00", "1-n", "99999999999999999999-n0"}) {
    request.set_page_token(token.substr(0, token.find('.') + 1) + wrong);
    const grpc::Status status = studies_->ListTrials(Context().get(), request, &page);
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) << wrong;
  }
}

TEST_F(ReadsTest, ATableHasTheTrialsAndThenWhatChanged) {
  Import(3);
  const v1::GetTrialTableResponse all = Table(Request()).value();
  EXPECT_EQ(all.rows(), 3);
  EXPECT_THAT(Numbers(all, "number"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(all, "params.x"), ElementsAre(0.0, 0.07, 0.14));
  EXPECT_THAT(Words(all, "state"), ElementsAre("COMPLETE", "COMPLETE", "COMPLETE"));
  EXPECT_THAT(Words(all, "designer"), ElementsAre("import", "import", "import"));
  EXPECT_THAT(Numbers(all, "params.k"), ElementsAre(2, 2, 2));
  EXPECT_THAT(Words(Table(Request({"attributes.note"})).value(), "attributes.note"), ElementsAre("0", "1", "2"));
  // Deleted ones are gone, but for who asks what changed.
  ASSERT_TRUE(Delete(2).ok());
  EXPECT_THAT(Numbers(Table(Request({"number"})).value(), "number"), ElementsAre(1, 3));
  v1::GetTrialTableRequest changed = Request({"number", "state"});
  changed.set_after_seq(all.seq());
  const v1::GetTrialTableResponse delta = Table(changed).value();
  EXPECT_THAT(Numbers(delta, "number"), ElementsAre(2));
  EXPECT_THAT(Words(delta, "state"), ElementsAre("DELETED"));
  changed.set_after_seq(delta.seq());
  EXPECT_EQ(Table(changed)->rows(), 0);
}

TEST_F(ReadsTest, ATableSaysWhyTrialsFailedInOneLine) {
  Import(1);
  const v1::GetTrialTableRequest reasons = Request({"reason"});
  EXPECT_EQ(Table(reasons).status().code(), absl::StatusCode::kInvalidArgument) << "no trial has failed";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "EXIT"},
      {"Traceback:\n  line 3\nValueError: lr\n\n", "EXIT: ValueError: lr"},
      {std::string(154, 'x'), "EXIT: " + std::string(154, 'x')},
      {std::string(155, 'x'), "EXIT: " + std::string(151, 'x') + "…"},
      // Characters stay whole.
      {std::string(150, 'x') + "äöü", "EXIT: " + std::string(150, 'x') + "…"},
  };
  std::vector<std::string> expected = {""};
  for (const auto& [message, reason] : cases) {
    ImportFailure(message);
    expected.push_back(reason);
  }
  EXPECT_EQ(Words(Table(reasons).value(), "reason"), expected);
  EXPECT_EQ(Words(Table(Request()).value(), "reason"), expected) << "one of all columns";
  for (const std::string& reason : expected) EXPECT_LE(reason.size(), 160U);
}

// A study is read a thousand trials at a time, the first thousand alone, then eight thousand together.
TEST_F(ReadsTest, ATableThatIsReadByThreadsHasEveryTrialOnceAndInOrder) {
  const v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  for (const int trials : {999, 1000, 1001, 8999, 9000, 9001, 17'500}) {
    const std::string id = absl::StrCat("s", trials);
    ASSERT_TRUE(Create(id, spec).ok());
    for (int from = 0; from < trials; from += 500) Import(std::min(500, trials - from), from, 0, id);
    v1::GetTrialTableRequest request = Request({"number", "params.x", "attributes.note"});
    request.set_name("projects/default/studies/" + id);
    int next = 0;
    do {
      const v1::GetTrialTableResponse page = Table(request).value();
      const std::vector<double> numbers = Numbers(page, "number"), x = Numbers(page, "params.x");
      const std::vector<std::string> notes = Words(page, "attributes.note");
      for (size_t i = 0; i < numbers.size(); ++i, ++next) {
        ASSERT_EQ(numbers[i], next + 1) << id;
        ASSERT_EQ(x[i], (7 * next) % 100 / 100.0) << id;
        ASSERT_EQ(notes[i], absl::StrCat(next)) << id;
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(next, trials);
  }
}

TEST_F(ReadsTest, PagesOfATableFitMessages) {
  for (int i = 0; i < 5; ++i) Import(1000, 1000 * i, 900);
  v1::GetTrialTableRequest request = Request({"number", "attributes.note"});
  std::vector<double> numbers;
  int pages = 0;
  do {
    const absl::StatusOr<v1::GetTrialTableResponse> page = Table(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LT(page->ByteSizeLong(), size_t{4} << 20);
    for (const double number : Numbers(*page, "number")) numbers.push_back(number);
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 2);
  ASSERT_THAT(numbers, SizeIs(5000));
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], static_cast<double>(i + 1));
}

TEST_F(ReadsTest, WrongColumnsAndTokensAreNamed) {
  Import(1);
  EXPECT_THAT(std::string(Table(Request({"params.lrr"})).status().message()), HasSubstr("did you mean \"params.lr\"?"));
  v1::GetTrialTableRequest request = Request();
  request.set_page_token("nonsense");
  EXPECT_THAT(std::string(Table(request).status().message()), HasSubstr("page_token"));
  request.set_name("projects/default/studies/none");
  request.clear_page_token();
  EXPECT_EQ(Table(request).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ReadsTest, EventsComeNewestFirstOrOldestFirstPageByPage) {
  Import(5);
  for (const bool oldest : {false, true}) {
    v1::ListEventsRequest request;
    request.set_name(kReadStudy);
    request.set_page_size(3);
    request.set_oldest_first(oldest);
    std::vector<uint64_t> seqs;
    do {
      v1::ListEventsResponse page;
      ASSERT_TRUE(studies_->ListEvents(Context().get(), request, &page).ok());
      for (const v1::Event& event : page.events()) seqs.push_back(event.seq());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_GE(seqs.size(), 11U);
    for (size_t i = 1; i < seqs.size(); ++i) EXPECT_EQ(seqs[i] > seqs[i - 1], oldest);
  }
  v1::ListEventsRequest of_trial;
  of_trial.set_name(absl::StrCat(kReadStudy, "/trials/4"));
  v1::ListEventsResponse page;
  ASSERT_TRUE(studies_->ListEvents(Context().get(), of_trial, &page).ok());
  ASSERT_GE(page.events_size(), 2);
  for (const v1::Event& event : page.events()) EXPECT_EQ(event.trial(), 4);
}

TEST_F(ReadsTest, ImportanceFindsTheParameterThatMatters) {
  v1::GetImportanceRequest request;
  request.set_name(kReadStudy);
  v1::GetImportanceResponse response;
  Import(3);
  const absl::Status few = wire::FromGrpc(studies_->GetImportance(Context().get(), request, &response));
  EXPECT_EQ(base::GetReason(few), "TOO_FEW_RESULTS");
  Import(60, 3);
  ASSERT_TRUE(studies_->GetImportance(Context().get(), request, &response).ok());
  ASSERT_GE(response.parameters_size(), 1);
  EXPECT_EQ(response.parameters(0).parameters(0), "x");
  EXPECT_GT(response.parameters(0).share(), 0.8);
  EXPECT_EQ(response.trials(), 63);
  request.set_metric("los");
  const absl::Status wrong = wire::FromGrpc(studies_->GetImportance(Context().get(), request, &response));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("they have loss"));
}

TEST_F(ReadsTest, ImportanceOfALargeStudyLooksAtSomeOfItsTrials) {
  for (int i = 0; i < 11; ++i) Import(1000, 1000 * i);
  v1::GetImportanceRequest request;
  request.set_name(kReadStudy);
  v1::GetImportanceResponse response, again;
  ASSERT_TRUE(studies_->GetImportance(Context(60).get(), request, &response).ok());
  EXPECT_EQ(response.trials(), 10'000);
  EXPECT_EQ(response.left_out(), 1000);
  EXPECT_EQ(response.parameters(0).parameters(0), "x");
  EXPECT_GT(response.predicted(), 0.9);
  // The study did not change: the answer is the same.
  ASSERT_TRUE(studies_->GetImportance(Context(60).get(), request, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
  Import(1);
  ASSERT_TRUE(studies_->GetImportance(Context(60).get(), request, &again).ok());
  EXPECT_EQ(again.left_out(), 1001);
  EXPECT_GT(again.seq(), response.seq());
}

TEST_F(ReadsTest, AModelPredictsSettingsAndSaysWhenThereIsNone) {
  v1::PredictRequest request;
  request.set_name(kReadStudy);
  auto& setting = *request.add_settings()->mutable_fields();
  for (const auto& [name, value] : {std::pair{"x", 0.9}, {"lr", 0.5}, {"k", 2.0}})
    setting[name].set_number_value(value);
  *request.add_settings() = request.settings(0);
  (*request.mutable_settings(1)->mutable_fields())["x"].set_number_value(0.1);
  v1::PredictResponse response;
  const auto predict = [&] { return wire::FromGrpc(studies_->Predict(Context().get(), request, &response)); };
  EXPECT_EQ(base::GetReason(predict()), "NO_MODEL");  // The study's algorithm is random.
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_algorithm()->mutable_bo();
  ASSERT_TRUE(Create("t", spec).ok());
  request.set_name("projects/default/studies/t");
  EXPECT_EQ(base::GetReason(predict()), "TOO_FEW_RESULTS");
  Import(30, 0, 0, "t");
  ASSERT_TRUE(predict().ok());
  ASSERT_EQ(response.predictions_size(), 2);
  EXPECT_NEAR(response.predictions(0).mean(), 0.81, 0.02);
  EXPECT_NEAR(response.predictions(1).mean(), 0.01, 0.02);
  EXPECT_GT(response.predictions(0).sd(), 0.0);
  const uint64_t seq = response.seq();
  request.set_at_seq(seq + 1);
  EXPECT_THAT(std::string(predict().message()), HasSubstr("at_seq"));
  request.set_at_seq(seq - 25);
  v1::PredictResponse early;
  ASSERT_TRUE(studies_->Predict(Context().get(), request, &early).ok());
  EXPECT_NE(early.predictions(0).mean(), response.predictions(0).mean());
  (*request.mutable_settings(1)->mutable_fields())["x"].set_number_value(7);
  EXPECT_THAT(std::string(predict().message()), HasSubstr("settings[1].x"));
  request.clear_settings();
  EXPECT_THAT(std::string(predict().message()), HasSubstr("settings"));
  request.set_name("projects/default/studies/none");
  *request.add_settings() = google::protobuf::Struct();
  EXPECT_EQ(predict().code(), absl::StatusCode::kNotFound);
}

TEST_F(ReadsTest, ATrialIsExplained) {
  Import(1);
  v1::ExplainTrialRequest request;
  request.set_name(absl::StrCat(kReadStudy, "/trials/1"));
  v1::ExplainTrialResponse response;
  ASSERT_TRUE(studies_->ExplainTrial(Context().get(), request, &response).ok());
  EXPECT_EQ(response.trial().number(), 1);
  EXPECT_THAT(response.sentences(), ElementsAre(HasSubstr("imported"), "result: loss = 0"));
  EXPECT_FALSE(response.has_surprise());
  request.set_name(absl::StrCat(kReadStudy, "/trials/2"));
  EXPECT_EQ(studies_->ExplainTrial(Context().get(), request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReadsTest, StandardErrorsAreStoredAndChecked) {
  v1::SuggestResponse asked;
  ASSERT_TRUE(work_->Suggest(Context().get(), Ask("s", "r1"), &asked).ok());
  ASSERT_EQ(asked.leases_size(), 1);
  v1::CompleteRequest request;
  request.set_trial(asked.leases(0).trial().name());
  request.set_token(asked.leases(0).token());
  (*request.mutable_measurement()->mutable_metrics())["loss"] = 1.0;
  (*request.mutable_measurement()->mutable_standard_errors())["other"] = 0.25;
  v1::FinishResponse finished;
  const absl::Status wrong = wire::FromGrpc(work_->Complete(Context().get(), request, &finished));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("of no metric"));
  request.mutable_measurement()->mutable_standard_errors()->clear();
  (*request.mutable_measurement()->mutable_standard_errors())["loss"] = -1.0;
  EXPECT_FALSE(work_->Complete(Context().get(), request, &finished).ok());
  (*request.mutable_measurement()->mutable_standard_errors())["loss"] = 0.25;
  ASSERT_TRUE(work_->Complete(Context().get(), request, &finished).ok());
  v1::GetTrialRequest get;
  get.set_name(request.trial());
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  EXPECT_EQ(trial.final_measurement().standard_errors().at("loss"), 0.25);
}

TEST_F(ReadsTest, AnOpenSpaceGrowsThroughTheApi) {
  v1::StudySpec spec;
  spec.set_open_space(true);
  spec.mutable_metric()->set_name("loss");
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  ASSERT_TRUE(Create("open", spec).ok());
  v1::SuggestResponse asked;
  ASSERT_TRUE(work_->Suggest(Context().get(), Ask("open", "r1"), &asked).ok());
  v1::DeclareParametersRequest request;
  request.set_trial(asked.leases(0).trial().name());
  request.set_token(asked.leases(0).token());
  v1::DeclareParametersResponse response;
  EXPECT_THAT(std::string(wire::FromGrpc(work_->DeclareParameters(Context().get(), request, &response)).message()),
              HasSubstr("not 1 to 100"));
  v1::ParameterSpec& parameter = *request.add_parameters();
  parameter.set_name("lr_0");
  parameter.set_display_name("lr/0");
  parameter.mutable_float_()->set_min(0.1);
  parameter.mutable_float_()->set_max(0.2);
  *request.add_parameters() = parameter;
  EXPECT_THAT(std::string(wire::FromGrpc(work_->DeclareParameters(Context().get(), request, &response)).message()),
              HasSubstr("is there twice"));
  request.mutable_parameters()->RemoveLast();
  ASSERT_TRUE(work_->DeclareParameters(Context().get(), request, &response).ok());
  const double value = response.parameters().fields().at("lr_0").number_value();
  EXPECT_TRUE(value >= 0.1 && value <= 0.2);
  v1::GetStudyRequest get;
  get.set_name("projects/default/studies/open");
  v1::Study study;
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get, &study).ok());
  ASSERT_EQ(study.spec().space_size(), 1);
  EXPECT_EQ(study.spec().space(0).display_name(), "lr/0");
}

}  // namespace
}  // namespace luthier::service::testing
