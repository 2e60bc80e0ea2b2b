#ifndef LUTHIER_LIB_STUDY_FRONT_H_
#define LUTHIER_LIB_STUDY_FRONT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace luthier::study {

// The results of several objectives of which none is at least as good as another in every objective: the Pareto front.
// Results are added one by one; of equal ones the first stays. Single-threaded.
class Front {
 public:
  // With more members than this a front is of no use to people, and to look at all of them at each result takes long.
  static constexpr size_t kMost = 5000;

  struct Member {
    int64_t trial = 0;
    std::vector<double> scores;  // study::Score of each objective.
  };

  // Adds a result with the score of each objective, larger is better. Returns true if it is on the front now.
  // O(members).
  bool Add(int64_t trial, std::vector<double> scores);

  // True once there were more than kMost members. From then on every result counts as a member, and none is kept.
  bool overflowed() const { return overflowed_; }
  // In no order.
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
  bool overflowed_ = false;
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_FRONT_H_
