#ifndef LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_
#define LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_

#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/crf/chain_data.h"
#include "lib/crf/column_text.h"
#include "lib/crf/features.h"
#include "lib/crf/letters_reader.h"

namespace luthier::crf::testing {

// Chains of 1 ... longest tokens with random attributes; every label occurs.
inline ChainData RandomChains(uint64_t seed, int labels, int64_t sequences, int longest, int32_t attributes,
                              double density = 0.3) {
  base::RandomStream random(seed, "test.chains");
  ChainData data;
  data.name = "random";
  data.attributes = attributes;
  for (int k = 0; k < labels; ++k) data.label_names.push_back(std::string("l") + std::to_string(100 + k));
  for (int64_t i = 0; i < sequences; ++i) {
    const auto length = static_cast<int64_t>(1 + random.UniformInt(static_cast<uint64_t>(longest)));
    for (int64_t t = 0; t < length; ++t) {
      const auto token = static_cast<uint64_t>(data.tokens());
      const auto label = static_cast<int32_t>(
          token < static_cast<uint64_t>(labels) ? token : random.UniformInt(static_cast<uint64_t>(labels)));
      data.label.push_back(label);
      for (int32_t a = 0; a < attributes; ++a) {
        // Attributes say something about the label, so that there is something to learn.
        const double p = a % labels == label ? 2.0 * density : density;
        if (random.Uniform() < p) data.attribute.push_back(a);
      }
      data.token_start.push_back(static_cast<int64_t>(data.attribute.size()));
    }
    data.sequence_start.push_back(data.tokens());
  }
  return data;
}

// The same chains with a random value for each attribute of each token.
inline ChainData WithValues(ChainData data, uint64_t seed) {
  base::RandomStream random(seed, "test.values");
  for (size_t e = 0; e < data.attribute.size(); ++e) data.value.push_back(0.7 * random.Normal());
  return data;
}

// Random weights with zero padding.
inline Eigen::VectorXd RandomWeights(const Shape& shape, uint64_t seed, double scale) {
  base::RandomStream random(seed, "test.weights");
  Eigen::VectorXd w = Eigen::VectorXd::Zero(shape.dim());
  for (int64_t row = 0; row < shape.attributes + shape.labels; ++row) {
    for (int k = 0; k < shape.labels; ++k) w[row * shape.stride() + k] = scale * random.Normal();
  }
  return w;
}

inline std::vector<int32_t> AllRows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// The folder with real data sets, if there is one.
inline std::optional<learn::DataRoot> RealData() {
  const char* root = std::getenv("LUTHIER_DATA_DIR");
  const char* source = std::getenv("LUTHIER_SOURCE_DIR");
  if (root == nullptr && source == nullptr) return std::nullopt;
  const std::string path = root != nullptr ? root : std::string(source) + "/../shared/data";
  absl::StatusOr<learn::DataRoot> opened = learn::DataRoot::Open(path);
  if (!opened.ok()) return std::nullopt;
  return std::move(*opened);
}

}  // namespace luthier::crf::testing

#endif  // LUTHIER_TESTS_LIB_CRF_CRF_TESTING_H_
