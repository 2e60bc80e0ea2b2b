#include "lib/catalogue/penalty_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::catalogue {
namespace {

constexpr size_t kMaxGroups = 100;

template <typename... Parts>
absl::Status Error(const Parts&... parts) {
  return base::BadField(kGroupsOption, absl::StrCat(parts...));
}

// Splits `text` at each character of `separators` outside double quotes; empty parts are left out.
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
  member.pieces.emplace_back();
  bool quoted = false;
  for (size_t k = 0; k < text.size(); ++k) {
    std::string& part = member.pieces.back();
    if (text[k] == '"') {
      if (quoted && k + 1 < text.size() && text[k + 1] == '"') {
        part += text[k++];
      } else {
        quoted = !quoted;
      }
    } else if (text[k] == '*' && !quoted) {
      member.pieces.emplace_back();
    } else {
      part += text[k];
    }
  }
  if (quoted) return Error(base::Quote(text), " has no closing quote");
  return member;
}

// The things that are grouped: `count` of them, each called a `what` (a column, say), of `where`.
struct Parts {
  std::string where, what;
  int64_t count;
  const std::vector<std::string>& names;  // May be empty.
  bool numbered;                          // They can be named by numbers from 1.
};

// Returns a hint at what the user may write instead of a member that does not exist.
std::string Instead(const GroupMember& member, const Parts& parts) {
  constexpr int64_t kFew = 40;
  if (parts.count <= kFew && !parts.numbered) return absl::StrCat("; it has ", absl::StrJoin(parts.names, ", "));
  const std::string close = member.pattern() ? std::string() : base::ClosestMatch(member.pieces[0], parts.names);
  if (close.empty()) return "";
  // Column names belong to the data, and messages travel further than the data do.
  const auto place = std::find(parts.names.begin(), parts.names.end(), close) - parts.names.begin();
  return absl::StrCat(" (name number ", place + 1, " is close to it)");
}

absl::StatusOr<std::vector<int32_t>> Assign(const std::vector<PenaltyGroup>& groups, const Parts& parts, bool rest) {
  if (groups.empty()) return std::vector<int32_t>();
  const std::vector<std::string>& names = parts.names;
  std::vector<int32_t> of(static_cast<size_t>(parts.count), 0);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto number = static_cast<int32_t>(g) + 1;
    const std::string in = absl::StrCat("group ", base::Quote(groups[g].name), ": ");
    for (const GroupMember& member : groups[g].members) {
      int64_t begin = 0, end = parts.count;
      const bool by_number = member.first > 0;
      if (by_number && !parts.numbered) {
        return Error(in, base::Quote(member.text), " is a number; ", parts.what, "s go by their names here");
      }
      if (by_number) {
        if (member.first > parts.count || (member.last > parts.count && member.last != INT64_MAX)) {
          return Error(in, base::Quote(member.text), " is beyond the ", parts.count, " ", parts.what, "s of ",
                       parts.where);
        }
        begin = member.first - 1;
        end = std::min(parts.count, member.last);
      } else if (names.empty() && member.text != "*") {
        return Error(in, base::Quote(member.text), ": the ", parts.what, "s of ", parts.where,
                     " have no names; give their numbers, from 1");
      }
      bool any = false;
      for (int64_t j = begin; j < end; ++j) {
        if (!by_number && !names.empty() && !member.Fits(names[static_cast<size_t>(j)])) continue;
        any = true;
        int32_t& mine = of[static_cast<size_t>(j)];
        if (mine != 0 && mine != number) {
          return Error(
              parts.what, " ",
              parts.numbered || names.empty() ? absl::StrCat(j + 1) : base::Quote(names[static_cast<size_t>(j)]),
              " is in two groups, ", base::Quote(groups[static_cast<size_t>(mine) - 1].name), " and ",
              base::Quote(groups[g].name));
        }
        mine = number;
      }
      if (!any) {
        return Error(in, parts.where, " has no ", parts.what, " ", member.pattern() ? "like " : "",
                     base::Quote(member.text), Instead(member, parts));
      }
    }
  }
  if (!rest && std::find(of.begin(), of.end(), 0) == of.end()) {
    return Error("every ", parts.what, " of ", parts.where,
                 " is in a group, so l2 has no effect; leave out one group: l2 is the strength of ", parts.what,
                 "s in none");
  }
  return of;
}

