#include "lib/bilevel/vf_idca/hinge_program.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "lib/base/status_macros.h"

namespace luthier::bilevel {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMaxSteps = 120;
constexpr double kCentring = 0.2, kShortCentring = 0.6;  // Share of the complementarity that a step aims at.
constexpr double kShort = 0.3;                           // After a step shorter than this, the next one aims nearer.
constexpr double kShareToBoundary = 0.99;
constexpr double kShift = 1e-13;

// The state of the rows of one HingeTerm: losses xi >= 0 with multipliers u, and xi >= 1 - margin with slack s and
// multipliers a.
struct TermState {
  ArrayXd xi, u, s, a;
  // Values of the step: D2 / (D1 + D2) and 1 / (D1 + D2) of D1 = u / xi, D2 = a / s; kappa; and changes.
  ArrayXd share, inverse, kappa, d2, residual;
  ArrayXd dxi, du, ds, da;
};

// Returns 1 - y (x'w - c).
ArrayXd Shortfall(const HingeTerm& term, const VectorXd& z) {
  const Index p = term.rows->x.cols();
  return 1.0 - term.rows->y.array() * ((term.rows->x * z.segment(term.at, p)).array() - z[term.at + p]);
}

// Returns the change of the shortfall along dz.
ArrayXd Along(const HingeTerm& term, const VectorXd& dz) {
  const Index p = term.rows->x.cols();
  return -term.rows->y.array() * ((term.rows->x * dz.segment(term.at, p)).array() - dz[term.at + p]);
}

// Adds to *out the sum over rows of v_e times the shortfall's gradient.
void AddGradient(const HingeTerm& term, const ArrayXd& v, VectorXd* out) {
  const Index p = term.rows->x.cols();
  const VectorXd weighted = v * term.rows->y.array();
  out->segment(term.at, p).noalias() -= term.rows->x.transpose() * weighted;
  (*out)[term.at + p] += weighted.sum();
}

// Adds to *h the sum over rows of v_e times the outer product of the shortfall's gradient; v >= 0.
void AddOuter(const HingeTerm& term, const ArrayXd& v, MatrixXd* h) {
  const Index p = term.rows->x.cols();
  const VectorXd scale = v.sqrt() * term.rows->y.array();
  MatrixXd rows(v.size(), p + 1);
  rows.leftCols(p) = scale.asDiagonal() * term.rows->x;
  rows.col(p) = -scale;
  h->block(term.at, term.at, p + 1, p + 1).selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
}

double Value(const ProgramConstraint& c, const VectorXd& z) {
  double sum = -c.bound;
  if (c.factor > 0.0) sum += 0.5 * c.factor * z.segment(c.at, c.count).squaredNorm();
  for (const auto& [i, slope] : c.linear) sum += slope * z[i];
  return sum;
}

// Sets *out to the entries of the gradient that may differ from 0.
void Gradient(const ProgramConstraint& c, const VectorXd& z, std::vector<std::pair<Index, double>>* out) {
  *out = c.linear;
  if (c.factor <= 0.0) return;
  for (Index i = 0; i < c.count; ++i) out->emplace_back(c.at + i, c.factor * z[c.at + i]);
}

double MostStep(const ArrayXd& at, const ArrayXd& change) {
  double most = 1.0;
  for (Index i = 0; i < at.size(); ++i) {
    if (change[i] < 0.0) most = std::min(most, kShareToBoundary * at[i] / -change[i]);
  }
  return most;
}

}  // namespace

