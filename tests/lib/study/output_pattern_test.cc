#include "lib/study/output_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace luthier::study {
namespace {

using ::testing::HasSubstr;

std::optional<std::string> Last(const std::string& pattern, absl::string_view text) {
  const absl::StatusOr<OutputPattern> compiled = OutputPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << pattern << ": " << compiled.status();
  return compiled.ok() ? compiled->LastMatch(text) : std::nullopt;
}

std::optional<std::string> Value(const std::string& pattern, absl::string_view text) {
  const absl::StatusOr<OutputPattern> compiled = OutputPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << pattern << ": " << compiled.status();
  return compiled.ok() ? compiled->LastValue(text) : std::nullopt;
}

std::string Refusal(const std::string& pattern) {
  return std::string(OutputPattern::Compile(pattern).status().message());
}

TEST(OutputPattern, TheLastMatchCounts) {
  EXPECT_EQ(Last("loss=([0-9.]+)", "loss=1.5 then loss=0.25"), "0.25");
  EXPECT_EQ(Last("loss=([0-9.]+)", "acc=1"), std::nullopt);
  EXPECT_EQ(Last("loss=([0-9.]+)", ""), std::nullopt);
  EXPECT_EQ(Last("aa(.)", "aaXaaY"), "Y");
}

TEST(OutputPattern, TheBeginningIsThatOfTheText) {
  EXPECT_EQ(Last("^(a)", "aaa"), "a");
  EXPECT_EQ(Last("^a(.)", "abab"), "b");
  EXPECT_EQ(Last("(?:^x|a)(.)", "axaxax1"), "x");  // Not "1": the text does not begin again after a match.
  EXPECT_EQ(Last("([0-9])$", "1 2 3"), "3");
}

TEST(OutputPattern, EmptyMatchesEnd) {
  EXPECT_EQ(Last("(x*)", "xxa"), "");
  EXPECT_EQ(Last("()", "abc"), "");
  EXPECT_EQ(Last("a(x)?", "axa"), "");  // The group took no part in the last match.
}

TEST(OutputPattern, TextIsBytes) {
  EXPECT_EQ(Last("l\xC3\xA4nge=(.+)", "l\xC3\xA4nge=3"), "3");
  EXPECT_EQ(Last("x(.)y", absl::string_view("x\xFFy")), "\xFF");
  EXPECT_EQ(Last("(b+)", absl::string_view("a\0bb", 4)), "bb");
}

constexpr char kManual[] = "val_loss: ([-+.eE0-9]+)";

TEST(OutputPattern, ANumberIsAValue) {
  EXPECT_EQ(Value(kManual, "Epoch 3 val_loss: 0.25"), "0.25");
  EXPECT_EQ(Value(kManual, "val_loss: 1.5 val_loss: -2e-3, acc: 1"), "-2e-3");
  EXPECT_EQ(Value(kManual, "train_loss: 1"), std::nullopt);
  EXPECT_EQ(Value("loss=(.*)", "loss=abc d"), "abc d");
}

TEST(OutputPattern, NonFiniteNumbersAreValuesWhateverTheGroupTakes) {
  for (const char* word : {"nan", "NaN", "-nan", "inf", "-inf", "+Inf", "Infinity", "-Infinity", "nan(ind)",
                           "-nan(ind)", "1.#IND", "-1.#IND", "1.#QNAN", "1.#INF"}) {
    for (const char* pattern :
         {kManual, "val_loss: ([0-9.]+)", "val_loss:\\s*([0-9.]+)", "(?i)VAL_LOSS: ([.0-9]+)",
          "(?:val|test)_loss: ([0-9.]*)", "val_loss: (?P<value>[0-9.]+)", "[a-z]+: ([^)(n ][0-9.]+)"}) {
      EXPECT_EQ(Value(pattern, std::string("Epoch 3 val_loss: ") + word), word) << pattern;
    }
    EXPECT_EQ(Value(kManual, std::string("val_loss:    ") + word + ", acc: 1"), word);
    EXPECT_EQ(Value("loss=([0-9.]+), acc=([0-9.]+)", std::string("loss=") + word + ", acc=0.5"), word);
    EXPECT_EQ(Value("([0-9.]+) is the loss", std::string(word) + " is the loss"), word);
    EXPECT_EQ(Value(kManual, std::string("val_loss: 0.5 val_loss: ") + word), word);
    EXPECT_EQ(Value(kManual, std::string("val_loss: ") + word + " val_loss: 0.5"), "0.5");
  }
  EXPECT_EQ(Value("loss.*?([0-9]\\S*)", "loss: 1.#QNAN"), "1.#QNAN");
  EXPECT_EQ(Value("loss.*?([0-9.]+)", "loss of finance and info 3"), "3") << "they are words of their own";
}

TEST(OutputPattern, AWordInPlaceOfANumberIsTheValue) {
  EXPECT_EQ(Value(kManual, "val_loss: error"), "error");
  EXPECT_EQ(Value(kManual, "val_loss: N/A (no batch)"), "N/A");
  EXPECT_EQ(Value(kManual, "val_loss: [0.5]"), "[0.5]");
  EXPECT_EQ(Value(kManual, "val_loss: \"0.5\""), "\"0.5\"");
  EXPECT_EQ(Value(kManual, "val_loss: ******** acc: 1"), "********");
  EXPECT_EQ(Value(kManual, "val_loss: diverged after 3 steps"), "diverged");
  EXPECT_EQ(Value(kManual, "val_loss: "), "");
  EXPECT_EQ(Value(kManual, "val_loss: 0.5 and val_loss: None"), "None");
  EXPECT_EQ(Value("loss[=:]+\\s*([0-9.]+)", "loss = x, loss: -0.5"), "-0.5") << "a number all the same";
  EXPECT_EQ(Value("(?:val|test) loss: ([0-9.]+)", "test loss: x"), "x");
  EXPECT_EQ(Value("loss: ([0-9.]+);", "loss: a; b"), "a;");
}

TEST(OutputPattern, ASentenceIsNoValue) {
  EXPECT_EQ(Value(kManual, "early stopping on val_loss: no improvement for 5 epochs"), std::nullopt);
  EXPECT_EQ(Value(kManual, "val_loss: end of training"), std::nullopt);
  EXPECT_EQ(Value(kManual, "val_loss: 0.5 (val_loss: improved from 0.6)"), "0.5");
  // Patterns that name nothing before the number say nothing about what else stands there.
  EXPECT_EQ(Value(": ([0-9.]+)", "model: resnet"), std::nullopt);
  EXPECT_EQ(Value("([0-9.]+)", "saved"), std::nullopt);
  EXPECT_EQ(Value("loss.*: ([0-9.]+)", "loss of the model: mse"), std::nullopt);
  EXPECT_EQ(Value("loss: (?:[a-z]+|\\()([0-9.]+)", "loss: mse"), std::nullopt);
}

TEST(OutputPattern, ANumberIsReadWhole) {
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 1e-05"), "1e-05");
  EXPECT_EQ(Value("loss: ([.e0-9]+)", "loss: 1e-05, x"), "1e-05");
  EXPECT_EQ(Value("loss: ([0-9])", "loss: 12.5e3x"), "12.5e3");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 3. Next"), "3.");
  EXPECT_EQ(Value("loss: ([0-9]+)\\.", "loss: 12.5"), "12") << "the pattern says where it ends";
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 5 epochs"), "5");
  EXPECT_EQ(Value("step ([0-9]+)", "step 5/100"), "5");
}

TEST(OutputPattern, NumbersWithCommasAreNotNumbers) {
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 0,4567"), "0,4567");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: -"), "-");
  EXPECT_EQ(Value(kManual, "val_loss: -1,234.5;"), "-1,234.5");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 1,234,567"), "1,234,567");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 0.5,0.3"), "0.5") << "a list";
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 3, acc: 5"), "3");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 3,0.5,7"), "3");
  EXPECT_EQ(Value("loss: ([0-9.]+)", "loss: 1,2,3"), "1");
}

