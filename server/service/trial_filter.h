#ifndef LUTHIER_SERVER_SERVICE_TRIAL_FILTER_H_
#define LUTHIER_SERVER_SERVICE_TRIAL_FILTER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/search_space.h"

// Reads ListTrialsRequest.filter and .order_by, which select the trials of a list and their order.
// v1::ListTrialsRequest describes the texts. Errors are INVALID_ARGUMENT for the field `filter` or `order_by` and say
// where in the text.
namespace luthier::service {

enum class FilterOp { kEqual, kNotEqual, kLess, kAtMost, kMore, kAtLeast, kHas };

// One comparison of a field with a value.
struct FilterTerm {
  std::string field;  // "params.lr"; without the quotes that it may have in the text.
  FilterOp op = FilterOp::kEqual;
  std::string value;             // Without quotes.
  bool any = false;              // `:*`: true if the field has a value.
  std::optional<double> number;  // The value as a finite number, if it is one and has no quotes.
  size_t field_at = 0;           // Position of the field in the text.
  size_t value_at = 0;           // Position of the value in the text.
};

// Terms joined by AND, OR and NOT.
class Filter {
 public:
  static constexpr size_t kMaxBytes = 1024;
  static constexpr size_t kMaxTerms = 32;
  static constexpr int kMaxDepth = 8;

  // Reads the text; an empty one matches everything.
  static absl::StatusOr<Filter> Parse(absl::string_view text);

  const std::vector<FilterTerm>& terms() const { return terms_; }
  // Returns true if the filter is true where term i is `holds(i)`. Evaluates no more terms than it needs.
  bool Matches(absl::FunctionRef<bool(size_t)> holds) const;
  // Checks that the fields are those of a study with this space, and that the operators and values suit them.
  absl::Status Check(const study::SearchSpace& space) const;

 private:
  friend class FilterParser;
  enum class Kind { kTerm, kNot, kAnd, kOr };
  struct Node {
    Kind kind = Kind::kTerm;
    size_t left = 0;  // Index of a node; kTerm: of a term.
    size_t right = 0;
  };
  bool Holds(size_t node, absl::FunctionRef<bool(size_t)> holds) const;

  std::string text_;
  std::vector<FilterTerm> terms_;
  std::vector<Node> nodes_;  // The last is the root.
};

struct Order {
  std::string field;  // Empty: by number.
  bool descending = false;
};
// Reads "FIELD" or "FIELD desc" (or "asc"), and checks the field against the space.
absl::StatusOr<Order> ParseOrder(absl::string_view text, const study::SearchSpace& space);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_TRIAL_FILTER_H_