bool IsGroupName(absl::string_view name) {
  return study::IsName(absl::StrCat("l2.", std::string(name))) && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

}  // namespace

bool GroupMember::Fits(absl::string_view name) const {
  if (!pattern()) return !pieces.empty() && name == pieces[0];
  if (!absl::StartsWith(name, pieces.front())) return false;
  name.remove_prefix(pieces.front().size());
  if (!absl::EndsWith(name, pieces.back())) return false;
  name.remove_suffix(pieces.back().size());
  // The first match of a piece leaves most of the name to the pieces behind it.
  for (size_t k = 1; k + 1 < pieces.size(); ++k) {
    const size_t at = name.find(pieces[k]);
    if (at == absl::string_view::npos) return false;
    name.remove_prefix(at + pieces[k].size());
  }
  return true;
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

std::optional<int64_t> LengthOf(const std::string& name, const study::Parameters& options,
                                const study::SearchSpace& space) {
  if (const std::optional<int> i = space.Find(name)) {
    const std::optional<int>& count = space.parameters()[static_cast<size_t>(*i)].count;
    return count ? std::optional<int64_t>(*count) : std::nullopt;
  }
  const auto found = options.find(name);
  if (found == options.end()) return std::nullopt;
  const auto* list = std::get_if<std::vector<double>>(&found->second);
  return list ? std::optional<int64_t>(static_cast<int64_t>(list->size())) : std::nullopt;
}

std::string L2Per(const study::Parameters& options) {
  const auto found = options.find("l2_per");
  const auto* text = found == options.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text ? *text : "column";
}

std::string PenaltyName(const PenaltyGroup& group, absl::string_view penalty) {
  return absl::StrCat(penalty, ".", group.name);
}

ObjectiveInfo WithPenaltyGroups(const ObjectiveInfo& info, const std::vector<PenaltyGroup>& groups) {
  ObjectiveInfo out = info;
  for (const char* penalty : {"l2", "l1"}) {
    const auto all = std::find_if(out.parameters.begin(), out.parameters.end(),
                                  [&](const ParameterInfo& p) { return p.name == penalty; });
    if (all == out.parameters.end()) continue;
    std::vector<ParameterInfo> penalties;
    for (const PenaltyGroup& group : groups) {
      ParameterInfo own = *all;
      own.name = PenaltyName(group, penalty);
      own.description = absl::StrCat("Strength of the ", penalty, " penalty of group ", group.name, ".");
      penalties.push_back(std::move(own));
    }
    out.parameters.insert(all + 1, penalties.begin(), penalties.end());
  }
  return out;
}

std::vector<double> PenaltiesOf(const std::vector<PenaltyGroup>& groups, const Settings& settings,
                                const std::string& penalty) {
  std::vector<double> penalties = {settings.Number(penalty)};
  for (const PenaltyGroup& group : groups) penalties.push_back(settings.Number(PenaltyName(group, penalty)));
  return penalties;
}

absl::StatusOr<std::vector<int32_t>> GroupColumns(const std::vector<PenaltyGroup>& groups, const Columns& columns,
                                                  bool rest) {
  return Assign(groups, {columns.where, "column", columns.count, columns.names, true}, rest);
}

absl::StatusOr<std::vector<int32_t>> GroupNames(const std::vector<PenaltyGroup>& groups,
                                                const std::vector<std::string>& names, const std::string& where,
                                                const std::string& what) {
  return Assign(groups, {where, what, static_cast<int64_t>(names.size()), names, false}, false);
}

}  // namespace luthier::catalogue
