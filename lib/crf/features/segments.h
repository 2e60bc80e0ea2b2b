#ifndef LUTHIER_LIB_CRF_FEATURES_SEGMENTS_H_
#define LUTHIER_LIB_CRF_FEATURES_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace luthier::crf {

// Counts of segments, as in conlleval (Tjong Kim Sang & Buchholz 2000).
struct SegmentCounts {
  int64_t found = 0;    // Segments in the predicted labels.
  int64_t gold = 0;     // Segments in the true labels.
  int64_t correct = 0;  // Segments in both, with the same first token, last token and type.

  // Values in [0, 1]; 0 where conlleval prints 0 (no segments predicted, or none there).
  double precision() const;
  double recall() const;
  double f1() const;
};

struct SegmentScores {
  SegmentCounts all;
  std::map<std::string, SegmentCounts> by_type;
};

// Scores segments, one sequence after the other. Labels are "B-type", "I-type", "O", and also
// "E-type" (ends after this token), "S-type" (one token), "[-type" and "]-type". A label of a
// single letter is a prefix without a type. All other labels are outside of segments, like "O". A
// segment starts
//   - at B, S, [ and ],
//   - at I and E after O, E, S, [ and ],
//   - at I and E if the type changes.
// It ends after E, S, [ and ], before B, S, [ and O, and where the type changes.
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