TEST(OutputPattern, NumbersThatOthersWriteOtherwiseAreReadWhole) {
  for (const char* number : {"1.5D-03", "-2d+5", "0x1.8p1", "1_000", "1'000.5", "1.234,5", "-12.345.678,9"}) {
    EXPECT_EQ(Value(kManual, absl::StrCat("val_loss: ", number, " acc: 1")), number);
  }
  EXPECT_EQ(Value(kManual, "val_loss: 1.5 days"), "1.5");
  EXPECT_EQ(Value(kManual, "val_loss: 3x"), "3");
  EXPECT_EQ(Value(kManual, "val_loss: 1.234, acc: 5"), "1.234");
}

// Places where a value may begin are as many as the text is long.
TEST(OutputPattern, OverlappingPlacesTakeNoQuadraticTime) {
  std::string text;
  while (text.size() < 4000) text += "loss: ";
  EXPECT_EQ(Value("loss: ([0-9]+)", text + "1"), "1");
  EXPECT_EQ(Value("loss: ([0-9]+)", text + "x"), "x");
}

// A matcher that backtracks would take 2^600 steps.
TEST(OutputPattern, NoExpressionTakesExponentialTime) {
  EXPECT_EQ(Last("((a|a)*)*b", std::string(600, 'a')), std::nullopt);
  EXPECT_EQ(Last("(?:(?:a|a)*)*loss=(.)", std::string(600, 'a') + "loss=1"), "1");
}

TEST(OutputPattern, PatternsThatNeedBacktrackingAreRefused) {
  for (const char* pattern : {R"((a+)\1)", R"((x)(?=y))", R"((x)(?!y))"}) {
    EXPECT_THAT(Refusal(pattern), HasSubstr("has no back-references and no look-ahead: ")) << pattern;
  }
}

TEST(OutputPattern, MistakesAreNamed) {
  EXPECT_THAT(Refusal("x("), HasSubstr("no look-ahead: missing ): x("));
  EXPECT_EQ(Refusal("[0-9]+"), "has no group; put parentheses around the number");
  EXPECT_EQ(Refusal("(?:x)"), "has no group; put parentheses around the number");
  // Small to write, large to compile.
  EXPECT_THAT(Refusal("((((a{100}){100}){100}){100})"), HasSubstr("is not a regular expression of RE2"));
}

}  // namespace
}  // namespace luthier::study
