#ifndef LUTHIER_CLIENT_PLOT_FIGURE_H_
#define LUTHIER_CLIENT_PLOT_FIGURE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A picture as data: what is to be seen, without a word about how it is drawn. figures.h makes figures of studies,
// gnuplot.h draws them, and the scripts in client/web draw the same figures from their JSON.
namespace luthier::plot {

// Says how a layer's numbers become marks. NaN in x or y is a gap.
enum class Mark {
  kPoints,    // A point at each (x, y).
  kLine,      // Straight lines from point to point; a gap begins another line.
  kSteps,     // As kLine, but horizontal up to the next point.
  kBand,      // The area between (x, y) and (x, y2).
  kSegments,  // A line from each (x, y) to (x2, y2).
  kBoxes,     // A rectangle with the corners (x, y) and (x2, y2).
  kWhiskers,  // An interval from x to x2 at y.
};

// The meaning of a layer, from which its colour and shape follow, the same in all plots.
enum class Meaning {
  kTrial,       // A trial with a result.
  kPruned,      // A trial that was stopped early.
  kFailed,      // A trial without a result.
  kInfeasible,  // A trial with a metric beyond a bound, which is never the best.
  kOutside,     // A trial whose value is worse than all that the frame shows; its mark is at the edge.
  kOpen,        // A trial that runs or waits.
  kBest,        // The best trial.
  kIncumbent,   // The best value so far.
  kOther,       // The same of another study, or of a part of this one; `shade` tells several apart.
  kReference,   // A value to compare with.
  kModel,       // The expectation of the study's model.
  kGradient,    // The slope that a trial reported.
  kShaded,      // Something whose colour is `shade`, or `colour`.
};

struct Layer {
  Mark mark = Mark::kPoints;
  Meaning meaning = Meaning::kTrial;
  std::string name = "";  // In the legend; empty: it is not there.
  std::vector<double> x = {}, y = {};
  std::vector<double> x2 = {}, y2 = {};        // Empty, unless `mark` needs them.
  std::vector<double> colour = {};             // Empty, or a value of the panel's colour axis for each mark.
  std::vector<std::int64_t> trials = {};       // Empty, or the number of the trial behind each mark.
  std::optional<double> shade = std::nullopt;  // 0 (pale) to 1 (dark).
};

struct Axis {
  std::string label = "";
  bool log = false;
  std::optional<double> min = std::nullopt, max = std::nullopt;  // Ends of what is shown; absent: all that there is.
  // Empty: by the numbers. Else texts at these places, and nothing elsewhere.
  std::vector<std::pair<double, std::string>> ticks = {};
};

// A text beside the point (x, y), above it or below it.
struct Note {
  double x = 0.0, y = 0.0;
  std::string text = "";
  bool above = false;
};

struct Panel {
  std::string title = "";
  Axis x = {}, y = {};
  std::optional<Axis> colour = std::nullopt;
  bool dark_low = false;  // True: dark colours are for low values of the colour axis, else for high ones.
  std::vector<Layer> layers = {};
  std::vector<Note> notes = {};
  std::string empty = "";  // Says why there is nothing to be seen; empty: there is something.
};

struct Figure {
  std::string kind = "";     // "history", as the command line has it.
  std::string title = "";    // For people: what, of which study.
  std::string caption = "";  // The picture in words, for those who do not see it.
  std::string warning = "";  // Sentences that are part of a picture of one panel: reasons not to trust it.
  std::vector<Panel> panels = {};
  int columns = 1;  // Panels beside each other.
};

// Returns all numbers of the figure, so that a script can do without the drawing: {"kind", "title", "caption",
// "columns", "panels": [{"title", "x", "y", "colour", "dark_low", "layers": [{"mark", "role", "name", "x", "y", …}]}]}.
// Numbers that are not finite are null. The names are promises to scripts: fields are added, never renamed.
nlohmann::ordered_json ToJson(const Figure& figure);

// Returns a figure that looks the same with fewer marks: at most `most_points` points in a layer, of which each stands
// for those within a few pixels, and lines that keep the first, least, largest and last value in each of 1,000 columns.
// Ends of axes are set first, so that they stay those of all numbers.
Figure Thinned(const Figure& figure, size_t most_points);

// Returns where `value` is on an axis with ends: 0 at its beginning, 1 at its end; and the value at such a place.
double PlaceOn(const Axis& axis, double value);
double ValueAt(const Axis& axis, double place);

// Sets the ends of the axes that have none to those of all numbers, with some room around them. Equal numbers get an
// interval around them.
void SetEnds(Panel* panel);

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_FIGURE_H_
