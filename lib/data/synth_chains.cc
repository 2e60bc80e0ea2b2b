#include "lib/data/synth_chains.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/data/synthetic_glyph.h"
#include "lib/notation/synth_specs.h"

namespace luthier::data {
namespace {

using base::RandomStream;

constexpr double kBegin = 0.4;       // Probability that a chunk begins outside of one.
constexpr double kContinue = 0.5;    // Probability that another token continues a chunk.
constexpr double kAdjacent = 0.3;    // Probability that another chunk begins right behind one that ends.
constexpr int64_t kTokenWork = 100;  // Operations of making a token, for Pace.
constexpr int kHeight = 16, kWidth = 8;
static_assert(kHeight * kWidth == kLetterPixels);

// Draws with given weights.
class Choice {
 public:
  explicit Choice(const std::vector<double>& weights) : sum_(weights.size()) {
    std::partial_sum(weights.begin(), weights.end(), sum_.begin());
  }
  int64_t Draw(RandomStream& random) const {
    const auto found = std::upper_bound(sum_.begin(), sum_.end(), random.Uniform() * sum_.back());
    return std::min<int64_t>(found - sum_.begin(), static_cast<int64_t>(sum_.size()) - 1);
  }

 private:
  std::vector<double> sum_;
};

// Makes the distribution of the follower of each of `size` items, and of the start, the last entry: weights that differ
// by factors.
std::vector<Choice> Followers(uint64_t seed, int64_t size, double spread) {
  std::vector<Choice> follow;
  for (int64_t k = 0; k <= size; ++k) {
    RandomStream random(seed, "synth.followers", static_cast<uint64_t>(k));
    std::vector<double> weights;
    for (int64_t j = 0; j < size; ++j) weights.push_back(std::exp(spread * random.Normal()));
    follow.emplace_back(weights);
  }
  return follow;
}

int64_t Length(int64_t mean, RandomStream& random) {
  const int64_t least = std::max<int64_t>(1, mean / 2);
  return least + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(2 * (mean - least) + 1)));
}

}  // namespace

absl::StatusOr<std::string> SynthesizeSequences(const notation::SequenceSpec& spec, const base::StopToken& stop) {
  // Kind 0 is O, kind k a chunk of type k - 1.
  const int64_t kinds = spec.types + 1;
  const std::vector<Choice> follow = Followers(spec.seed, spec.types, 1.0);
  std::vector<double> zipf;
  for (int64_t r = 0; r < spec.words; ++r) zipf.push_back(1.0 / static_cast<double>(r + 1));
  const Choice rank(zipf);
  std::vector<std::vector<int32_t>> word(static_cast<size_t>(kinds));
  for (int64_t k = 0; k < kinds; ++k) {
    std::vector<int32_t>& order = word[static_cast<size_t>(k)];
    order.resize(static_cast<size_t>(spec.words));
    std::iota(order.begin(), order.end(), 0);
    RandomStream random(spec.seed, "synth.words", static_cast<uint64_t>(k));
    LUTHIER_RETURN_IF_ERROR(base::ShuffleInPieces(stop, random, &order));
  }
  std::string text;
  base::Pace pace(stop);
  for (int64_t s = 0; s < spec.sentences; ++s) {
    RandomStream random(spec.seed, "synth.sentence", static_cast<uint64_t>(s));
    const int64_t length = Length(spec.length, random);
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kTokenWork * length));
    int64_t last_type = spec.types;  // The last number stands for the start.
    int64_t kind = 0;
    for (int64_t t = 0; t < length; ++t) {
      const bool inside = kind > 0 && t > 0 && random.Uniform() < kContinue;
      if (!inside) {
        // The first two sentences make sure that there are at least two labels.
        const bool begin = t == 0 && s < 2 ? s == 0 : random.Uniform() < (kind > 0 ? kAdjacent : kBegin);
        kind = 0;
        if (begin) {
          last_type = follow[static_cast<size_t>(last_type)].Draw(random);
          kind = last_type + 1;
        }
      }
      const auto any = [&] { return static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(kinds))); };
      const int64_t speaker = random.Uniform() < spec.noise ? any() : kind;
      const int64_t tag = random.Uniform() < spec.noise ? any() : kind;
      absl::StrAppend(&text, "w", word[static_cast<size_t>(speaker)][static_cast<size_t>(rank.Draw(random))], " P", tag,
                      " ");
      if (kind == 0) {
        text += "O\n";
      } else {
        absl::StrAppend(&text, inside ? "I-T" : "B-T", kind - 1, "\n");
      }
    }
    text += "\n";
  }
  return text;
}

absl::StatusOr<std::string> SynthesizeAttributes(const notation::SequenceSpec& spec, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string columns, SynthesizeSequences(spec, stop));
  const auto line_at = [&](size_t begin) {
    return absl::string_view(columns).substr(begin, columns.find('\n', begin) - begin);
  };
  std::string text;
  base::Pace pace(stop);
  absl::string_view before;  // Empty at first, and after the last one.
  for (size_t at = 0; at < columns.size();) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kTokenWork));
    const absl::string_view line = line_at(at);
    at += line.size() + 1;
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (!cells.empty()) absl::StrAppend(&text, cells[2], "\tw=", cells[0], "\tpos=", cells[1]);
    const auto beside = [&](absl::string_view name, absl::string_view other) {
      if (!other.empty()) absl::StrAppend(&text, "\t", name, "=", other.substr(0, other.find(' ')), ":0.5");
    };
    if (!cells.empty()) {
      beside("w[-1]", before);
      beside("w[1]", at < columns.size() ? line_at(at) : absl::string_view());
    }
    text += "\n";
    before = line;
  }
  return text;
}

absl::StatusOr<std::string> SynthesizeLetters(const notation::LetterSpec& spec, const base::StopToken& stop) {
  const std::vector<Choice> follow = Followers(spec.seed, spec.letters, 1.5);
  std::vector<std::vector<bool>> pixels;
  for (int64_t k = 0; k < spec.letters; ++k) {
    RandomStream random(spec.seed, "synth.character", static_cast<uint64_t>(k));
    const SyntheticGlyph glyph(kHeight, kWidth, random);
    std::vector<bool>& bitmap = pixels.emplace_back();
    for (int p = 0; p < kLetterPixels; ++p) bitmap.push_back(glyph.Ink(p / kWidth, p % kWidth) > 0.5);
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  base::Pace pace(stop);
  for (int64_t w = 0; w < spec.words; ++w) {
    RandomStream random(spec.seed, "synth.word", static_cast<uint64_t>(w));
    const int64_t length = Length(spec.length, random);
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kLetterPixels * base::kRandomAccess * length));
    int64_t letter = spec.letters;  // The last number stands for the start.
    for (int64_t t = 0; t < length; ++t) {
      // The first two words make sure that there are at least two letters.
      letter = t == 0 && w < 2 ? w : follow[static_cast<size_t>(letter)].Draw(random);
      absl::StrAppend(&text, w % 10, "\t", w, "\t", t, "\t", std::string(1, static_cast<char>('a' + letter)), "\t");
      for (size_t digit = 0; digit < kLetterPixels / 4; ++digit) {
        size_t value = 0;
        for (size_t bit = 0; bit < 4; ++bit) {
          const bool flip = random.Uniform() < spec.noise;
          value = 2 * value + (pixels[static_cast<size_t>(letter)][4 * digit + bit] != flip ? 1 : 0);
        }
        text.push_back(kDigits[value]);
      }
      text.push_back('\n');
    }
  }
  return text;
}

}  // namespace luthier::data
