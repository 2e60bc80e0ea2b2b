#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_STATE_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_STATE_H_

namespace luthier::search {

// The kind of the bytes (lib/search/designer_state.h) of a BoState in which noise was found, and of no other: noise
// that was found stays found, whatever results come later.
inline constexpr char kBoNoiseStateKind[] = "bo/4";

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_STATE_H_
