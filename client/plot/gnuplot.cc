#include "client/plot/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/plot/subject.h"
#include "lib/base/printable.h"

namespace luthier::plot {
namespace {

constexpr int kTileWidth = 380, kTileHeight = 300;  // Pixels of one of several panels.
constexpr int kWidth = 860, kHeight = 480;          // Pixels of the only panel.
constexpr int kTextLines = 24;
constexpr int kLegendHeight = 30;                 // Pixels of the legend of several panels.
constexpr double kLegendCharacter = 5.5;          // Pixels of a character of it.
constexpr int kLegendBeside = 44;                 // Pixels of a sign of it, with room around it.
constexpr int kMargin = 90, kCharacterWidth = 7;  // Pixels beside a panel's frame, and of a character below it.
constexpr int kTextMargin = 10;                   // The first in columns of a terminal.
constexpr std::size_t kWarningLine = 115;         // Characters of a line below the only panel.
constexpr int kRowHeight = 16;                    // Pixels of a name beside the only panel.
constexpr std::size_t kBeside = 40, kBesideText = 24, kLeaning = 24;  // Characters of a tick's name.
constexpr std::size_t kRowsText = 20;                                 // Names beside a panel of a terminal.
constexpr std::size_t kLabel = 44;                                    // Characters of an axis's label.
constexpr std::size_t kLeastTick = 6;  // Columns of a terminal that the text of a tick gets at least.
constexpr double kNarrow = 1e-4;  // Numbers that differ by less than this part of their size need more than six digits.
constexpr double kHuge = 1e300;

// Returns text in single quotes, in which gnuplot runs nothing. Quotes of the text become typographic ones: gnuplot 5.4
// does not read a doubled quote at the beginning of a label as one, and would go on behind it.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(base::Printable(text), {{"'", "’"}, {"`", "‘"}}), "'");
}

// Returns the text of a tick in quotes: gnuplot reads it as a format, in which a percent sign is doubled.
std::string QuotedTick(const std::string& text) {
  return Quoted(absl::StrReplaceAll(text, {{"%", "%%"}}));
}

std::string Exact(double value) {
  return absl::StrFormat("%.17g", value);
}

std::string ShadeColour(double shade) {
  const auto mix = [&](int pale, int dark) { return static_cast<int>(std::lround(pale + shade * (dark - pale))); };
  return absl::StrFormat("#%02x%02x%02x", mix(0xcb, 0x12), mix(0xd5, 0x2b), mix(0xe1, 0x6e));
}

struct Style {
  const char* colour;
  int point;    // gnuplot's point types.
  double size;  // Multiple of a usual point.
  double width;
};

Style StyleOf(Meaning meaning) {
  switch (meaning) {
    case Meaning::kTrial:
      return {"#64748b", 7, 0.6, 1.0};
    case Meaning::kPruned:
      return {"#0891b2", 8, 0.6, 1.0};
    case Meaning::kFailed:
      return {"#c2410c", 2, 0.6, 1.0};
    case Meaning::kInfeasible:
      return {"#a16207", 4, 0.6, 1.0};
    case Meaning::kOutside:
      return {"#64748b", 9, 0.6, 1.0};
    case Meaning::kOpen:
      return {"#16a34a", 6, 0.6, 1.0};
    case Meaning::kBest:
      return {"#b91c1c", 3, 1.4, 2.0};
    case Meaning::kIncumbent:
      return {"#1d4ed8", 7, 0.6, 2.5};
    case Meaning::kOther:
      return {"#d97706", 7, 0.6, 1.8};
    case Meaning::kReference:
      return {"#475569", 7, 0.6, 1.2};
    case Meaning::kModel:
      return {"#15803d", 7, 0.6, 1.8};
    case Meaning::kGradient:
      return {"#be185d", 7, 0.6, 1.2};
    case Meaning::kShaded:
      return {"#1d4ed8", 7, 0.6, 1.0};
  }
  return {"#64748b", 7, 0.6, 1.0};
}

std::size_t Characters(absl::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(base::FirstCharacter(text).bytes);
  return count;
}

// Returns the words of a text in lines of at most `most` bytes, but for words that are longer.
std::vector<std::string> Lines(const std::string& text, std::size_t most) {
  std::vector<std::string> lines;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > most) {
      lines.emplace_back(word);
    } else {
      absl::StrAppend(&lines.back(), " ", word);
    }
  }
  return lines;
}

