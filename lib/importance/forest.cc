#include "lib/importance/forest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "lib/base/check.h"

namespace luthier::importance {

using Eigen::Index;

namespace {

Cells AllCells(const CellColumn& column) {
  return column.volume.size() == kMaxCells ? ~Cells{0} : (Cells{1} << column.volume.size()) - 1;
}

Cells Bit(size_t cell) {
  return Cells{1} << cell;
}

double Volume(const CellColumn& column, Cells cells) {
  double sum = 0.0;
  for (; cells != 0; cells &= cells - 1) sum += column.volume[static_cast<size_t>(std::countr_zero(cells))];
  return sum;
}

// Calls f(first, last + 1) for each run of neighbouring cells.
template <typename F>
void ForRuns(Cells cells, F&& f) {
  int from = 0;
  while (cells != 0) {
    const int skip = std::countr_zero(cells);
    from += skip;
    cells >>= skip;
    const int length = std::countr_one(cells);
    f(from, from + length);
    if (length == kMaxCells) return;
    from += length;
    cells >>= length;
  }
}

}  // namespace

Tree::Tree(const std::vector<CellColumn>& columns, const std::vector<uint8_t>& cells, const std::vector<double>& y,
           const std::vector<int>& rows, int min_leaf, int tries, base::RandomStream& random)
    : columns_(columns), cells_(cells), n_(y.size()) {
  LUTHIER_CHECK(!rows.empty());
  const size_t d = columns.size();
  std::vector<int> weights(n_, 0);
  for (const int row : rows) ++weights[static_cast<size_t>(row)];
  for (size_t row = 0; row < n_; ++row) {
    if (weights[row] > 0) samples_.push_back({y[row], static_cast<int>(row), weights[row]});
  }
  Pending whole{0, 0, samples_.size(), {}, {}};
  for (const CellColumn& column : columns) {
    whole.box.push_back(AllCells(column));
    whole.widths.push_back(Volume(column, whole.box.back()));
  }
  std::vector<int> order(d);
  for (size_t j = 0; j < d; ++j) order[j] = static_cast<int>(j);
  nodes_.emplace_back();
  std::vector<Pending> stack = {std::move(whole)};
  while (!stack.empty()) {
    Pending part = std::move(stack.back());
    stack.pop_back();
    double total = 0.0, sum = 0.0, low = samples_[part.begin].y, high = low;
    for (size_t r = part.begin; r < part.end; ++r) {
      const Sample& sample = samples_[r];
      total += sample.weight;
      sum += sample.y * sample.weight;
      low = std::min(low, sample.y);
      high = std::max(high, sample.y);
    }
    Split best;
    if (low < high && total >= 2 * min_leaf) {
      // Tries the first `tries` columns of a random order, and more while none of them can be split.
      for (size_t k = 0; k < d && (k < static_cast<size_t>(tries) || best.column < 0); ++k) {
        std::swap(order[k], order[k + random.UniformInt(d - k)]);
        const Split split = BestSplit(part.begin, part.end, part.box, order[k], total, sum, min_leaf);
        if (split.column >= 0 && split.gain > best.gain) best = split;
      }
    }
    Node& node = nodes_[static_cast<size_t>(part.node)];
    if (best.column < 0) {
      node.left = static_cast<int>(leaves_.size());
      Leaf leaf{std::move(part.box), std::move(part.widths), sum / total, 1.0};
      for (const double width : leaf.widths) leaf.volume *= width;
      leaves_.push_back(std::move(leaf));
      continue;
    }
    const auto column = static_cast<size_t>(best.column);
    const auto goes_left = [&](const Sample& sample) {
      return (best.left & Bit(cells[column * n_ + static_cast<size_t>(sample.row)])) != 0;
    };
    const auto begin = samples_.begin() + static_cast<std::ptrdiff_t>(part.begin);
    const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(part.end);
    const auto middle = static_cast<size_t>(std::stable_partition(begin, end, goes_left) - samples_.begin());
    const int left = static_cast<int>(nodes_.size());
    node = {best.column, best.left, left, left + 1};
    nodes_.resize(nodes_.size() + 2);
    Pending right{left + 1, middle, part.end, part.box, part.widths};
    right.box[column] &= ~best.left;
    right.widths[column] = Volume(columns[column], right.box[column]);
    part.box[column] &= best.left;
    part.widths[column] = Volume(columns[column], part.box[column]);
    stack.push_back(std::move(right));
    stack.push_back({left, part.begin, middle, std::move(part.box), std::move(part.widths)});
  }
  samples_.clear();
}

Tree::Split Tree::BestSplit(size_t begin, size_t end, const std::vector<Cells>& box, int column, double total,
                            double sum, int min_leaf) const {
  const auto j = static_cast<size_t>(column);
  const uint8_t* cell_of = cells_.data() + j * n_;
  std::array<double, kMaxCells> sums{};
  std::array<int, kMaxCells> counts{};
  for (size_t r = begin; r < end; ++r) {
    const Sample& sample = samples_[r];
    const uint8_t cell = cell_of[sample.row];
    sums[cell] += sample.y * sample.weight;
    counts[cell] += sample.weight;
  }
  // Cells of the box in the order in which they may be parted. Cells without rows have the mean of all.
  std::array<uint8_t, kMaxCells> cells;
  size_t n = 0;
  for (size_t cell = 0; cell < columns_[j].volume.size(); ++cell) {
    if ((box[j] & Bit(cell)) != 0) cells[n++] = static_cast<uint8_t>(cell);
  }
  const double mean = sum / total;
  if (!columns_[j].ordered) {
    const auto mean_of = [&](uint8_t cell) { return counts[cell] > 0 ? sums[cell] / counts[cell] : mean; };
    std::stable_sort(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(n),
                     [&](uint8_t a, uint8_t b) { return mean_of(a) < mean_of(b); });
  }
  Split best;
  size_t best_from = 0, best_to = 0;  // Range of cuts of the same gain: the cuts between neighbouring cells with rows.
  double left_sum = 0.0, left_count = 0.0;
  for (size_t k = 0; k + 1 < n; ++k) {
    left_sum += sums[cells[k]];
    left_count += counts[cells[k]];
    if (counts[cells[k]] == 0) {
      if (best.column >= 0 && best_to == k) best_to = k + 1;
      continue;
    }
    if (left_count < min_leaf) continue;
    if (total - left_count < min_leaf) break;
    const double right_sum = sum - left_sum;
    const double gain = left_sum * left_sum / left_count + right_sum * right_sum / (total - left_count) - sum * mean;
    if (best.column < 0 || gain > best.gain) {
      best.gain = gain;
      best.column = column;
      best_from = k;
      best_to = k + 1;
    }
  }
  if (best.column < 0) return best;
  const size_t cut = best_from + (best_to - best_from) / 2;  // The cut lies in the middle of the cells without rows.
  for (size_t k = 0; k <= cut; ++k) best.left |= Bit(cells[k]);
  return best;
}

double Tree::Predict(const uint8_t* cells) const {
  const Node* node = nodes_.data();
  while (node->column >= 0) {
    const bool left = (node->left_cells & Bit(cells[node->column])) != 0;
    node = &nodes_[static_cast<size_t>(left ? node->left : node->right)];
  }
  return leaves_[static_cast<size_t>(node->left)].value;
}

void AddMarginal(const Tree& tree, int column, Eigen::VectorXd* marginal) {
  const auto j = static_cast<size_t>(column);
  // Differences from one cell to the next.
  Eigen::VectorXd change = Eigen::VectorXd::Zero(marginal->size() + 1);
  for (const Leaf& leaf : tree.leaves()) {
    const double part = leaf.value * leaf.volume / leaf.widths[j];
    ForRuns(leaf.box[j], [&](int from, int to) {
      change(from) += part;
      change(to) -= part;
    });
  }
  double sum = 0.0;
  for (Index b = 0; b < marginal->size(); ++b) (*marginal)(b) += (sum += change(b));
}

void AddMarginal(const Tree& tree, int i, int j, Eigen::MatrixXd* marginal) {
  const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
  Eigen::MatrixXd change = Eigen::MatrixXd::Zero(marginal->rows() + 1, marginal->cols() + 1);
  for (const Leaf& leaf : tree.leaves()) {
    const double part = leaf.value * leaf.volume / (leaf.widths[a] * leaf.widths[b]);
    ForRuns(leaf.box[a], [&](int top, int bottom) {
      ForRuns(leaf.box[b], [&](int left, int right) {
        change(top, left) += part;
        change(bottom, left) -= part;
        change(top, right) -= part;
        change(bottom, right) += part;
      });
    });
  }
  for (Index r = 1; r < change.rows(); ++r) change.row(r) += change.row(r - 1);
  for (Index c = 1; c < change.cols(); ++c) change.col(c) += change.col(c - 1);
  *marginal += change.topLeftCorner(marginal->rows(), marginal->cols());
}

}  // namespace luthier::importance
