#ifndef LUTHIER_LIB_CRF_FEATURES_SEGMENTS_H_
#define LUTHIER_LIB_CRF_FEATURES_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace luthier::crf {

// Counts of segments as conlleval has them (Tjong Kim Sang & Buchholz 2000).
struct SegmentCounts {
  int64_t found = 0;    // In the guessed labels.
  int64_t gold = 0;     // In the true ones.
  int64_t correct = 0;  // In both: the same first token, last token and type.

  // In [0, 1]; 0 where conlleval prints 0 (nothing found, nothing there).
  double precision() const;
  double recall() const;
  double f1() const;
};

struct SegmentScores {
  SegmentCounts all;
  std::map<std::string, SegmentCounts> by_type;
};

// Segments from labels "B-type", "I-type", "O", and also "E-type" (ends after this token), "S-type" (one token), "["
// and
// "]". Other labels are outside of segments of the form of "O" when they have no "-"; then their text is the prefix. A
// segment starts at B, S, [; at I or E after O, after E, S or ], and wherever the type changes; it ends symmetrically.
// Fed with one sequence after the other.
class SegmentScorer {
 public:
  explicit SegmentScorer(const std::vector<std::string>& label_names);
  void Add(const int32_t* gold, const int32_t* guess, int64_t tokens);
  const SegmentScores& scores() const { return scores_; }
  // Returns true if some label begins a segment; otherwise F1 means nothing.
  bool has_segments() const { return has_segments_; }

 private:
  struct Tag {
    char prefix = 'O';
    int32_t type = -1;
  };
  static bool Ends(Tag before, Tag now);
  static bool Starts(Tag before, Tag now);

  std::vector<Tag> tags_;
  std::vector<std::string> types_;
  bool has_segments_ = false;
  SegmentScores scores_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_SEGMENTS_H_
