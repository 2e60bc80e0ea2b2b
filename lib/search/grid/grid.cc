#include "lib/search/grid/grid.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::search {
namespace {

std::optional<int64_t> Product(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

std::optional<int64_t> Sum(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace

Grid::Grid(study::Encoding encoding, int levels, bool centres)
    : encoding_(std::move(encoding)), levels_(levels), centres_(centres), nodes_(encoding_.space().size()) {
  LUTHIER_CHECK(levels >= 2);
  const study::SearchSpace& space = encoding_.space();
  for (int c = 0; c < encoding_.compact_dim(); ++c) {
    if (!encoding_.Levels(c))
      nodes_[encoding_.compact_parameter(c)].coordinate = encoding_.coordinate_of(encoding_.compact_parameter(c));
  }
  for (int i = 0; i < space.size(); ++i) {
    Node& node = nodes_[i];
    node.levels = node.coordinate < 0 ? *space.Levels(i) : levels;
    node.values = node.levels;
    if (node.coordinate >= 0) {
      for (int element = 1; element < space.parameters()[i].width() && node.values; ++element) {
        node.values = Product(node.values, levels);
      }
    }
    if (space.parent(i) < 0) {
      roots_.push_back(i);
      continue;
    }
    std::vector<int64_t> active_at;
    for (const study::ParameterValue& value : space.parameters()[i].condition->values) {
      active_at.push_back(space.LevelOf(space.parent(i), value));
    }
    std::sort(active_at.begin(), active_at.end());
    active_at.erase(std::unique(active_at.begin(), active_at.end()), active_at.end());
    for (const int64_t level : active_at) nodes_[space.parent(i)].children[level].push_back(i);
  }
  const std::vector<int>& order = space.topological_order();
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    Node& node = nodes_[*i];
    node.count = node.values;
    if (node.count) *node.count -= static_cast<int64_t>(node.children.size());
    for (const auto& [level, children] : node.children) node.count = Sum(node.count, CountAtLevel(children));
  }
  size_ = CountAtLevel(roots_);
}

std::optional<int64_t> Grid::CountAtLevel(const std::vector<int>& children) const {
  std::optional<int64_t> product = 1;
  for (const int child : children) product = Product(product, nodes_[child].count);
  return product;
}

void Grid::SetAll(const std::vector<int>& trees, int64_t index, study::Parameters* values) const {
  for (auto tree = trees.rbegin(); tree != trees.rend(); ++tree) {
    const int64_t count = *nodes_[*tree].count;
    SetTree(*tree, index % count, values);
    index /= count;
  }
}

void Grid::SetTree(int p, int64_t index, study::Parameters* values) const {
  const Node& node = nodes_[p];
  const auto unit = [&](int64_t level) {
    return centres_ ? (static_cast<double>(level) + 0.5) / levels_ : static_cast<double>(level) / (levels_ - 1);
  };
  const auto set = [&](int64_t value) {
    const study::ParameterSpec& parameter = encoding_.space().parameters()[p];
    if (node.coordinate < 0) {
      (*values)[parameter.name] = encoding_.space().LevelValue(p, value);
      return;
    }
    if (!parameter.is_vector()) {
      (*values)[parameter.name] = encoding_.DecodeCoordinate(node.coordinate, unit(value));
      return;
    }
    // The last element's level changes fastest.
    std::vector<double> vector(static_cast<size_t>(parameter.width()));
    for (int element = parameter.width() - 1; element >= 0; --element) {
      vector[static_cast<size_t>(element)] =
          std::get<double>(encoding_.DecodeCoordinate(node.coordinate + element, unit(value % node.levels)));
      value /= node.levels;
    }
    (*values)[parameter.name] = std::move(vector);
  };
  // Settings with values before `next` are counted. A value without children has one setting, one with children
  // CountAtLevel.
  int64_t next = 0;
  for (const auto& [level, children] : node.children) {
    if (index < level - next) break;
    index -= level - next;
    const int64_t count = *CountAtLevel(children);
    if (index < count) {
      set(level);
      SetAll(children, index, values);
      return;
    }
    index -= count;
    next = level + 1;
  }
  set(next + index);
}

study::Parameters Grid::Point(int64_t index) const {
  LUTHIER_CHECK(size_ && index >= 0 && index < *size_);
  study::Parameters values;
  SetAll(roots_, index, &values);
  return values;
}

Shuffle::Shuffle(int64_t size, uint64_t seed) : size_(size), half_bits_(1) {
  LUTHIER_CHECK(size >= 1 && size <= (int64_t{1} << 62));
  while ((int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
  const uint64_t key = base::RandomStream(seed, "grid").NextU64();
  key_[0] = static_cast<uint32_t>(key);
  key_[1] = static_cast<uint32_t>(key >> 32);
}

uint64_t Shuffle::Encrypt(uint64_t block) const {
  constexpr uint32_t kRounds = 4;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = block >> half_bits_;
  uint64_t right = block & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint64_t f = base::Philox4x32({static_cast<uint32_t>(right), round, 0, 0}, {key_[0], key_[1]})[0] & mask;
    left = std::exchange(right, left ^ f);
  }
  return (left << half_bits_) | right;
}

int64_t Shuffle::operator()(int64_t index) const {
  LUTHIER_CHECK(index >= 0 && index < size_);
  // Encrypt permutes a set at most four times as large, so walking its cycle comes back into [0, size) soon.
  auto block = static_cast<uint64_t>(index);
  do {
    block = Encrypt(block);
  } while (block >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(block);
}

}  // namespace luthier::search