// Numbers as gnuplot gets them: (value - offset) * scale.
struct Shift {
  double offset = 0.0, scale = 1.0;
  double operator()(double value) const { return (value - offset) * scale; }
};

// Returns how numbers of an axis with ends are moved so that gnuplot can tell them apart and subtract them, and says so
// in the axis's label. Most are not moved.
Shift Eased(Axis* axis) {
  if (!axis->ticks.empty()) return {};
  const double size = std::max(std::abs(*axis->min), std::abs(*axis->max));
  Shift shift;
  if (!axis->log && size > kHuge) {
    shift.scale = 1.0 / kHuge;
    absl::StrAppend(&axis->label, " / 1e300");
  } else if (!axis->log && size > 0.0 && size < 1.0 / kHuge) {
    shift.scale = kHuge;
    absl::StrAppend(&axis->label, " × 1e300");
  } else if (*axis->max - *axis->min < kNarrow * size) {
    // The offset has no more digits than tell the numbers apart, so that it reads well.
    const double unit = std::pow(10.0, std::ceil(std::log10(*axis->max - *axis->min)));
    const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(size / unit))) + 1, 1, 17);
    std::string text = absl::StrFormat("%.*g", digits, std::floor(*axis->min / unit) * unit);
    if (!absl::SimpleAtod(text, &shift.offset) || !(std::abs(*axis->min - shift.offset) <= 2.0 * unit)) {
      shift.offset = *axis->min;
      text = Exact(shift.offset);
    }
    absl::StrAppend(&axis->label, axis->label.empty() ? "− " : " − ", text);
    axis->log = false;
  }
  axis->min = shift(*axis->min);
  axis->max = shift(*axis->max);
  return shift;
}

// Makes room beyond the ends, where a terminal draws the frame over marks.
void Widen(Axis* axis, double share) {
  const Axis before = *axis;
  const double low = ValueAt(before, -share);
  const double high = ValueAt(before, 1.0 + share);
  if (std::isfinite(low) && (!before.log || low > 0.0)) axis->min = low;
  if (std::isfinite(high)) axis->max = high;
}

// Gives a panel ends and numbers with which gnuplot can draw it.
void Ease(const Drawing& drawing, Panel* panel) {
  SetEnds(panel);
  const Shift x = Eased(&panel->x);
  const Shift y = Eased(&panel->y);
  const Shift colour = panel->colour ? Eased(&*panel->colour) : Shift();
  for (Layer& layer : panel->layers) {
    for (double& value : layer.x) value = x(value);
    for (double& value : layer.x2) value = x(value);
    for (double& value : layer.y) value = y(value);
    for (double& value : layer.y2) value = y(value);
    for (double& value : layer.colour) value = colour(value);
  }
  for (Note& note : panel->notes) {
    note.x = x(note.x);
    note.y = y(note.y);
  }
  if (drawing.format != Drawing::Format::kText) return;
  Widen(&panel->x, 0.02);
  Widen(&panel->y, 0.05);
}

// Returns ticks whose texts have at most `most` characters, and differ where they did.
std::vector<std::pair<double, std::string>> Named(const std::vector<std::pair<double, std::string>>& ticks,
                                                  std::size_t most) {
  std::vector<std::string> texts;
  for (const auto& [place, text] : ticks) texts.push_back(text);
  texts = Distinct(texts, most);
  std::vector<std::pair<double, std::string>> out;
  for (std::size_t i = 0; i < ticks.size(); ++i) out.emplace_back(ticks[i].first, texts[i]);
  return out;
}

// A script in the making.
class Script {
 public:
  Script(const Figure& figure, const Drawing& drawing) : figure_(figure), drawing_(drawing) {}
  std::string Build();

 private:
  using Format = Drawing::Format;

