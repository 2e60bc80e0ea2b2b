#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_LABEL_DETAIL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_LABEL_DETAIL_H_

namespace luthier::search {

// Suggestion::details of a setting whose label was due (labels.h): the name begins so, the name of the label's
// parameter follows, and the value is the number of the label's trials before, of which PRUNED ones count half.
inline constexpr char kLabelDetail[] = "label.";

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_LABEL_DETAIL_H_
