// Kernels that move rows [v | d], against plain loops, for rows of every width and on every instruction set.
#include "lib/crf/inference/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/base/random.h"
#include "lib/crf/features/shape.h"

namespace luthier::crf {
namespace {

constexpr int64_t kRows = 9;
constexpr double kNow = 0.7, kScale = 1.3;

class LazyRows : public ::testing::TestWithParam<int> {
 protected:
  LazyRows() : random_(static_cast<uint64_t>(GetParam()), "test.rows") {
    for (int64_t k = 0; k < kRows * 2 * stride_; ++k) {
      rows_.push_back(k % stride_ < GetParam() ? random_.Normal() : 0.0);
    }
    for (int64_t a = 0; a < kRows; ++a) last_.push_back(random_.Uniform());
    // Tokens with none and with many attributes; the first attribute has every token, as a bias has.
    for (const int count : {3, 1, 0, 6, 4}) {
      for (int e = 0; e < count; ++e) {
        attribute_.push_back(e == 0 ? 0 : static_cast<int32_t>(1 + random_.UniformInt(kRows - 1)));
        value_.push_back(random_.Normal());
        token_.push_back(static_cast<int32_t>(start_.size()) - 1);
      }
      start_.push_back(static_cast<int64_t>(attribute_.size()));
    }
    tokens_ = static_cast<int64_t>(start_.size()) - 1;
    for (int64_t k = 0; k < tokens_ * stride_; ++k) {
      change_.push_back(k % stride_ < GetParam() ? random_.Normal() : 0.0);
    }
  }

  // Of row a: v - (now - last) d.
  double Current(int64_t a, int k) const {
    const auto at = static_cast<size_t>(a * 2 * stride_ + k);
    return rows_[at] - (kNow - last_[static_cast<size_t>(a)]) * rows_[at + static_cast<size_t>(stride_)];
  }
  double Value(size_t e, bool valued) const { return valued ? value_[e] : 1.0; }
  void ExpectScores(const std::vector<double>& scores, bool valued) const {
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int k = 0; k < stride_; ++k) {
        double expected = 0.0;
        for (auto e = static_cast<size_t>(start_[static_cast<size_t>(t)]);
             e < static_cast<size_t>(start_[static_cast<size_t>(t) + 1]); ++e) {
          expected += Value(e, valued) * Current(attribute_[e], k);
        }
        EXPECT_NEAR(scores[static_cast<size_t>(t * stride_ + k)], kScale * expected, 1e-12);
      }
    }
  }
  void ExpectRows(const std::vector<double>& rows, const std::vector<double>& last) const {
    for (int64_t a = 0; a < kRows; ++a) {
      const bool met = std::find(attribute_.begin(), attribute_.end(), a) != attribute_.end();
      EXPECT_EQ(last[static_cast<size_t>(a)], met ? kNow : last_[static_cast<size_t>(a)]);
      for (int k = 0; k < stride_; ++k) {
        const auto at = static_cast<size_t>(a * 2 * stride_ + k);
        EXPECT_NEAR(rows[at], met ? Current(a, k) : rows_[at], 1e-12) << "row " << a << " label " << k;
        EXPECT_NEAR(rows[at + static_cast<size_t>(stride_)], rows_[at + static_cast<size_t>(stride_)], 1e-12);
      }
    }
  }

  const int stride_ = Shape{0, GetParam()}.stride();
  base::RandomStream random_;
  std::vector<double> rows_, last_, value_, change_;
  std::vector<int32_t> attribute_, token_;
  std::vector<int64_t> start_ = {0};
  int64_t tokens_ = 0;
};

TEST_P(LazyRows, AreBroughtUpToDateOnce) {
  const KernelList kernels = RunnableKernels();
  for (int set = 0; set < kernels.count; ++set) {
    for (const bool valued : {false, true}) {
      for (const int64_t ahead : {int64_t{2}, INT64_MAX / 2}) {
        std::vector<double> rows = rows_, last = last_, scores(static_cast<size_t>(tokens_ * stride_), 7.0);
        kernels.kernels[set]->gather_lazy(rows.data(), last.data(), kNow, kScale, attribute_.data(),
                                          valued ? value_.data() : nullptr, start_.data(), tokens_, stride_, ahead,
                                          scores.data());
        SCOPED_TRACE(kernels.kernels[set]->name);
        ExpectScores(scores, valued);
        ExpectRows(rows, last);
      }
    }
  }
}

TEST_P(LazyRows, AreReadAlongTheirSums) {
  std::fill(last_.begin(), last_.end(), 0.0);
  const KernelList kernels = RunnableKernels();
  for (int set = 0; set < kernels.count; ++set) {
    for (const bool valued : {false, true}) {
      std::vector<double> scores(static_cast<size_t>(tokens_ * stride_), 7.0);
      kernels.kernels[set]->gather_along(rows_.data(), kNow, kScale, attribute_.data(),
                                         valued ? value_.data() : nullptr, start_.data(), tokens_, stride_, 2,
                                         scores.data());
      SCOPED_TRACE(kernels.kernels[set]->name);
      ExpectScores(scores, valued);
    }
  }
}

TEST_P(LazyRows, MoveByTheirTokensChanges) {
  const KernelList kernels = RunnableKernels();
  for (int set = 0; set < kernels.count; ++set) {
    for (const bool valued : {false, true}) {
      for (const double keep : {0.0, 1.0}) {
        std::vector<double> rows = rows_, expected = rows_;
        const double along = -0.4;
        kernels.kernels[set]->move_rows(rows.data(), along, keep, attribute_.data(), valued ? value_.data() : nullptr,
                                        token_.data(), static_cast<int64_t>(attribute_.size()), stride_, 2,
                                        change_.data());
        for (size_t e = 0; e < attribute_.size(); ++e) {
          double* v = expected.data() + int64_t{attribute_[e]} * 2 * stride_;
          for (int k = 0; k < stride_; ++k) {
            const double c = Value(e, valued) * change_[static_cast<size_t>(token_[e] * stride_ + k)];
            v[k] += along * c;
            v[stride_ + k] += keep * c;
          }
        }
        SCOPED_TRACE(kernels.kernels[set]->name);
        for (size_t k = 0; k < rows.size(); ++k) EXPECT_NEAR(rows[k], expected[k], 1e-12);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Labels, LazyRows, ::testing::Values(2, 8, 13, 22, 30, 33, 45, 50, 60, 70, 100),
                         [](const ::testing::TestParamInfo<int>& labels) { return std::to_string(labels.param); });

}  // namespace
}  // namespace luthier::crf
