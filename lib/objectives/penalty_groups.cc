#include "lib/objectives/penalty_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::objectives {
namespace {

constexpr size_t kMaxGroups = 100;

template <typename... Parts>
absl::Status Error(const Parts&... parts) {
  return base::BadField(kGroupsOption, absl::StrCat(parts...));
}

// `text` at each character of `separators` outside double quotes, without empty parts.
std::vector<absl::string_view> SplitUnquoted(absl::string_view text, absl::string_view separators) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  bool quoted = false;
  for (size_t k = 0; k <= text.size(); ++k) {
    if (k < text.size() && text[k] == '"') quoted = !quoted;
    const bool ends = k == text.size() || (!quoted && separators.find(text[k]) != absl::string_view::npos);
    if (!ends) continue;
    const absl::string_view part = absl::StripAsciiWhitespace(text.substr(begin, k - begin));
    if (!part.empty()) parts.push_back(part);
    begin = k + 1;
  }
  return parts;
}

bool IsNumber(absl::string_view text, int64_t* value) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         absl::SimpleAtoi(text, value);
}

absl::StatusOr<GroupMember> ParseMember(absl::string_view text) {
  GroupMember member;
  member.text = std::string(text);
  const size_t dash = text.find('-');
  int64_t first = 0;
  if (IsNumber(text.substr(0, dash), &first)) {
    int64_t last = first;
    const absl::string_view end = dash == absl::string_view::npos ? "" : text.substr(dash + 1);
    const bool open = dash != absl::string_view::npos && end.empty();
    if (open) last = INT64_MAX;
    if (open || end.empty() || IsNumber(end, &last)) {
      if (first < 1) return Error(base::Quote(text), ": columns are counted from 1");
      if (last < first) return Error(base::Quote(text), " runs backwards");
      member.first = first;
      member.last = last;
      return member;
    }
  }
  bool quoted = false;
  for (size_t k = 0; k < text.size(); ++k) {
    std::string& part = member.star ? member.tail : member.head;
    if (text[k] == '"') {
      if (quoted && k + 1 < text.size() && text[k + 1] == '"') {
        part += text[k++];
      } else {
        quoted = !quoted;
      }
    } else if (text[k] == '*' && !quoted) {
      if (member.star) return Error(base::Quote(text), " has two stars; one is possible");
      member.star = true;
    } else {
      part += text[k];
    }
  }
  if (quoted) return Error(base::Quote(text), " has no closing quote");
  return member;
}

bool IsGroupName(absl::string_view name) {
  return study::IsName(absl::StrCat("l2.", std::string(name))) && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

}  // namespace

bool GroupMember::Fits(absl::string_view name) const {
  if (!star) return first == 0 && name == head;
  return name.size() >= head.size() + tail.size() && absl::StartsWith(name, head) && absl::EndsWith(name, tail);
}

absl::StatusOr<std::vector<PenaltyGroup>> ParsePenaltyGroups(absl::string_view text) {
  std::vector<PenaltyGroup> groups;
  for (const absl::string_view one : SplitUnquoted(text, ";\n")) {
    PenaltyGroup group;
    // A quote is never part of a group's name, so a colon behind one does not end it.
    const size_t colon = one.find(':');
    const bool named = colon != absl::string_view::npos && (one.find('"') > colon);
    const absl::string_view name = absl::StripAsciiWhitespace(named ? one.substr(0, colon) : one);
    if (name.empty() || !IsGroupName(name)) {
      return Error(base::Quote(named ? name : one),
                   " is no name of a group: letters, digits and '_', at most 61, then a colon and what belongs to it");
    }
    group.name = std::string(name);
    for (const PenaltyGroup& other : groups) {
      if (other.name == group.name) return Error("there are two groups ", base::Quote(group.name));
    }
    for (const absl::string_view member : SplitUnquoted(named ? one.substr(colon + 1) : one, ", \t\r")) {
      LUTHIER_ASSIGN_OR_RETURN(GroupMember parsed, ParseMember(member));
      group.members.push_back(std::move(parsed));
    }
    if (group.members.empty()) return Error("group ", base::Quote(group.name), " is empty");
    groups.push_back(std::move(group));
    if (groups.size() > kMaxGroups) return Error("there are more than ", kMaxGroups, " groups");
  }
  return groups;
}

