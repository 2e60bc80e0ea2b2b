#ifndef LUTHIER_LIB_BILEVEL_UNITS_H_
#define LUTHIER_LIB_BILEVEL_UNITS_H_

namespace luthier::bilevel {

// Relation of the inner problem's unconstrained coordinate lambda to the value that a user declares.
enum class Coordinate {
  kIdentity,  // lambda = value
  kLog,       // lambda = ln value, value > 0
};

// dE/dvalue from dE/dlambda: the one conversion between the two (bounds convert the same way). The user's value is what
// the study's parameter holds (`l2` is the penalty itself), whatever scale the search uses:
//   kLog: dE/dvalue = (dE/dlambda) / value.
inline double UserUnitDerivative(double d_lambda, double user_value, Coordinate coordinate) {
  return coordinate == Coordinate::kLog ? d_lambda / user_value : d_lambda;
}

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_UNITS_H_
