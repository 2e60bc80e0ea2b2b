#include "server/service/trial_filter.h"

#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/trial_state.h"

namespace luthier::service {
namespace {

constexpr size_t kShown = 24;  // Bytes of the text that an error shows.

// Returns the error for something wrong at byte `at` of the text.
absl::Status WrongAt(absl::string_view parameter, absl::string_view text, size_t at, absl::string_view what) {
  if (at >= text.size()) return base::BadField(parameter, absl::StrCat("at its end: ", what));
  size_t end = std::min(text.size(), at + kShown);
  while (end > at && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return base::BadField(parameter,
                        absl::StrCat("at byte ", at + 1, ", ", base::Quote(text.substr(at, end - at)), ": ", what));
}

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool IsOperator(char c) {
  return c == '=' || c == '!' || c == '<' || c == '>' || c == ':';
}

enum class FieldKind { kNumbers, kWords };

// Returns the kind of the field's values. The error is a sentence without a place.
absl::StatusOr<FieldKind> KindOf(absl::string_view field, const study::SearchSpace& space) {
  if (field == "number" || field == "update_seq") return FieldKind::kNumbers;
  if (field == "state" || field == "worker" || field == "designer" || field == "feasible") return FieldKind::kWords;
  if (absl::StartsWith(field, "metrics.") && field.size() > 8) return FieldKind::kNumbers;
  if (absl::StartsWith(field, "attributes.") && field.size() > 11) return FieldKind::kWords;
  absl::string_view name = field;
  if (!absl::ConsumePrefix(&name, "params.")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no such field; fields are number, state, update_seq, worker, designer, feasible, params.NAME, "
        "metrics.NAME and attributes.KEY",
        base::DidYouMean(field,
                         {"number", "state", "update_seq", "worker", "designer", "feasible", "params", "metrics"})));
  }
  std::vector<std::string> known;
  for (const study::ParameterSpec& p : space.parameters()) {
    if (p.is_vector()) {
      for (const char* part : {".min", ".median", ".max"}) {
        known.push_back(p.name + part);
        if (known.back() == name) return FieldKind::kNumbers;
      }
      if (p.name == name) return absl::InvalidArgumentError("is a vector: ask for its .min, .median or .max");
      continue;
    }
    known.push_back(p.name);
    if (name != p.name) continue;
    const bool numbers =
        std::holds_alternative<study::FloatRange>(p.domain) || std::holds_alternative<study::IntRange>(p.domain);
    return numbers ? FieldKind::kNumbers : FieldKind::kWords;
  }
  return absl::InvalidArgumentError(absl::StrCat("the study has no such parameter", base::DidYouMean(name, known)));
}

// Returns why a term does not fit its field; "": it does. `value`: true if the value is at fault.
std::string Misfit(const FilterTerm& term, FieldKind kind, bool* value) {
  *value = true;
  if (term.any) return "";
  const bool compares = term.op == FilterOp::kEqual || term.op == FilterOp::kNotEqual;
  if (kind == FieldKind::kNumbers) {
    if (term.op == FilterOp::kHas) return "of a field with numbers : asks only for *, whether there is one";
    return term.number ? "" : "is no number, and the field has numbers";
  }
  *value = false;
  if (!compares && term.op != FilterOp::kHas) return "has texts, which only = != and : compare";
  *value = true;
  if (term.field == "feasible" && compares && term.value != "true" && term.value != "false") {
    return "is neither true nor false";
  }
  if (term.field == "state" && compares && !study::ParseTrialState(term.value)) {
    std::vector<std::string> states;
    for (size_t i = 0; i < study::kTrialStateCount; ++i) {
      states.emplace_back(study::TrialStateName(static_cast<study::TrialState>(i)));
    }
    return absl::StrCat("is no state of a trial", base::DidYouMean(absl::AsciiStrToUpper(term.value), states));
  }
  return "";
}

}  // namespace

// Reads a filter by recursive descent: or, and, not, then terms and parentheses.
class FilterParser {
 public:
  explicit FilterParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Filter> Parse() {
    SkipSpace();
    filter_.text_ = std::string(text_);
    if (Done()) return std::move(filter_);
    LUTHIER_ASSIGN_OR_RETURN(const size_t root, ParseOr(0));
    (void)root;  // The root is the last node.
    if (!Done()) return Wrong(at_, "AND, OR or the end is expected");
    return std::move(filter_);
  }