  bool text() const { return drawing_.format == Format::kText; }
  template <typename... Parts>
  void Say(const Parts&... parts) {
    absl::StrAppend(&out_, parts..., "\n");
  }
  void SayTerminal();
  void SayAxis(const char* name, const Axis& axis);
  // Returns the texts of the ticks below a panel, as many and as long as there is room for; on paper they may lean.
  std::vector<std::pair<double, std::string>> TicksBelow(const Axis& axis, bool* leaning) const;
  // Returns the texts of the ticks beside a panel.
  std::vector<std::pair<double, std::string>> TicksBeside(const Axis& axis) const;
  void SayWarning();
  // Returns the layers that the legend of several panels has, each name once.
  std::vector<const Layer*> Signs() const;
  // Draws that legend below the panels; it is part of the last one.
  void SayLegend();
  void SayPanel(const Panel& panel);
  // Writes the layer's numbers as a block of data and returns the words of `plot` that draw it; "": nothing to draw.
  std::string SayLayer(const Panel& panel, const Layer& layer);

  const Figure& figure_;
  const Drawing& drawing_;
  std::string out_;
  int blocks_ = 0;
  int width_ = 0, height_ = 0;  // The picture has so many pixels.
};

void Script::SayTerminal() {
  const auto panels = static_cast<int>(figure_.panels.size());
  const int columns = std::max(1, std::min(figure_.columns, panels));
  const int rows = (panels + columns - 1) / columns;
  const int width = panels > 1 ? std::max(columns * kTileWidth, 2 * kTileWidth) : kWidth;
  const std::size_t names = panels == 1 ? figure_.panels[0].y.ticks.size() : 0;
  width_ = width;
  const int height = panels > 1 ? rows * kTileHeight + 40 + (Signs().empty() ? 0 : kLegendHeight)
                                : std::max(kHeight, static_cast<int>(names) * kRowHeight + kMargin);
  height_ = height;
  switch (drawing_.format) {
    case Format::kSvg:
      Say("set terminal svg size ", width, ",", height, " dynamic noenhanced font 'Helvetica,12' background 'white'");
      break;
    case Format::kPng:
      Say("set terminal pngcairo size ", 2 * width, ",", 2 * height,
          " noenhanced font 'Helvetica,12' fontscale 1.8 linewidth 2 pointscale 2");
      break;
    case Format::kPdf:
      Say("set terminal pdfcairo size ", Exact(width / 96.0), ",", Exact(height / 96.0),
          " noenhanced font 'Helvetica,9'");
      break;
    case Format::kText:
      Say("set terminal dumb size ", drawing_.columns, ",", rows * kTextLines, " noenhanced mono");
      break;
  }
  Say("set encoding utf8");
  if (text()) {
    Say("set key tmargin center horizontal");  // Within the frame its letters would look like marks.
    return;
  }
  Say("set border 3 lc rgb '#475569'");
  Say("set tics nomirror textcolor rgb '#334155'");
  Say("set grid back lc rgb '#e2e8f0' lt 1");
  Say("set key tmargin center horizontal textcolor rgb '#334155'");
}

std::vector<std::pair<double, std::string>> Script::TicksBelow(const Axis& axis, bool* leaning) const {
  const auto columns = std::clamp(figure_.columns, 1, std::max(1, static_cast<int>(figure_.panels.size())));
  const int width = text() ? drawing_.columns / columns - kTextMargin
                           : ((figure_.panels.size() > 1 ? kTileWidth : kWidth) - kMargin) / kCharacterWidth;
  const auto room = static_cast<std::size_t>(std::max(width, 1));  // In characters.
  std::size_t longest = 0;
  for (const auto& [place, label] : axis.ticks) longest = std::max(longest, Characters(label));
  *leaning = (longest + 1) * axis.ticks.size() > room;
  if (!*leaning) return axis.ticks;
  if (!text()) return Named(axis.ticks, kLeaning);
  *leaning = false;
  const std::size_t every = std::max<std::size_t>(1, (kLeastTick * axis.ticks.size() + room - 1) / room);
  std::vector<std::pair<double, std::string>> ticks;
  for (std::size_t i = 0; i < axis.ticks.size(); i += every) ticks.push_back(axis.ticks[i]);
  const std::size_t each = std::max<std::size_t>(room / ticks.size(), 3) - 1;
  for (auto& [place, label] : ticks) label = Shortened(label, each);
  return ticks;
}

