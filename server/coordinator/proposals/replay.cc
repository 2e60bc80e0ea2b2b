#include "server/coordinator/proposals/replay.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/suggest/registry.h"
#include "server/coordinator/proposals/proposer.h"

namespace luthier::coordinator {
namespace {

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return SameBits(x, y); });
}

bool SameBits(const study::Parameters& a, const study::Parameters& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const double* p = std::get_if<double>(&x.second);
    const double* q = std::get_if<double>(&y.second);
    return x.first == y.first && (p && q ? SameBits(*p, *q) : x.second == y.second);
  });
}

bool SameBits(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && SameBits(x.second, y.second); });
}

// A suggestion lists all gradients that it was made without, its row those among them that none before it was: `noted`
// holds all that the rows up to this one list.
bool SetAsideAgrees(const suggest::Suggestion& again, const study::Provenance& stored, const std::set<int64_t>& noted,
                    const study::History& history) {
  const auto listed = [&](int64_t number) {
    return std::binary_search(again.set_aside.begin(), again.set_aside.end(), number);
  };
  const auto missing = [&](int64_t number) {
    const bool known = number >= 1 && number <= static_cast<int64_t>(history.trials().size());
    return known && history.trials()[static_cast<size_t>(number - 1)].gradient && noted.count(number) == 0;
  };
  return std::all_of(stored.set_aside.begin(), stored.set_aside.end(), listed) &&
         std::none_of(again.set_aside.begin(), again.set_aside.end(), missing);
}

std::string Goal(bool promotion, int64_t number, int64_t resource) {
  return absl::StrCat(promotion ? absl::StrCat("trial ", number, " continued") : "a new trial", " to step ", resource);
}

}  // namespace

absl::StatusOr<ReplayReport> VerifyReplay(storage::Storage* storage, const storage::StudyRecord& study,
                                          const DesignerFactory& create) {
  const study::StudySpec& spec = study.spec;
  // The asks in order of index, with the trial each was stored with.
  struct Ask {
    study::Provenance provenance;
    study::Parameters parameters;
    int64_t number = 0;
    bool promotion = false;
  };
  std::map<uint64_t, Ask> asks;
  constexpr int kPage = 1000;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study.key, {}, after, kPage));
    for (const storage::TrialRecord& record : page) {
      after = record.trial.number;
      const study::Provenance& first = record.trial.provenance;
      if (first.ask_index) asks[*first.ask_index] = {first, record.trial.parameters, after, false};
      for (const study::Provenance& promotion : record.trial.promotions) {
        if (promotion.ask_index) asks[*promotion.ask_index] = {promotion, {}, after, true};
      }
    }
    if (page.size() < kPage) break;
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> timeline,
                           ReadTimeline(storage, study.key, spec, std::numeric_limits<uint64_t>::max()));

  ReplayReport report;
  const suggest::AlgorithmInfo& info = suggest::InfoOf(spec.algorithm);
  const bool uses_history = info.uses_history || spec.reproducible;
  const std::unique_ptr<suggest::Designer> designer = create(spec);
  study::History history;
  std::set<int64_t> noted;  // Gradients set aside so far.
  auto next = timeline.begin();
  for (const auto& [ask_index, ask] : asks) {
    const study::Provenance& provenance = ask.provenance;
    for (; uses_history && next != timeline.end() && next->seq <= provenance.prefix_seq; ++next) Apply(*next, &history);
    noted.insert(provenance.set_aside.begin(), provenance.set_aside.end());
    const std::string where = absl::StrCat("trial ", ask.number, " (ask ", ask_index, ")");
    if (provenance.algorithm_version != info.version) {
      ++report.other_version;
    } else {
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<suggest::Suggestion> again,
                               SuggestOne(designer.get(), spec, history, ask_index));
      ++report.checked;
      if (!again) {
        report.mismatches.push_back(absl::StrCat(where, ": a result it depends on is missing"));
      } else if (again->resume != (ask.promotion ? std::optional<int64_t>(ask.number) : std::nullopt) ||
                 again->resource != provenance.resource) {
        report.mismatches.push_back(
            absl::StrCat(where, ": stored ", Goal(ask.promotion, ask.number, provenance.resource), ", computed ",
                         Goal(again->resume.has_value(), again->resume.value_or(0), again->resource)));
      } else if (!SameBits(again->parameters, ask.parameters)) {
        report.mismatches.push_back(absl::StrCat(where, ": stored ", study::FormatParameters(ask.parameters),
                                                 ", computed ", study::FormatParameters(again->parameters)));
      } else if (again->origin != provenance.origin || again->carry != provenance.carry ||
                 !SameBits(again->details, provenance.details) || !SameBits(again->direction, provenance.direction) ||
                 !SetAsideAgrees(*again, provenance, noted, history)) {
        report.mismatches.push_back(
            absl::StrCat(where, ": same parameters, other origin, details, carry, direction or gradients set aside"));
      }
    }
    if (!uses_history) continue;
    suggest::Suggestion stored;
    stored.parameters = ask.parameters;
    stored.carry = provenance.carry;
    stored.resource = provenance.resource;
    if (ask.promotion) {
      const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(ask.number - 1)];
      if (trial.state != study::TrialState::kPaused || trial.resource >= provenance.resource) {
        return absl::DataLossError(absl::StrCat(where, ": it was continued while it was not paused"));
      }
      stored.resume = ask.number;
    }
    Note(stored, ask_index, &history);
  }
  return report;
}

}  // namespace luthier::coordinator
