#include "lib/gp/hyperparameters.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace luthier::gp {

kernels::StationaryKernel KernelOf(const kernels::KernelShape& shape, const Hyperparameters& theta) {
  return kernels::StationaryKernel(shape, theta.lengthscales, theta.signal_variance, theta.shape_parameter);
}

namespace {

std::string Join(const Hyperparameters& theta, std::string (*number)(double)) {
  std::string text = absl::StrCat(number(theta.signal_variance), " ", number(theta.noise_variance), " ",
                                  number(theta.mean), " ", number(theta.shape_parameter));
  for (double lengthscale : theta.lengthscales) absl::StrAppend(&text, " ", number(lengthscale));
  if (theta.slope_noise_variance != 0.0) absl::StrAppend(&text, " g", number(theta.slope_noise_variance));
  return text;
}

}  // namespace

std::string FormatHyperparameters(const Hyperparameters& theta) {
  return Join(theta, [](double x) { return absl::StrFormat("%a", x); });
}

std::string FormatHyperparametersShort(const Hyperparameters& theta) {
  return Join(theta, [](double x) { return absl::StrFormat("%.5g", x); });
}

std::optional<Hyperparameters> ParseHyperparameters(absl::string_view text, int groups) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  const size_t plain = static_cast<size_t>(groups) + 4;
  const bool with_slopes = words.size() == plain + 1 && words[plain].size() > 1 && words[plain][0] == 'g';
  if (words.size() != plain && !with_slopes) return std::nullopt;
  std::vector<double> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i].substr(i == plain ? 1 : 0);  // The mark of the slope noise.
    double number = 0.0;
    // SimpleAtod reads no hexadecimal; strtod does, in the C locale that our programs never leave.
    char* end = nullptr;
    if (word.empty()) return std::nullopt;
    number = std::strtod(word.c_str(), &end);
    if (*end != '\0' || !std::isfinite(number)) return std::nullopt;
    numbers.push_back(number);
  }
  Hyperparameters theta;
  theta.signal_variance = numbers[0];
  theta.noise_variance = numbers[1];
  theta.mean = numbers[2];
  theta.shape_parameter = numbers[3];
  theta.lengthscales.resize(groups);
  for (int j = 0; j < groups; ++j) theta.lengthscales(j) = numbers[static_cast<size_t>(j) + 4];
  if (with_slopes) {
    theta.slope_noise_variance = numbers[plain];
    if (!(theta.slope_noise_variance > 0.0)) return std::nullopt;
  }
  if (!(theta.signal_variance > 0.0) || !(theta.noise_variance >= 0.0) || !(theta.shape_parameter > 0.0))
    return std::nullopt;
  if (groups > 0 && !(theta.lengthscales.minCoeff() > 0.0)) return std::nullopt;
  return theta;
}

}  // namespace luthier::gp