absl::StatusOr<HingeSolution> SolveHingeProgram(const HingeProgram& program, VectorXd z, double tolerance,
                                                const base::StopToken& stop) {
  const Index size = program.size;
  const auto constraints = static_cast<Index>(program.constraints.size());
  ArrayXd s(constraints), lambda(constraints);
  double count = static_cast<double>(constraints) + (program.has_cut ? 1.0 : 0.0);
  double cut_multiplier = program.has_cut ? 1.0 : 0.0, cut_slack = 1.0;
  std::vector<TermState> terms(program.terms.size());
  int64_t work = size * size * size / 3;
  for (size_t k = 0; k < terms.size(); ++k) {
    const HingeTerm& term = program.terms[k];
    const ArrayXd shortfall = Shortfall(term, z);
    terms[k].xi = shortfall.max(0.0) + 0.5;
    terms[k].s = terms[k].xi - shortfall;
    terms[k].u = terms[k].a = ArrayXd::Constant(shortfall.size(), 0.5 * (term.cost + cut_multiplier * term.cut));
    count += 2.0 * static_cast<double>(shortfall.size());
    work += shortfall.size() * term.rows->x.cols() * term.rows->x.cols();
  }
  const auto cut_value = [&] {
    double sum = program.cut_linear.dot(z) - program.cut_bound;
    for (size_t k = 0; k < terms.size(); ++k) sum += program.terms[k].cut * terms[k].xi.sum();
    return sum;
  };
  const auto complementarity = [&] {
    double sum = (s * lambda).sum() + (program.has_cut ? cut_slack * cut_multiplier : 0.0);
    for (const TermState& t : terms) sum += (t.xi * t.u).sum() + (t.s * t.a).sum();
    return sum;
  };
  double hinge_mean = 0.0;
  for (const TermState& t : terms) hinge_mean += (t.xi * t.u).sum() + (t.s * t.a).sum();
  hinge_mean = std::max(hinge_mean / count, 1e-6);
  for (Index c = 0; c < constraints; ++c) {
    s[c] = std::max(-Value(program.constraints[static_cast<size_t>(c)], z), 1e-3);
    lambda[c] = hinge_mean / s[c];
  }
  if (program.has_cut) cut_slack = std::max(-cut_value(), 0.1);

  std::vector<std::pair<Index, double>> slope;
  double length = 1.0;
  for (int step = 0; step < kMaxSteps; ++step) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(work));
    const double now = complementarity();
    double infeasible = 0.0;
    const double aim = (length < kShort ? kShortCentring : kCentring) * now / count;
    MatrixXd h = MatrixXd::Zero(size, size);
    h.diagonal() = program.weight;
    VectorXd right = -(program.linear + program.weight.cwiseProduct(z - program.center));
    VectorXd cut = VectorXd::Zero(size);
    double cut_curve = 0.0, cut_right = 0.0;
    if (program.has_cut) {
      cut = program.cut_linear;
      right -= cut_multiplier * program.cut_linear;
    }
    for (size_t k = 0; k < terms.size(); ++k) {
      const HingeTerm& term = program.terms[k];
      TermState& t = terms[k];
      t.residual = Shortfall(term, z) - t.xi + t.s;
      infeasible = std::max(infeasible, t.residual.abs().maxCoeff());
      const ArrayXd d1 = t.u / t.xi;
      t.d2 = t.a / t.s;
      t.inverse = 1.0 / (d1 + t.d2);
      t.share = t.d2 * t.inverse;
      t.kappa = aim / t.xi + aim / t.s - (term.cost + cut_multiplier * term.cut) + t.d2 * t.residual;
      AddOuter(term, d1 * t.share, &h);
      VectorXd gradient = VectorXd::Zero(size);
      AddGradient(term, aim / t.s + t.d2 * t.residual - t.share * t.kappa, &gradient);
      right -= gradient;
      if (term.cut == 0.0) continue;
      AddGradient(term, term.cut * t.share, &cut);
      cut_curve += term.cut * term.cut * t.inverse.sum();
      cut_right -= term.cut * (t.kappa * t.inverse).sum();
    }
    for (Index c = 0; c < constraints; ++c) {
      const ProgramConstraint& constraint = program.constraints[static_cast<size_t>(c)];
      const double residual = Value(constraint, z) + s[c], d = lambda[c] / s[c];
      infeasible = std::max(infeasible, std::abs(residual));
      Gradient(constraint, z, &slope);
      for (const auto& [i, x] : slope) {
        right[i] -= x * (aim / s[c] + d * residual);
        for (const auto& [j, y] : slope) {
          if (j <= i) h(i, j) += d * x * y;
        }
      }
      for (Index i = 0; i < constraint.count && constraint.factor > 0.0; ++i) {
        h(constraint.at + i, constraint.at + i) += lambda[c] * constraint.factor;
      }
    }
    if (now <= tolerance && infeasible <= tolerance) break;
    h.diagonal().array() += kShift * (1.0 + h.diagonal().maxCoeff());
    const Eigen::LLT<MatrixXd> factor(h);
    if (factor.info() != Eigen::Success) break;
    VectorXd dz = factor.solve(right);
    double cut_residual = 0.0, cut_change = 0.0;
    if (program.has_cut) {
      cut_residual = cut_value() + cut_slack;
      const double d = cut_multiplier / cut_slack;
      cut_right -= (aim / cut_slack - cut_multiplier) / d + cut_residual;
      const VectorXd across = factor.solve(cut);
      cut_change = (cut.dot(dz) - cut_right) / (cut_curve + 1.0 / d + cut.dot(across));
      dz -= cut_change * across;
    }
    if (!dz.allFinite()) break;
    length = 1.0;
    double cut_along = program.cut_linear.size() > 0 ? program.cut_linear.dot(dz) : 0.0;
    for (size_t k = 0; k < terms.size(); ++k) {
      const HingeTerm& term = program.terms[k];
      TermState& t = terms[k];
      const ArrayXd q = Along(term, dz);
      t.dxi = (t.kappa + t.d2 * q - term.cut * cut_change) * t.inverse;
      t.du = aim / t.xi - t.u - t.u / t.xi * t.dxi;
      t.ds = t.dxi - q - t.residual;
      t.da = aim / t.s - t.a - t.d2 * t.ds;
      cut_along += term.cut * t.dxi.sum();
      length = std::min({length, MostStep(t.xi, t.dxi), MostStep(t.u, t.du), MostStep(t.s, t.ds), MostStep(t.a, t.da)});
    }
    ArrayXd ds(constraints), change(constraints);
    for (Index c = 0; c < constraints; ++c) {
      const ProgramConstraint& constraint = program.constraints[static_cast<size_t>(c)];
      Gradient(constraint, z, &slope);
      double along = 0.0;
      for (const auto& [i, x] : slope) along += x * dz[i];
      ds[c] = -(Value(constraint, z) + s[c]) - along;
      change[c] = aim / s[c] - lambda[c] - lambda[c] / s[c] * ds[c];
    }
    length = std::min({length, MostStep(s, ds), MostStep(lambda, change)});
    double cut_slack_change = 0.0;
    if (program.has_cut) {
      cut_slack_change = -cut_residual - cut_along;
      if (cut_slack_change < 0.0) length = std::min(length, kShareToBoundary * cut_slack / -cut_slack_change);
      if (cut_change < 0.0) length = std::min(length, kShareToBoundary * cut_multiplier / -cut_change);
    }
    z += length * dz;
    for (TermState& t : terms) {
      t.xi += length * t.dxi;
      t.u += length * t.du;
      t.s += length * t.ds;
      t.a += length * t.da;
    }
    s += length * ds;
    lambda += length * change;
    cut_slack += length * cut_slack_change;
    cut_multiplier += length * cut_change;
  }
  HingeSolution out;
  out.z = std::move(z);
  for (TermState& t : terms) out.hinge.push_back(t.a.matrix());
  out.multipliers = lambda.matrix();
  out.cut_multiplier = cut_multiplier;
  return out;
}

}  // namespace luthier::bilevel
