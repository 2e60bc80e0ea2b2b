// A program of its own: what is measured is the whole process, as a worker has it that trains a chunker.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <iostream>
#include <optional>

#include "lib/crf/solvers/gradient_memory.h"
#include "lib/notation/templates.h"
#include "lib/objectives/create.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/testing/sanitized.h"

namespace luthier::objectives {
namespace {

constexpr char kData[] = "conll2000/train.txt.xz";
constexpr double kMib = 1024.0 * 1024.0;

double PeakMib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

// What average gradients need for these data, MiB: the planned table of gradients; overlap counts; rows and when they
// were brought up to date; the vectors of all weights (of the loss and its gradient, of the checks, of the measures);
// the data.
double PredictMib(const crf::ChainData& train, const crf::ChainData& validation) {
  const crf::Shape shape = train.shape();
  double bytes = 4.0 * static_cast<double>(crf::PlanMemory(crf::MemoryMode::kMixed, train));
  for (int64_t i = 0; i < train.sequences(); ++i) {
    bytes += 4.0 * static_cast<double>(train.length(i) * train.length(i));
  }
  bytes += 8.0 * static_cast<double>(train.attributes) * (2 * shape.stride() + 1);
  bytes += 6.0 * 8.0 * static_cast<double>(shape.dim());
  for (const crf::ChainData* data : {&train, &validation}) {
    bytes += 4.0 * static_cast<double>(data->attribute.size()) + 12.0 * static_cast<double>(data->tokens());
  }
  return bytes / kMib;
}

TEST(CrfMemoryTest, AChunkerNeedsWhatIsPlanned) {
  const std::optional<data::DataRoot> root = crf::testing::RealData();
  if (!root || !root->OpenFile(kData).ok()) GTEST_SKIP() << kData << " is not there: skipped";
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need memory of their own: skipped";
  const double before = PeakMib();
  study::BuiltinObjective spec;
  spec.model = "crf";
  spec.data = kData;
  spec.split.validation = 0.1;
  spec.options = {{"min_count", 3.0}, {"max_passes", 3.0}, {"tolerance", 0.0}, {"l2", 1.0}};
  const study::SearchSpace space = study::SearchSpace::Create({}).value();
  const auto crf = CreateObjective(spec, space, {"validation_loss", study::Goal::kMinimize}, &*root);
  ASSERT_TRUE(crf.ok()) << crf.status();
  EvaluationContext context;
  context.report = [](const study::Measurement&) { return true; };
  ASSERT_EQ((*crf)->Evaluate(context).value().outcome, EvaluationOutcome::kComplete);
  const double peak = PeakMib();

  // Only now, so that it is not measured: the same training again, but for which sentences are held out.
  data::LineReader lines(data::OpenBytes(root->OpenFile(kData).value(), kData).value(), kData);
  const data::ColumnText text = data::ReadColumnText(lines).value();
  std::vector<int32_t> train, validation;
  for (int32_t i = 0; i < text.sequences(); ++i) (i % 10 == 0 ? validation : train).push_back(i);
  crf::FeatureOptions options;
  options.templates = notation::ParseTemplates("chunking").value();
  options.min_count = 3;
  const crf::FeatureMap map = crf::FeatureMap::Fit(text, train, options).value();
  const double predicted = PredictMib(map.Encode(text, train).value(),
                                      map.Encode(text, validation, crf::FeatureMap::UnknownLabels::kKeep).value());
  RecordProperty("peak_mib", static_cast<int>(peak));
  RecordProperty("predicted_mib", static_cast<int>(predicted));
  std::cout << "peak " << peak << " MiB, of it before training " << before << "; predicted " << predicted << " MiB\n";
  EXPECT_LE(peak, 600e6 / kMib);
  // Beside it there are the text, its dictionary, and what the allocator keeps.
  EXPECT_GT(peak - before, 0.75 * predicted);
  EXPECT_LT(peak - before, 1.5 * predicted + 20.0);
}

}  // namespace
}  // namespace luthier::objectives
