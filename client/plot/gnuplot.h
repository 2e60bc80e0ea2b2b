#ifndef LUTHIER_CLIENT_PLOT_GNUPLOT_H_
#define LUTHIER_CLIENT_PLOT_GNUPLOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/plot/figure.h"

// Figures drawn by gnuplot, which Debian has. Texts of users stand in single quotes only, in which gnuplot neither runs
// commands nor knows escapes, and have no quotes themselves; numbers stand in blocks of data.
namespace luthier::plot {

struct Drawing {
  enum class Format { kSvg, kPng, kPdf, kText };
  Format format = Format::kSvg;
  int columns = 79;  // Width of the terminal, with kText.
};

// Returns the script that draws `figure` to gnuplot's standard output.
std::string GnuplotScript(const Figure& figure, const Drawing& drawing);

// Runs gnuplot with a script and returns what it drew. No shell is involved, and no start-up file is read.
// FAILED_PRECONDITION if there is no gnuplot; INTERNAL with its words if it failed.
absl::StatusOr<std::string> RunGnuplot(const std::string& script);

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_GNUPLOT_H_
