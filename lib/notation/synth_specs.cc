#include "lib/notation/synth_specs.h"

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/notation/synth_uri.h"

namespace luthier::notation {
namespace {

constexpr char kRegressionExample[] = "synth:regression?rows=500&cols=20 or synth:matrix?rows=40&cols=30&known=400";
constexpr char kRowsExample[] = "synth:logistic?rows=500&cols=20 or synth:images?rows=500&side=28";

}  // namespace

absl::StatusOr<SynthSpec> ParseSynth(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(SynthKind(uri, {"logistic"}, kRowsExample).status());
  SynthSpec spec;
  int64_t cols = spec.cols, classes = spec.classes, informative = spec.informative;
  SynthKeys keys;
  keys.Whole("rows", 4, 10'000'000, &spec.rows);
  keys.Whole("cols", 1, 1'000'000, &cols);
  keys.Whole("classes", 2, kMaxSynthClasses, &classes);
  keys.Seed(&spec.seed);
  keys.Real("noise", 0.0, 1.0, &spec.noise);
  keys.Real("density", 1e-6, 1.0, &spec.density);
  keys.Whole("informative", 1, 1'000'000, &informative);
  keys.Real("signal", 0.0, 100.0, &spec.signal);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  spec.cols = static_cast<int32_t>(cols);
  spec.classes = static_cast<int32_t>(classes);
  spec.informative = static_cast<int32_t>(informative);
  if (spec.rows < int64_t{2} * spec.classes) {
    return SynthError(uri, absl::StrCat("rows = ", spec.rows, " is below two for each of ", spec.classes, " classes"));
  }
  if (static_cast<double>(spec.rows) * spec.cols * spec.density > 5e8) {
    return SynthError(uri, "would have more than 5e8 entries; lower rows, cols or density");
  }
  if (spec.informative > spec.cols) {
    return SynthError(uri, absl::StrCat("informative = ", spec.informative, " is above cols = ", spec.cols));
  }
  return spec;
}

absl::StatusOr<RegressionSpec> ParseSynthRegression(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(SynthKind(uri, {"regression"}, kRegressionExample).status());
  RegressionSpec spec;
  int64_t cols = spec.cols, informative = spec.informative;
  SynthKeys keys;
  keys.Whole("rows", 4, 10'000'000, &spec.rows);
  keys.Whole("cols", 1, 1'000'000, &cols);
  keys.Seed(&spec.seed);
  keys.Real("noise", 0.0, 1e6, &spec.noise);
  keys.Real("density", 1e-6, 1.0, &spec.density);
  keys.Whole("informative", 1, 1'000'000, &informative);
  keys.Real("signal", 0.0, 1e6, &spec.signal);
  keys.Real("waves", 0.0, 1.0, &spec.waves);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  spec.cols = static_cast<int32_t>(cols);
  spec.informative = static_cast<int32_t>(informative);
  if (static_cast<double>(spec.rows) * spec.cols * spec.density > 5e8) {
    return SynthError(uri, "would have more than 5e8 entries; lower rows, cols or density");
  }
  if (spec.informative > spec.cols) {
    return SynthError(uri, absl::StrCat("informative = ", spec.informative, " is above cols = ", spec.cols));
  }
  return spec;
}

absl::StatusOr<MatrixSpec> ParseSynthMatrix(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(SynthKind(uri, {"matrix"}, kRegressionExample).status());
  MatrixSpec spec;
  SynthKeys keys;
  keys.Whole("rows", 2, 10'000, &spec.rows);
  keys.Whole("cols", 2, 10'000, &spec.cols);
  keys.Whole("known", 4, 10'000'000, &spec.known);
  keys.Whole("rank", 1, 100, &spec.rank);
  keys.Whole("features", 0, 1000, &spec.features);
  keys.Real("noise", 0.0, 1e6, &spec.noise);
  keys.Seed(&spec.seed);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  if (spec.known * (spec.features + 2) > 500'000'000) {
    return SynthError(uri, "would have more than 5e8 entries; lower known or features");
  }
  return spec;
}

absl::StatusOr<ImageSpec> ParseSynthImages(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(SynthKind(uri, {"images"}, kRowsExample).status());
  ImageSpec spec;
  SynthKeys keys;
  keys.Whole("rows", 4, 1'000'000, &spec.rows);
  keys.Whole("side", 4, 256, &spec.side);
  keys.Whole("classes", 2, 256, &spec.classes);
  keys.Real("noise", 0.0, 1.0, &spec.noise);
  keys.Seed(&spec.seed);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  if (spec.rows < int64_t{2} * spec.classes) {
    return SynthError(uri, absl::StrCat("rows = ", spec.rows, " is below two for each of ", spec.classes, " classes"));
  }
  if (spec.rows * spec.side * spec.side > 1'000'000'000) {
    return SynthError(uri, "would have more than 10^9 pixels; lower rows or side");
  }
  return spec;
}

absl::StatusOr<SequenceSpec> ParseSynthSequences(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(SynthKind(uri, {"sequences"}, "synth:sequences?sentences=500&length=12&types=3").status());
  SequenceSpec spec;
  SynthKeys keys;
  keys.Whole("sentences", 4, 1'000'000, &spec.sentences);
  keys.Whole("length", 1, 1000, &spec.length);
  keys.Whole("types", 1, 100, &spec.types);
  keys.Whole("words", 2, 1'000'000, &spec.words);
  keys.Real("noise", 0.0, 1.0, &spec.noise);
  keys.Seed(&spec.seed);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  if (spec.sentences * spec.length > 100'000'000) {
    return SynthError(uri, "would have more than 10^8 tokens; lower sentences or length");
  }
  if (spec.words * (spec.types + 1) > 100'000'000) {
    return SynthError(uri, "words * (types + 1) is above 10^8; lower one of them");
  }
  return spec;
}

absl::StatusOr<LetterSpec> ParseSynthLetters(const std::string& uri) {
  LUTHIER_RETURN_IF_ERROR(
      SynthKind(uri, {"letters"}, "synth:letters?words=300&letters=26 with option format: letters").status());
  LetterSpec spec;
  SynthKeys keys;
  keys.Whole("words", 4, 1'000'000, &spec.words);
  keys.Whole("letters", 2, 26, &spec.letters);
  keys.Whole("length", 1, 100, &spec.length);
  keys.Real("noise", 0.0, 0.5, &spec.noise);
  keys.Seed(&spec.seed);
  LUTHIER_RETURN_IF_ERROR(keys.Parse(uri));
  if (spec.words * spec.length > 10'000'000) {
    return SynthError(uri, "would have more than 10^7 letters; lower words or length");
  }
  return spec;
}

absl::StatusOr<std::string> SynthRowsKind(const std::string& uri) {
  return SynthKind(uri, {"logistic", "images"}, kRowsExample);
}

absl::StatusOr<std::string> SynthNumbersKind(const std::string& uri) {
  return SynthKind(uri, {"regression", "matrix"}, kRegressionExample);
}

absl::Status CheckSynthRows(const std::string& uri, bool regression) {
  if (regression) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string kind, SynthNumbersKind(uri));
    return kind == "matrix" ? ParseSynthMatrix(uri).status() : ParseSynthRegression(uri).status();
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::string kind, SynthRowsKind(uri));
  return kind == "images" ? ParseSynthImages(uri).status() : ParseSynth(uri).status();
}

absl::Status CheckSynthChains(const std::string& uri, absl::string_view format) {
  if (format == "letters") return ParseSynthLetters(uri).status();
  return ParseSynthSequences(uri).status();
}

}  // namespace luthier::notation
