#ifndef LUTHIER_CLIENT_PLOT_HTML_H_
#define LUTHIER_CLIENT_PLOT_HTML_H_

#include <string>

#include "client/plot/figure.h"

namespace luthier::plot {

// Returns a page that shows the figure in a browser, without any other file and without the network: light or dark, to
// zoom into, with each trial's numbers under the pointer, and as a table. Its policy lets no script run but its own.
std::string HtmlPage(const Figure& figure);

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_HTML_H_