std::vector<std::pair<double, std::string>> Script::TicksBeside(const Axis& axis) const {
  if (!text()) return Named(axis.ticks, kBeside);
  const std::vector<std::pair<double, std::string>> all = Named(axis.ticks, kBesideText);
  const std::size_t every = std::max<std::size_t>(1, (all.size() + kRowsText - 1) / kRowsText);
  std::vector<std::pair<double, std::string>> ticks;
  for (std::size_t i = 0; i < all.size(); i += every) ticks.push_back(all[i]);
  return ticks;
}

void Script::SayAxis(const char* name, const Axis& axis) {
  if (axis.log) {
    Say("set logscale ", name);
  } else {
    Say("unset logscale ", name);
  }
  Say("set ", name, "range [", Exact(*axis.min), ":", Exact(*axis.max), "]");
  if (axis.ticks.empty()) {
    Say("set ", name, "tics norotate autojustify autofreq");
    Say("set format ", name, " '%g'");
  } else {
    std::string ticks;
    bool leaning = false;
    for (const auto& [place, label] : std::string_view(name) == "x" ? TicksBelow(axis, &leaning) : TicksBeside(axis)) {
      absl::StrAppend(&ticks, ticks.empty() ? "" : ", ", QuotedTick(label), " ", Exact(place));
    }
    Say("set ", name, "tics ", leaning ? "rotate by 60 right" : "norotate autojustify", " (", ticks, ")");
  }
  Say("set ", name, "label ", Quoted(Shortened(axis.label, kLabel)), text() ? "" : " textcolor rgb '#334155'");
}

// Returns "" or the words by which a layer's colours come from a column of its data.
std::string Coloured(const Layer& layer, int column) {
  return layer.colour.empty() ? "" : absl::StrCat(":", column);
}

std::string Script::SayLayer(const Panel& panel, const Layer& layer) {
  if (layer.x.empty()) return "";
  if (text() && (layer.mark == Mark::kBand || layer.mark == Mark::kWhiskers)) return "";
  const std::string block = absl::StrCat("$data", ++blocks_);
  const bool colours = !layer.colour.empty() && panel.colour;
  Say(block, " << END");
  for (std::size_t i = 0; i < layer.x.size(); ++i) {
    if (!std::isfinite(layer.x[i]) || !std::isfinite(layer.y[i]) || (panel.x.log && layer.x[i] <= 0.0) ||
        (panel.y.log && layer.y[i] <= 0.0)) {
      Say("");
      continue;
    }
    absl::StrAppend(&out_, Exact(layer.x[i]), " ", Exact(layer.y[i]));
    if (!layer.x2.empty()) absl::StrAppend(&out_, " ", Exact(layer.x2[i]));
    if (!layer.y2.empty()) absl::StrAppend(&out_, " ", Exact(layer.y2[i]));
    if (colours) absl::StrAppend(&out_, " ", Exact(layer.colour[i]));
    Say("");
  }
  Say("END");
  const Style style = StyleOf(layer.meaning);
  const std::string colour =
      colours ? "palette" : absl::StrCat("rgb '", layer.shade ? ShadeColour(*layer.shade) : style.colour, "'");
  const std::string name = absl::StrCat(" title ", Quoted(layer.name));
  const std::string title = layer.name.empty() ? " notitle" : name;
  const std::string line =
      absl::StrCat(" lw ", Exact(layer.meaning == Meaning::kShaded ? 0.8 : style.width), " lc ", colour,
                   layer.meaning == Meaning::kReference    ? " dt 2"
                   : layer.meaning == Meaning::kInfeasible ? " dt 3"
                   : layer.meaning == Meaning::kPruned     ? " dt 4"
                                                           : "");
  switch (layer.mark) {
    case Mark::kPoints:
      return absl::StrCat(block, " using 1:2", colours ? Coloured(layer, 3) : "", " with points pt ", style.point,
                          " ps ", Exact(style.size), " lw ", Exact(style.width), " lc ", colour, title);
    case Mark::kLine:
      return absl::StrCat(block, " using 1:2 with lines", line, title);
    case Mark::kSteps:
      return absl::StrCat(block, " using 1:2 with steps", line, title);
    case Mark::kBand:
      return absl::StrCat(block, " using 1:2:3 with filledcurves fs transparent solid 0.15 noborder lc ", colour,
                          title);
    case Mark::kSegments:
      return absl::StrCat(block, " using 1:2:($3-$1):($4-$2) with vectors nohead", line, title);
    case Mark::kBoxes:
      // Coloured fields reach a little below their neighbours, so that no light shines through between them.
      return absl::StrCat(
          block, " using (0.5*($1+$3)):(0.5*($2+$4)):1:", colours ? "($3+0.04*($3-$1)):2:($4+0.04*($4-$2))" : "3:2:4",
          colours ? Coloured(layer, 5) : "", " with boxxyerror fs solid ", colours ? "1.0" : "0.75", " noborder lc ",
          colour, title);
    case Mark::kWhiskers:
      return absl::StrCat(block, " using (0.5*($1+$3)):2:1:3 with xerrorbars pt -1", line, title);
  }
  return "";
}