absl::StatusOr<std::vector<PenaltyGroup>> GroupsOf(const study::Parameters& options) {
  const auto found = options.find(kGroupsOption);
  const auto* text = found == options.end() ? nullptr : std::get_if<std::string>(&found->second);
  return ParsePenaltyGroups(text == nullptr ? std::string() : *text);
}

std::string StrengthName(const PenaltyGroup& group) {
  return absl::StrCat("l2.", group.name);
}

ObjectiveInfo WithPenaltyGroups(const ObjectiveInfo& info, const std::vector<PenaltyGroup>& groups) {
  ObjectiveInfo out = info;
  const auto l2 =
      std::find_if(out.parameters.begin(), out.parameters.end(), [](const ParameterInfo& p) { return p.name == "l2"; });
  if (l2 == out.parameters.end()) return out;
  std::vector<ParameterInfo> strengths;
  for (const PenaltyGroup& group : groups) {
    ParameterInfo strength = *l2;
    strength.name = StrengthName(group);
    strength.description = absl::StrCat("Strength of the L2 penalty of group ", group.name, ".");
    strengths.push_back(std::move(strength));
  }
  out.parameters.insert(l2 + 1, strengths.begin(), strengths.end());
  return out;
}

std::vector<double> StrengthsOf(const std::vector<PenaltyGroup>& groups, const Settings& settings) {
  std::vector<double> strengths = {settings.Number("l2")};
  for (const PenaltyGroup& group : groups) strengths.push_back(settings.Number(StrengthName(group)));
  return strengths;
}

absl::StatusOr<std::vector<int32_t>> GroupColumns(const std::vector<PenaltyGroup>& groups,
                                                  const learn::Dataset& dataset, bool rest) {
  if (groups.empty()) return std::vector<int32_t>();
  const int64_t cols = dataset.x.cols;
  const std::vector<std::string>& names = dataset.features;
  std::vector<int32_t> of(static_cast<size_t>(cols), 0);
  const auto name_of = [&](int64_t j) {
    return names.empty() ? absl::StrCat(j + 1) : base::Quote(names[static_cast<size_t>(j)]);
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto number = static_cast<int32_t>(g) + 1;
    const std::string in = absl::StrCat("group ", base::Quote(groups[g].name), ": ");
    for (const GroupMember& member : groups[g].members) {
      int64_t begin = 0, end = cols;
      if (member.first > 0) {
        if (member.first > cols || (member.last > cols && member.last != INT64_MAX)) {
          return Error(in, base::Quote(member.text), " is beyond the ", cols, " columns of ", dataset.name);
        }
        begin = member.first - 1;
        end = std::min(cols, member.last);
      } else if (names.empty() && !(member.star && member.head.empty() && member.tail.empty())) {
        return Error(in, base::Quote(member.text), ": the columns of ", dataset.name,
                     " have no names; give their numbers, from 1");
      }
      bool any = false;
      for (int64_t j = begin; j < end; ++j) {
        if (member.first == 0 && !names.empty() && !member.Fits(names[static_cast<size_t>(j)])) continue;
        any = true;
        int32_t& mine = of[static_cast<size_t>(j)];
        if (mine != 0 && mine != number) {
          return Error("column ", name_of(j), " is in two groups, ",
                       base::Quote(groups[static_cast<size_t>(mine) - 1].name), " and ", base::Quote(groups[g].name));
        }
        mine = number;
      }
      if (!any) {
        return Error(in, dataset.name, " has no column ", member.star ? "like " : "", base::Quote(member.text),
                     member.star ? "" : base::DidYouMean(member.head, names));
      }
    }
  }
  if (!rest && std::find(of.begin(), of.end(), 0) == of.end()) {
    return Error("every column of ", dataset.name,
                 " is in a group, so l2 has no effect; leave out one group: l2 is the strength of columns in none");
  }
  return of;
}

}  // namespace luthier::objectives
