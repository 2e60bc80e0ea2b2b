#ifndef LUTHIER_LIB_IMPORTANCE_FOREST_H_
#define LUTHIER_LIB_IMPORTANCE_FOREST_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"

// Regression trees on columns of at most 64 cells each, and the averages of their predictions over parts of the cube.
namespace luthier::importance {

inline constexpr int kMaxCells = 64;

// A column is [0, 1] cut into cells.
struct CellColumn {
  std::vector<double> volume;  // Volume of each cell; sum 1. At most kMaxCells.
  bool ordered = true;         // Otherwise a split may part the cells in any way.
};

// Cells of a column, bit b for cell b.
using Cells = uint64_t;

struct Leaf {
  std::vector<Cells> box;      // By column.
  std::vector<double> widths;  // The volume of each column's cells.
  double value = 0.0;
  double volume = 1.0;  // The product of the widths.
};

// A least-squares regression tree (CART). Splits of unordered columns part the cells by their mean values, which is
// optimal (Fisher 1958). The leaves' boxes part the cube.
class Tree {
 public:
  // cells: the cell of each of n rows in each column, column after column: row i's in column j is cells[j n + i]. rows:
  // the rows to learn from, which may repeat. A node is split while it has 2 min_leaf rows and values differ; each
  // split tries `tries` random columns.
  Tree(const std::vector<CellColumn>& columns, const std::vector<uint8_t>& cells, const std::vector<double>& y,
       const std::vector<int>& rows, int min_leaf, int tries, base::RandomStream& random);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  // Returns the prediction for a point given by its d cells.
  double Predict(const uint8_t* cells) const;

 private:
  struct Node {
    int column = -1;  // -1: a leaf, `left` is its index.
    Cells left_cells = 0;
    int left = -1, right = -1;
  };
  struct Split {
    double gain = 0.0;
    int column = -1;
    Cells left = 0;
  };
  struct Pending {
    int node;
    size_t begin, end;
    std::vector<Cells> box;
    std::vector<double> widths;
  };
  // A row and its number of repetitions.
  struct Sample {
    double y;
    int row;
    int weight;
  };

  // Finds the best split of the samples from begin to end, whose weights sum to `total` and whose values to `sum`.
  Split BestSplit(size_t begin, size_t end, const std::vector<Cells>& box, int column, double total, double sum,
                  int min_leaf) const;

  const std::vector<CellColumn>& columns_;
  const std::vector<uint8_t>& cells_;
  const size_t n_;
  std::vector<Sample> samples_;  // Used while the tree grows: the samples of a node are adjacent, in order of row.
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
};

// Adds the tree's E[f | column = cell] for each cell to `marginal`.
void AddMarginal(const Tree& tree, int column, Eigen::VectorXd* marginal);
// Adds E[f | i = row, j = column] to `marginal`.
void AddMarginal(const Tree& tree, int i, int j, Eigen::MatrixXd* marginal);

}  // namespace luthier::importance

#endif  // LUTHIER_LIB_IMPORTANCE_FOREST_H_
