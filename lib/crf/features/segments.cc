#include "lib/crf/features/segments.h"

#include "lib/data/interner.h"

namespace luthier::crf {
namespace {

double Ratio(double part, double whole) {
  return whole > 0.0 ? part / whole : 0.0;
}

}  // namespace

double SegmentCounts::precision() const {
  return Ratio(static_cast<double>(correct), static_cast<double>(found));
}
double SegmentCounts::recall() const {
  return Ratio(static_cast<double>(correct), static_cast<double>(gold));
}
double SegmentCounts::f1() const {
  return Ratio(2.0 * static_cast<double>(correct), static_cast<double>(found + gold));
}

SegmentScorer::SegmentScorer(const std::vector<std::string>& label_names) {
  data::Interner types;
  for (const std::string& name : label_names) {
    Tag tag;
    const size_t dash = name.find('-');
    if (name.size() > 1 && dash == 1) {
      tag = {name[0], types.Intern(absl::string_view(name).substr(2))};
    } else if (name.size() == 1) {
      tag = {name[0], types.Intern("")};
    }
    if (std::string("BIES[]").find(tag.prefix) == std::string::npos) tag = Tag();
    has_segments_ = has_segments_ || tag.prefix != 'O';
    tags_.push_back(tag);
  }
  for (int32_t k = 0; k < types.size(); ++k) types_.push_back(types.text(k));
}

bool SegmentScorer::Ends(Tag before, Tag now) {
  if (before.prefix == 'O') return false;
  if (before.prefix == 'E' || before.prefix == 'S' || before.prefix == ']' || before.prefix == '[') return true;
  return now.prefix == 'B' || now.prefix == 'S' || now.prefix == '[' || now.prefix == 'O' || before.type != now.type;
}

bool SegmentScorer::Starts(Tag before, Tag now) {
  if (now.prefix == 'O') return false;
  if (now.prefix == 'B' || now.prefix == 'S' || now.prefix == '[' || now.prefix == ']') return true;
  return before.prefix == 'O' || before.prefix == 'E' || before.prefix == 'S' || before.prefix == ']' ||
         before.prefix == '[' || before.type != now.type;
}

void SegmentScorer::Add(const int32_t* gold, const int32_t* guess, int64_t tokens) {
  Tag gold_before, guess_before;
  // True while both have a segment of one type that began at the same token and has not ended in either.
  bool both = false;
  const auto of_type = [&](Tag tag) -> SegmentCounts& {
    return scores_.by_type[types_[static_cast<size_t>(tag.type)]];
  };
  for (int64_t t = 0; t <= tokens; ++t) {
    const Tag gold_now = t < tokens ? tags_[static_cast<size_t>(gold[t])] : Tag();
    const Tag guess_now = t < tokens ? tags_[static_cast<size_t>(guess[t])] : Tag();
    const bool gold_ends = Ends(gold_before, gold_now);
    const bool guess_ends = Ends(guess_before, guess_now);
    if (both && (gold_ends || guess_ends)) {
      if (gold_ends && guess_ends) {
        ++scores_.all.correct;
        ++of_type(gold_before).correct;
      }
      both = false;
    }
    const bool gold_starts = Starts(gold_before, gold_now);
    const bool guess_starts = Starts(guess_before, guess_now);
    if (gold_starts) {
      ++scores_.all.gold;
      ++of_type(gold_now).gold;
    }
    if (guess_starts) {
      ++scores_.all.found;
      ++of_type(guess_now).found;
    }
    if (gold_starts && guess_starts) both = gold_now.type == guess_now.type;
    gold_before = gold_now;
    guess_before = guess_now;
  }
}

}  // namespace luthier::crf