// The warning stands in the picture itself, below the panel, since the caption does not travel with it.
void Script::SayWarning() {
  const std::vector<std::string> lines = Lines(figure_.warning, kWarningLine);
  Say("set bmargin ", 4 + lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Say("set label ", Quoted(lines[i]), " at screen 0.5, character ", lines.size() - i, ".0 center",
        " font ',10' textcolor rgb '#b91c1c'");
  }
}

std::vector<const Layer*> Script::Signs() const {
  std::vector<const Layer*> signs;
  if (text()) return signs;
  std::set<std::string> names;
  for (const Panel& panel : figure_.panels) {
    for (const Layer& layer : panel.layers) {
      if (!layer.name.empty() && !layer.x.empty() && names.insert(layer.name).second) signs.push_back(&layer);
    }
  }
  return signs;
}

void Script::SayLegend() {
  const double y = 0.5 * kLegendHeight / height_;
  double x = 0.5 * kLegendBeside;
  for (const Layer* sign : Signs()) {
    const Style style = StyleOf(sign->meaning);
    const std::string colour = absl::StrCat(" lc rgb '", sign->shade ? ShadeColour(*sign->shade) : style.colour, "'");
    if (sign->mark == Mark::kPoints) {
      Say("set label '' at screen ", Exact((x + 10.0) / width_), ", screen ", Exact(y), " point pt ", style.point,
          " ps ", Exact(style.size), colour);
    } else {
      const bool area = sign->mark == Mark::kBand || sign->mark == Mark::kBoxes;
      Say("set arrow from screen ", Exact(x / width_), ", screen ", Exact(y), " to screen ", Exact((x + 20.0) / width_),
          ", screen ", Exact(y), " nohead lw ", area ? "8" : Exact(style.width),
          area ? absl::StrCat(" lc rgb '#d9", style.colour + 1, "'") : colour,
          sign->meaning == Meaning::kReference ? " dt 2" : "");
    }
    Say("set label ", Quoted(sign->name), " at screen ", Exact((x + 26.0) / width_), ", screen ", Exact(y),
        " left font ',9' textcolor rgb '#334155'");
    x += kLegendBeside + kLegendCharacter * static_cast<double>(Characters(sign->name));
  }
}