 private:
  using Kind = Filter::Kind;

  absl::Status Wrong(size_t at, absl::string_view what) const { return WrongAt("filter", text_, at, what); }
  bool Done() const { return at_ >= text_.size(); }
  void SkipSpace() {
    while (!Done() && IsSpace(text_[at_])) ++at_;
  }
  size_t Add(Kind kind, size_t left, size_t right) {
    filter_.nodes_.push_back({kind, left, right});
    return filter_.nodes_.size() - 1;
  }
  // Reads the word if the text goes on with it as a whole word.
  bool Take(absl::string_view word) {
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && !IsSpace(text_[end]) && text_[end] != '(' && text_[end] != ')') return false;
    at_ = end;
    SkipSpace();
    return true;
  }

  absl::StatusOr<size_t> ParseOr(int depth) {
    LUTHIER_ASSIGN_OR_RETURN(size_t left, ParseAnd(depth));
    while (Take("OR")) {
      LUTHIER_ASSIGN_OR_RETURN(const size_t right, ParseAnd(depth));
      left = Add(Kind::kOr, left, right);
    }
    return left;
  }

  absl::StatusOr<size_t> ParseAnd(int depth) {
    LUTHIER_ASSIGN_OR_RETURN(size_t left, ParseNot(depth));
    while (Take("AND")) {
      LUTHIER_ASSIGN_OR_RETURN(const size_t right, ParseNot(depth));
      left = Add(Kind::kAnd, left, right);
    }
    return left;
  }

  absl::StatusOr<size_t> ParseNot(int depth) {
    const size_t begin = at_;
    const bool nests = !Done() && (text_[at_] == '(' || Take("NOT"));
    if (!nests) return ParseTerm();
    if (depth >= Filter::kMaxDepth) {
      return Wrong(begin, absl::StrCat("NOT and parentheses go deeper than ", Filter::kMaxDepth));
    }
    if (at_ > begin) {
      LUTHIER_ASSIGN_OR_RETURN(const size_t negated, ParseNot(depth + 1));
      return Add(Kind::kNot, negated, 0);
    }
    ++at_;
    SkipSpace();
    LUTHIER_ASSIGN_OR_RETURN(const size_t inner, ParseOr(depth + 1));
    if (Done() || text_[at_] != ')') {
      return Wrong(at_, absl::StrCat("AND, OR or the ) of byte ", begin + 1, " is expected"));
    }
    ++at_;
    SkipSpace();
    return inner;
  }

  absl::StatusOr<size_t> ParseTerm() {
    FilterTerm term;
    term.field_at = at_;
    if (filter_.terms_.size() >= Filter::kMaxTerms) {
      return Wrong(at_, absl::StrCat("there are more than ", Filter::kMaxTerms, " terms"));
    }
    LUTHIER_RETURN_IF_ERROR(ParseField(&term));
    LUTHIER_RETURN_IF_ERROR(ParseOperator(&term));
    LUTHIER_RETURN_IF_ERROR(ParseValue(&term));
    filter_.terms_.push_back(std::move(term));
    return Add(Kind::kTerm, filter_.terms_.size() - 1, 0);
  }

  absl::Status ParseField(FilterTerm* term) {
    while (!Done() && !IsSpace(text_[at_]) && !IsOperator(text_[at_]) && text_[at_] != '(' && text_[at_] != ')' &&
           text_[at_] != '"') {
      term->field.push_back(text_[at_++]);
    }
    if (term->field.empty()) return Wrong(at_, "a field is expected");
    if (!Done() && text_[at_] == '"') {
      if (term->field.back() != '.') return Wrong(at_, "quotes are for names behind a point and for values");
      LUTHIER_RETURN_IF_ERROR(ParseQuoted(&term->field));
    }
    SkipSpace();
    return absl::OkStatus();
  }

  absl::Status ParseOperator(FilterTerm* term) {
    static constexpr std::pair<absl::string_view, FilterOp> kOperators[] = {
        {"!=", FilterOp::kNotEqual}, {"<=", FilterOp::kAtMost}, {">=", FilterOp::kAtLeast}, {"=", FilterOp::kEqual},
        {"<", FilterOp::kLess},      {">", FilterOp::kMore},    {":", FilterOp::kHas}};
    for (const auto& [name, op] : kOperators) {
      if (!absl::StartsWith(text_.substr(at_), name)) continue;
      term->op = op;
      at_ += name.size();
      SkipSpace();
      return absl::OkStatus();
    }
    return Wrong(at_, "= != < <= > >= or : is expected");
  }

  absl::Status ParseValue(FilterTerm* term) {
    term->value_at = at_;
    if (!Done() && text_[at_] == '"') {
      LUTHIER_RETURN_IF_ERROR(ParseQuoted(&term->value));
      SkipSpace();
      return absl::OkStatus();
    }
    while (!Done() && !IsSpace(text_[at_]) && text_[at_] != '(' && text_[at_] != ')' && text_[at_] != '"') {
      term->value.push_back(text_[at_++]);
    }
    if (term->value.empty()) return Wrong(at_, "a value is expected");
    SkipSpace();
    term->any = term->op == FilterOp::kHas && term->value == "*";
    double number = 0.0;
    if (absl::SimpleAtod(term->value, &number) && std::isfinite(number)) term->number = number;
    return absl::OkStatus();
  }

  // Reads a text in quotes, in which a backslash stands before quotes and backslashes.
  absl::Status ParseQuoted(std::string* out) {
    const size_t begin = at_++;
    for (; !Done() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
      if (Done()) break;
      out->push_back(text_[at_]);
    }
    if (Done()) return Wrong(begin, "the quotes do not end");
    ++at_;
    return absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
  Filter filter_;
};

