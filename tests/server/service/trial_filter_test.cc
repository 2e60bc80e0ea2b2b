#include "server/service/trial_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"

namespace luthier::service {
namespace {

using ::testing::HasSubstr;

std::string Repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// x, kind (words) and the vector w.
study::SearchSpace Space() {
  study::FloatRange unit;
  unit.min = 0.0;
  unit.max = 1.0;
  study::ParameterSpec x, kind, w;
  x.name = "x";
  x.domain = unit;
  kind.name = "kind";
  kind.domain = study::CategoricalLabels{{"a", "b"}};
  w.name = "w";
  w.domain = unit;
  w.count = 3;
  return study::SearchSpace::Create({x, kind, w}).value();
}

// Whether the filter is true where exactly the terms on these fields are.
bool True(const std::string& text, const std::map<std::string, bool>& fields) {
  const Filter filter = Filter::Parse(text).value();
  return filter.Matches([&](size_t i) { return fields.at(filter.terms()[i].field); });
}

std::string Error(const std::string& text) {
  const absl::StatusOr<Filter> filter = Filter::Parse(text);
  return std::string((filter.ok() ? filter->Check(Space()) : filter.status()).message());
}

TEST(Filter, ReadsTerms) {
  const Filter filter = Filter::Parse(
                            "state = FAILED AND params.lr>1e-3 AND metrics.loss < .5 AND "
                            "attributes.\"my \\\"key\":\"a b\"")
                            .value();
  const auto& terms = filter.terms();
  ASSERT_EQ(terms.size(), 4u);
  EXPECT_EQ(terms[0].field, "state");
  EXPECT_EQ(terms[0].value, "FAILED");
  EXPECT_FALSE(terms[0].number.has_value());
  EXPECT_EQ(terms[1].op, FilterOp::kMore);
  EXPECT_EQ(terms[1].number, 1e-3);
  EXPECT_EQ(terms[2].number, 0.5);
  EXPECT_EQ(terms[3].field, "attributes.my \"key");
  EXPECT_EQ(terms[3].op, FilterOp::kHas);
  EXPECT_EQ(terms[3].value, "a b");
  EXPECT_FALSE(terms[3].any);
  EXPECT_TRUE(Filter::Parse("worker:*")->terms()[0].any);
  EXPECT_FALSE(Filter::Parse("worker:\"*\"")->terms()[0].any);
}

TEST(Filter, EveryOperatorIsRead) {
  const std::map<std::string, FilterOp> operators = {
      {"=", FilterOp::kEqual}, {"!=", FilterOp::kNotEqual}, {"<", FilterOp::kLess}, {"<=", FilterOp::kAtMost},
      {">", FilterOp::kMore},  {">=", FilterOp::kAtLeast},  {":", FilterOp::kHas}};
  for (const auto& [text, op] : operators) {
    EXPECT_EQ(Filter::Parse(absl::StrCat("a", text, "1"))->terms()[0].op, op) << text;
    EXPECT_EQ(Filter::Parse(absl::StrCat(" a\t", text, "\n1 "))->terms()[0].op, op) << text;
  }
}

TEST(Filter, AndBindsTighterThanOrAndNotTighterThanBoth) {
  for (int bits = 0; bits < 8; ++bits) {
    const bool a = (bits & 1) != 0, b = (bits & 2) != 0, c = (bits & 4) != 0;
    const std::map<std::string, bool> fields = {{"a", a}, {"b", b}, {"c", c}};
    EXPECT_EQ(True("a=1 OR b=1 AND c=1", fields), a || (b && c));
    EXPECT_EQ(True("a=1 AND b=1 OR c=1", fields), (a && b) || c);
    EXPECT_EQ(True("(a=1 OR b=1)AND c=1", fields), (a || b) && c);
    EXPECT_EQ(True("NOT a=1 AND b=1", fields), !a && b);
    EXPECT_EQ(True("NOT(a=1 AND b=1) OR NOT NOT c=1", fields), !(a && b) || c);
    EXPECT_EQ(True("a=1 OR b=1 OR c=1", fields), a || b || c);
    EXPECT_TRUE(True(" ", fields));
  }
}

TEST(Filter, WordsThatBeginLikeOperatorsAreFields) {
  EXPECT_EQ(Filter::Parse("NOTE=1 AND ORDER=2 AND ANDY=3")->terms().size(), 3u);
  EXPECT_EQ(Filter::Parse("NOTE=1")->terms()[0].field, "NOTE");
}

TEST(Filter, ErrorsSayWhere) {
  EXPECT_THAT(Error("state = "), HasSubstr("at its end: a value is expected"));
  EXPECT_THAT(Error("state FAILED"), HasSubstr("at byte 7, \"FAILED\": = != < <= > >= or : is expected"));
  EXPECT_THAT(Error("= 3"), HasSubstr("at byte 1, \"= 3\": a field is expected"));
  EXPECT_THAT(Error("number=3 state=FAILED"), HasSubstr("at byte 10, \"state=FAILED\": AND, OR or the end"));
  EXPECT_THAT(Error("number=3)"), HasSubstr("at byte 9"));
  EXPECT_THAT(Error("(number=3"), HasSubstr("at its end: AND, OR or the ) of byte 1 is expected"));
  EXPECT_THAT(Error("worker=\"a"), HasSubstr("at byte 8, \"\\\"a\": the quotes do not end"));
  EXPECT_THAT(Error("worker=\"a\\"), HasSubstr("the quotes do not end"));
  EXPECT_THAT(Error("wor\"ker\"=1"), HasSubstr("quotes are for names behind a point"));
  EXPECT_THAT(Error("number=3 AND"), HasSubstr("at its end: a field is expected"));
  EXPECT_THAT(Error("NOT"), HasSubstr("a field is expected"));
  EXPECT_THAT(Error("()"), HasSubstr("at byte 2"));
}

TEST(Filter, FieldsAndValuesFitTheStudy) {
  EXPECT_EQ(Error("params.x > 0.5 AND params.kind = a AND params.w.max < 1 AND state != FAILED"), "");
  EXPECT_EQ(Error("params.kind:a AND params.x:* AND attributes.note:x AND metrics.other >= 3 AND worker:gpu"), "");
  EXPECT_THAT(Error("params.y = 1"), HasSubstr("at byte 1, \"params.y = 1\": the study has no such parameter"));
  EXPECT_THAT(Error("params.w = 1"), HasSubstr("is a vector: ask for its .min"));
  EXPECT_THAT(Error("stat = FAILED"), HasSubstr("there is no such field"));
  EXPECT_THAT(Error("metrics. = 1"), HasSubstr("there is no such field"));
  EXPECT_THAT(Error("number = three"), HasSubstr("at byte 10, \"three\": is no number"));
  EXPECT_THAT(Error("number = \"3\""), HasSubstr("is no number"));
  EXPECT_THAT(Error("params.x = nan"), HasSubstr("is no number"));
  EXPECT_THAT(Error("params.x < inf"), HasSubstr("is no number"));
  EXPECT_THAT(Error("params.x : 3"), HasSubstr("asks only for *"));
  EXPECT_THAT(Error("params.kind > a"), HasSubstr("has texts, which only"));
  EXPECT_THAT(Error("state = failed"), HasSubstr("is no state of a trial (did you mean \"FAILED\"?)"));
}

TEST(Filter, LimitsHold) {
  EXPECT_TRUE(Filter::Parse(Repeated("number=1 OR ", 31) + "number=1").ok());
  EXPECT_THAT(Error(Repeated("number=1 OR ", 32) + "number=1"), HasSubstr("more than 32 terms"));
  EXPECT_TRUE(Filter::Parse(Repeated("(", 8) + "number=1" + Repeated(")", 8)).ok());
  EXPECT_THAT(Error(Repeated("(", 9) + "number=1" + Repeated(")", 9)), HasSubstr("at byte 9"));
  EXPECT_TRUE(Filter::Parse(Repeated("NOT ", 8) + "number=1").ok());
  EXPECT_THAT(Error(Repeated("NOT ", 9) + "number=1"), HasSubstr("go deeper than 8"));
  EXPECT_THAT(Error(Repeated("(", 1000)), HasSubstr("go deeper than 8"));
  EXPECT_TRUE(Filter::Parse("number=1" + std::string(1016, ' ')).ok());
  EXPECT_THAT(Error("number=1" + std::string(1017, ' ')), HasSubstr("has 1025 bytes"));
}

TEST(Filter, AnyTextIsAnswered) {
  const std::vector<std::string> pieces = {"AND",      "OR",          "NOT", "(",        ")",
                                           "\"",       "\\",          "=",   "!=",       "<",
                                           ">=",       ":",           "*",   "1e999",    "number",
                                           "state",    " ",           "\n",  "\xc3\xa4", "\x01",
                                           "params.x", "attributes.", ".",   "FAILED",   std::string(1, '\0')};
  base::RandomStream random(1, "filter");
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t n = random.UniformInt(40); n > 0; --n) text += pieces[random.UniformInt(pieces.size())];
    const absl::StatusOr<Filter> filter = Filter::Parse(text);
    if (!filter.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(filter.status())) << text;
      continue;
    }
    (void)filter->Check(Space());
    (void)filter->Matches([&](size_t term) { return term % 2 == 0; });
  }
}

TEST(Order, IsReadWithItsDirection) {
  EXPECT_EQ(ParseOrder("metrics.loss desc", Space())->field, "metrics.loss");
  EXPECT_TRUE(ParseOrder("metrics.loss desc", Space())->descending);
  EXPECT_FALSE(ParseOrder("  number  asc ", Space())->descending);
  EXPECT_EQ(ParseOrder("  number  asc ", Space())->field, "number");
  EXPECT_EQ(ParseOrder("attributes.\"my key\" desc", Space())->field, "attributes.my key");
  EXPECT_EQ(ParseOrder("", Space())->field, "");
  for (const char* wrong : {"desc", "params.y", "number down", "number, state", "attributes."}) {
    EXPECT_THAT(std::string(ParseOrder(wrong, Space()).status().message()), HasSubstr("order_by")) << wrong;
  }
}

}  // namespace
}  // namespace luthier::service