void Script::SayPanel(const Panel& panel) {
  const bool single = figure_.panels.size() == 1;
  const std::string title = Quoted(panel.title.empty() && single ? figure_.title : panel.title);
  // A legend in the margin would stand above the title: it takes the title along.
  Say(single && !Signs().empty() ? "set key title " : "set title ", title);
  SayAxis("x", panel.x);
  SayAxis("y", panel.y);
  Say("unset label");
  if (panel.colour) {
    SayAxis("cb", *panel.colour);
    // The label would run into the numbers beside it.
    if (!text()) Say("set cblabel offset 2,0");
    Say(panel.dark_low ? "set palette defined (0 '#122b6e', 0.5 '#6f80a8', 1 '#e2e8f0')"
                       : "set palette defined (0 '#cbd5e1', 0.5 '#6f80a8', 1 '#122b6e')");
  }
  for (const Note& note : panel.notes) {
    Say("set label ", Quoted(note.text), " at ", Exact(note.x), ",", Exact(note.y), " offset 0.4,",
        note.above ? "0.5" : "-0.6", text() ? "" : " font ',9' textcolor rgb '#334155'", " front");
  }
  if (!figure_.warning.empty() && figure_.panels.size() == 1 && !text()) SayWarning();
  if (figure_.panels.size() > 1 && &panel == &figure_.panels.back()) SayLegend();
  if (!panel.empty.empty()) Say("set label ", Quoted(panel.empty), " at graph 0.5,0.5 center");
  std::string plots;
  for (const Layer& layer : panel.layers) {
    const std::string plot = SayLayer(panel, layer);
    if (!plot.empty()) absl::StrAppend(&plots, plots.empty() ? "" : ", \\\n  ", plot);
  }
  Say("plot ", plots.empty() ? "NaN notitle" : plots);
}

std::string Script::Build() {
  SayTerminal();
  const auto panels = static_cast<int>(figure_.panels.size());
  if (panels > 1) {
    const int columns = std::max(1, std::min(figure_.columns, panels));
    // Panels make room for the legend below them, and stay below the title.
    const int rows = (panels + columns - 1) / columns;
    const double share = Signs().empty() ? 0.0 : static_cast<double>(kLegendHeight) / height_;
    const std::string room =
        share > 0.0 ? absl::StrCat(" scale 1,", Exact(1.0 - rows * share), " offset 0,", Exact(0.5 * share)) : "";
    Say("set multiplot layout ", rows, ",", columns, room, " title ", Quoted(figure_.title));
    // One legend for each of many panels would leave no room for them.
    Say("unset key");
    Say("unset colorbox");
  }
  for (const Panel& panel : figure_.panels) SayPanel(panel);
  if (panels > 1) Say("unset multiplot");
  return std::move(out_);
}

// A file without a name; closed at the end.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }

  bool Write(const std::string& text) const {
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t n = write(fd_, text.data() + written, text.size() - written);
      if (n <= 0) return false;
      written += static_cast<std::size_t>(n);
    }
    return lseek(fd_, 0, SEEK_SET) == 0;
  }
  std::string Read() const {
    std::string text;
    char buffer[65536];
    off_t at = 0;
    for (ssize_t n = pread(fd_, buffer, sizeof(buffer), at); n > 0; n = pread(fd_, buffer, sizeof(buffer), at)) {
      text.append(buffer, static_cast<std::size_t>(n));
      at += n;
    }
    return text;
  }

 private:
  const int fd_;
};

}  // namespace

std::string GnuplotScript(const Figure& figure, const Drawing& drawing) {
  Figure whole = figure;
  for (Panel& panel : whole.panels) Ease(drawing, &panel);
  return Script(whole, drawing).Build();
}

absl::StatusOr<std::string> RunGnuplot(const std::string& script) {
  const MemoryFile in("gnuplot-script");
  const MemoryFile out("gnuplot-picture");
  const MemoryFile err("gnuplot-errors");
  if (in.fd() < 0 || out.fd() < 0 || err.fd() < 0 || !in.Write(script)) {
    return absl::InternalError(absl::StrCat("can't hand gnuplot its script: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.fd(), STDERR_FILENO);
  std::string program = "gnuplot";
  std::string defaults = "-d";  // No start-up files.
  std::string from_input = "-";
  char* const argv[] = {program.data(), defaults.data(), from_input.data(), nullptr};
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) {
    return absl::FailedPreconditionError(
        "there is no gnuplot, which draws pictures: apt-get install gnuplot-nox, or --out x.html, which needs none");
  }
  if (failed != 0) return absl::InternalError(absl::StrCat("can't start gnuplot: ", std::strerror(failed)));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError(
        absl::StrCat("gnuplot failed: ", base::PrintableLines(absl::StripAsciiWhitespace(err.Read()))));
  }
  return out.Read();
}

}  // namespace luthier::plot