absl::StatusOr<Filter> Filter::Parse(absl::string_view text) {
  if (text.size() > kMaxBytes) {
    return base::BadField("filter", absl::StrCat("has ", text.size(), " bytes; at most ", kMaxBytes, " are read"));
  }
  return FilterParser(text).Parse();
}

bool Filter::Matches(absl::FunctionRef<bool(size_t)> holds) const {
  return nodes_.empty() || Holds(nodes_.size() - 1, holds);
}

bool Filter::Holds(size_t node, absl::FunctionRef<bool(size_t)> holds) const {
  const Node& n = nodes_[node];
  switch (n.kind) {
    case Kind::kTerm:
      return holds(n.left);
    case Kind::kNot:
      return !Holds(n.left, holds);
    case Kind::kAnd:
      return Holds(n.left, holds) && Holds(n.right, holds);
    case Kind::kOr:
      return Holds(n.left, holds) || Holds(n.right, holds);
  }
  return false;
}

absl::Status Filter::Check(const study::SearchSpace& space) const {
  for (const FilterTerm& term : terms_) {
    const absl::StatusOr<FieldKind> kind = KindOf(term.field, space);
    if (!kind.ok()) return WrongAt("filter", text_, term.field_at, kind.status().message());
    bool value = false;
    const std::string misfit = Misfit(term, *kind, &value);
    if (!misfit.empty()) return WrongAt("filter", text_, value ? term.value_at : term.field_at, misfit);
  }
  return absl::OkStatus();
}

absl::StatusOr<Order> ParseOrder(absl::string_view text, const study::SearchSpace& space) {
  if (text.size() > Filter::kMaxBytes) return base::BadField("order_by", "is too long");
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  Order order;
  if (rest.empty()) return order;
  size_t end = rest.size();
  for (const absl::string_view direction : {" desc", " asc"}) {
    if (!absl::EndsWith(rest, direction)) continue;
    order.descending = direction == " desc";
    end -= direction.size();
  }
  order.field = std::string(absl::StripAsciiWhitespace(rest.substr(0, end)));
  // The key of an attribute may be in quotes, as in a filter.
  const size_t quote = order.field.find(".\"");
  if (quote != std::string::npos && order.field.size() > quote + 2 && order.field.back() == '"') {
    order.field = order.field.substr(0, quote + 1) + order.field.substr(quote + 2, order.field.size() - quote - 3);
  }
  const absl::StatusOr<FieldKind> kind = KindOf(order.field, space);
  if (!kind.ok()) {
    return WrongAt("order_by", text, static_cast<size_t>(rest.data() - text.data()), kind.status().message());
  }
  return order;
}

}  // namespace luthier::service
