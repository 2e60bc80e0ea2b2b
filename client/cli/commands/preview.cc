// `luthier study preview`: needs no server.
#include "lib/simulate/preview.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/study/legal_settings.h"
#include "lib/wire/convert.h"
#include "server/coordinator/messages/study_checks.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Preview;

Json PreviewJson(const Preview& preview, double seconds) {
  Json brackets = Json::array();
  for (const Preview::Bracket& bracket : preview.brackets) {
    Json rungs = Json::array();
    for (const Preview::Rung& rung : bracket.rungs) {
      rungs.push_back({{"step", rung.step}, {"settings", rung.settings}, {"training", rung.training}});
    }
    brackets.push_back({{"times", bracket.times}, {"rungs", rungs}});
  }
  const auto time = [&](double units) { return seconds > 0.0 ? Json(units * seconds) : Json(nullptr); };
  return {{"algorithm", preview.algorithm},
          {"unit", preview.unit},
          {"settings", preview.settings},
          {"brackets", brackets},
          {"training", preview.training},
          {"training_from_scratch", preview.training_from_scratch},
          {"training_without_early_stopping", preview.training_without},
          {"at_most", preview.at_most},
          {"workers", preview.workers},
          {"seconds_at_least", time(preview.time_at_least)},
          {"seconds_at_most", time(preview.time_at_most)}};
}

Table PreviewTable(const Preview& preview) {
  Table table({"bracket", "times", "rung", "step", "settings", "training"});
  for (size_t b = 0; b < preview.brackets.size(); ++b) {
    const Preview::Bracket& bracket = preview.brackets[b];
    for (size_t i = 0; i < bracket.rungs.size(); ++i) {
      const Preview::Rung& rung = bracket.rungs[i];
      table.Add({Cell::Integer(static_cast<int64_t>(b)), Cell::Integer(bracket.times),
                 Cell::Integer(static_cast<int64_t>(i)), rung.step > 0 ? Cell::Integer(rung.step) : Cell::Empty(),
                 Cell::Integer(rung.settings), Cell::Number(rung.training)});
    }
  }
  return table;
}

std::string ShortDuration(double seconds) {
  if (!(seconds < 1e15)) return absl::StrCat(ShortNumber(seconds), " s");
  return absl::FormatDuration(absl::Seconds(seconds < 10.0 ? seconds : std::round(seconds)));
}

}  // namespace

absl::StatusOr<int> StudyPreview(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(const Context::StudyToCreate input, context.ReadStudy(options.file, "preview"));
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, wire::FromProto(input.file.spec()));
  if (const absl::Status valid = coordinator::CheckNew(spec); !valid.ok()) return input.file.Locate(valid);

  const Preview preview = simulate::PreviewOf(spec, std::max(1, options.workers));
  const double share = study::LegalShareOf(spec.space, spec.constraints).share();
  if (context.structured()) {
    Json json = PreviewJson(preview, options.seconds_per_unit);
    if (!spec.constraints.empty()) json["legal_share"] = share;
    context.Print(json);
    return kExitDone;
  }
  context.Print(PreviewTable(preview));
  if (options.format == OutputFormat::kCsv) return kExitDone;
  std::ostream& out = context.out();
  if (!spec.constraints.empty()) {
    out << ShortNumber(100.0 * share) << " % of random settings keep the constraints\n";
  }
  out << preview.algorithm << ": " << preview.settings << " settings, "
      << (preview.about     ? "about "
          : preview.at_most ? "at most "
                            : "")
      << ShortNumber(preview.training) << " " << preview.unit << " of training";
  if (preview.training_from_scratch != preview.training) {
    out << " (" << ShortNumber(preview.training_from_scratch) << " where trials cannot go on from a checkpoint)";
  }
  if (preview.training_without != preview.training) {
    out << "; " << ShortNumber(preview.training_without) << " if every setting got all of it";
  }
  out << "\n" << preview.workers << (preview.workers == 1 ? " worker: " : " workers: ");
  const auto time = [&](double units) {
    return options.seconds_per_unit > 0.0 ? ShortDuration(units * options.seconds_per_unit)
                                          : absl::StrCat(ShortNumber(units), " ", preview.unit, " long");
  };
  out << "about " << time(preview.time_at_least);
  if (preview.time_at_most > preview.time_at_least) out << " to " << time(preview.time_at_most);
  out << (options.seconds_per_unit > 0.0 ? "\n" : "; --seconds says how long one takes\n");
  return kExitDone;
}

}  // namespace luthier::cli
