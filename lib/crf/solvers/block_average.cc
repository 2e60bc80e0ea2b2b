#include "lib/crf/solvers/block_average.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {
namespace {

// Limits of a block: sequences, and one in so many of all sequences. SAG has the first two. The other methods have the
// second two, because their iterations also move along one sequence's change alone, which cannot be foreseen.
constexpr int64_t kBlock = 64, kPerBlock = 100;
constexpr int64_t kShortBlock = 8, kPerShortBlock = 800;
constexpr int64_t kMaxTokens = 4096;  // A block ends with the sequence that reaches this number of tokens.
constexpr int64_t kShare = 8;         // A block has at most one in eight of the sequences in d.
constexpr int64_t kFlushPasses = 8;   // S d must not grow far beyond v.
constexpr int64_t kFirstRows = 16;    // Number of rows that are prefetched before the rows of an iteration move.

int64_t BlockSize(const ChainData& data, const AverageGradientOptions& options) {
  if (options.block > 0) return options.block;
  if (options.method == AverageMethod::kSag) return std::clamp<int64_t>(data.sequences() / kPerBlock, 1, kBlock);
  return std::clamp<int64_t>(data.sequences() / kPerShortBlock, 1, kShortBlock);
}

}  // namespace

BlockAverage::Worker::Worker(const ChainData* data, const Kernels& kernels)
    : chain(data->labels(), data->longest(), kernels),
      search(data, kernels),
      edge_marginals(2 * int64_t{data->labels()} * data->shape().stride()) {}

absl::StatusOr<std::unique_ptr<BlockAverage>> BlockAverage::Create(const ChainData* data, double l2,
                                                                   const AverageGradientOptions& options,
                                                                   const Kernels& kernels) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2) && options.threads >= 1 && options.threads <= 256);
  if (options.memory != MemoryMode::kMixed && options.memory != MemoryMode::kMarginals) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory ", MemoryModeNames()[static_cast<size_t>(options.memory)],
                     " is for one thread; with threads > 1 there are mixed and marginals"));
  }
  if (options.shared_constant) return absl::InvalidArgumentError("one constant for all sequences is for one thread");
  if (options.method == AverageMethod::kSaga2Literal || options.step == stochastic::StepRule::kPort ||
      options.search_remembered) {
    return absl::InvalidArgumentError(
        "saga2_literal, step rule port and line searches along remembered gradients, forms to compare with, are for "
        "one thread");
  }
  // The scratch of a chain has five arrays for its tokens; a line search has another chain.
  const int64_t tokens = data->longest() * int64_t{data->shape().stride()} * 8;
  const int64_t scratch = options.threads * 11 * tokens;
  if (scratch > options.max_memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the scratch of ", options.threads, " threads would need ",
                                                     scratch >> 20, " MiB, more than ", options.max_memory_bytes >> 20,
                                                     " MiB: the longest sequence has ", data->longest(), " tokens"));
  }
  LUTHIER_ASSIGN_OR_RETURN(GradientMemory memory,
                           GradientMemory::Create(options.memory, data, kernels, options.max_memory_bytes - scratch));
  return std::unique_ptr<BlockAverage>(new BlockAverage(data, l2, options, kernels, std::move(memory)));
}

BlockAverage::BlockAverage(const ChainData* data, double l2, const AverageGradientOptions& options,
                           const Kernels& kernels, GradientMemory memory)
    : AverageSolver(data, l2, options, kernels, std::move(memory)),
      square_(int64_t{data->labels()} * stride_),
      block_(BlockSize(*data, options)),
      team_(options.threads),
      look_of_(static_cast<size_t>(data->sequences()), -1),
      transitions_(square_),
      zeros_(square_) {
  for (int t = 0; t < options.threads; ++t) workers_.emplace_back(data, kernels);
}

void BlockAverage::DrawBlock() {
  const int64_t size = std::clamp<int64_t>(stored_count_ / kShare, 1, block_);
  int64_t tokens = 0;
  while (static_cast<int64_t>(drawn_.size()) < size && tokens < kMaxTokens) {
    Drawn drawn;
    drawn.draw = sampler_.Next();
    const int64_t i = drawn.draw.index;
    int32_t& mark = look_of_[static_cast<size_t>(i)];
    const bool again = mark >= 0;
    mark = 0;
    drawn.searches = !again && !(options_.skip_checks && search_.Skip(i));
    drawn.start = drawn.searches ? sampler_.StartConstant(drawn.draw) : sampler_.constant(i);
    // Sets the constant until the search has found it, since the next draws and their first constants depend on it.
    if (drawn.draw.first) sampler_.SetConstant(i, drawn.start);
    tokens += data_->length(i);
    if (options_.method == AverageMethod::kSaga2) {
      const auto iteration = static_cast<uint64_t>(iterations_) + drawn_.size() + 1;
      base::RandomStream stream(options_.seed, "stochastic.second", iteration);
      drawn.second = static_cast<int64_t>(stream.UniformInt(static_cast<uint64_t>(data_->sequences())));
      tokens += data_->length(drawn.second);
    }
    drawn_.push_back(drawn);
  }
  for (const Drawn& drawn : drawn_) look_of_[static_cast<size_t>(drawn.draw.index)] = -1;
}

int BlockAverage::AddLook(int64_t i) {
  int32_t& look = look_of_[static_cast<size_t>(i)];
  if (look < 0) {
    look = static_cast<int32_t>(looks_.size());
    looks_.emplace_back().x = data_->At(i);
  }
  return look;
}

void BlockAverage::ClearLooks() {
  for (const Look& look : looks_) look_of_[static_cast<size_t>(look.x.index)] = -1;
  looks_.clear();
}

// Lists the sequences to look at, and places their results.
void BlockAverage::PlaceLooks() {
  ClearLooks();
  // Predicts the weights at each look, if d and the step stay as they are.
  const double step = stochastic::StepSize(options_.step, options_.constant_step, sampler_.max_constant(),
                                           sampler_.mean_constant(), lambda_);
  double beta = state_.beta, progress = state_.progress;
  int64_t stored = stored_count_;
  const auto place = [&](int64_t i) {
    const auto known = looks_.size();
    Look& look = looks_[static_cast<size_t>(AddLook(i))];
    if (looks_.size() > known) {
      look.beta = beta;
      look.now = progress;
    }
    return &look;
  };
  const auto store = [&](int64_t i, size_t known) {
    if (looks_.size() > known && stored_[static_cast<size_t>(i)] == 0) ++stored;
  };
  for (const Drawn& drawn : drawn_) {
    const size_t known = looks_.size();
    Look* look = place(drawn.draw.index);
    if (drawn.searches) {
      look->searches = true;
      look->start = drawn.start;
    }
    if (drawn.second < 0) store(drawn.draw.index, known);
    beta *= 1.0 - step * lambda_;
    if (stored > 0) progress += step / (static_cast<double>(stored) * beta);
    if (drawn.second >= 0) {
      const size_t before = looks_.size();
      place(drawn.second);
      store(drawn.second, before);
    }
  }
  int64_t changes = 0, remembered = 0, entries = 0;
  for (Look& look : looks_) {
    look.tokens_at = changes;
    look.edges_at = changes + look.x.tokens * stride_;
    look.remembered_at = remembered;
    look.entries_at = entries;
    changes = look.edges_at + square_;
    remembered += memory_.Size(look.x.index);
    entries += look.x.token_start[look.x.tokens] - look.x.token_start[0];
  }
  if (changes_.size() < changes) changes_ = AlignedDoubles(changes + changes / 4);
  if (remembered_.size() < static_cast<size_t>(remembered)) remembered_.resize(static_cast<size_t>(remembered));
  if (entry_attribute_.size() < static_cast<size_t>(entries)) {
    entry_attribute_.resize(static_cast<size_t>(entries));
    entry_token_.resize(static_cast<size_t>(entries));
    if (data_->values() != nullptr) entry_value_.resize(static_cast<size_t>(entries));
  }
}

absl::Status BlockAverage::LookAt(Look* look, Worker* worker, const base::StopToken& stop) {
  const Sequence& x = look->x;
  ChainInference& chain = worker->chain;
  memory_.Prefetch(x.index);
  double* w = chain.transitions();
  kernels_->add_scaled(state_.v_transitions.data(), state_.progress - look->now, state_.d_transitions.data(), square_,
                       w);
  for (int64_t k = 0; k < square_; ++k) w[k] *= look->beta;
  chain.Prepare();
  LUTHIER_RETURN_IF_ERROR(chain.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
    kernels_->gather_along(state_.rows.data(), look->now, look->beta, data_->attribute.data(), data_->values(),
                           x.token_start + begin, count, stride_, ahead_, chain.scores() + begin * stride_);
  }));
  LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain.Forward(x.tokens, stop));
  look->loss = log_z - chain.Score(x.label, x.tokens);
  if (!std::isfinite(look->loss)) return absl::OkStatus();
  LUTHIER_RETURN_IF_ERROR(chain.Backward(stop));
  chain.SubtractLabeling(x.label);
  if (look->searches) {
    LUTHIER_ASSIGN_OR_RETURN(look->found,
                             search_.Look(x, look->loss, look->start, {chain.marginals(), chain.edge_sums()}, &chain,
                                          &worker->search, stop));
  }
  memory_.Prepare(x.index, chain.marginals(), chain.edge_sums(), chain,
                  {remembered_.data() + look->remembered_at, changes_.data() + look->tokens_at,
                   changes_.data() + look->edges_at, worker->edge_marginals.data()});
  ListEntries(look);
  return absl::OkStatus();
}

// Lists the sequence's entries by part, in order within each.
void BlockAverage::ListEntries(Look* look) {
  const Sequence& x = look->x;
  const int32_t* attribute = data_->attribute.data();
  int64_t next[kParts + 1] = {};
  for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) ++next[(attribute[e] & (kParts - 1)) + 1];
  for (int part = 0; part < kParts; ++part) next[part + 1] += next[part];
  std::copy_n(next, kParts + 1, look->part_start);
  int32_t* attributes = entry_attribute_.data() + look->entries_at;
  int32_t* tokens = entry_token_.data() + look->entries_at;
  double* values = entry_value_.empty() ? nullptr : entry_value_.data() + look->entries_at;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
      const int64_t place = next[attribute[e] & (kParts - 1)]++;
      attributes[place] = attribute[e];
      tokens[place] = static_cast<int32_t>(t);
      if (values != nullptr) values[place] = data_->value[static_cast<size_t>(e)];
    }
  }
}

// Returns CANCELLED when stopped; the block can then be looked at again.
absl::Status BlockAverage::Evaluate(const base::StopToken& stop) {
  PlaceLooks();
  std::atomic<bool> stopped = false;
  team_.Run(static_cast<int64_t>(looks_.size()), [&](int64_t k, int thread) {
    if (stopped.load(std::memory_order_relaxed)) return;
    if (stop.stop_requested() ||
        !LookAt(&looks_[static_cast<size_t>(k)], &workers_[static_cast<size_t>(thread)], stop).ok()) {
      stopped.store(true, std::memory_order_relaxed);
    }
  });
  return stopped.load(std::memory_order_relaxed) ? base::StoppedError() : absl::OkStatus();
}

// Does the work of AverageGradient::Move except for the changes of v and d.
void BlockAverage::CountIteration(const Drawn& drawn) {
  const int64_t i = drawn.draw.index;
  const int own_look = look_of_[static_cast<size_t>(i)];
  if (drawn.searches) {
    const ConstantSearch::Found& found = looks_[static_cast<size_t>(own_look)].found;
    search_.Record(i, found);
    sampler_.SetConstant(i, found.constant);
  }
  const double l_mean = sampler_.mean_constant();
  const double step =
      stochastic::StepSize(options_.step, options_.constant_step, sampler_.max_constant(), l_mean, lambda_);
  ++iterations_;
  state_.beta *= 1.0 - step * lambda_;
  uint8_t& in_table = in_table_[static_cast<size_t>(own_look)];
  const bool changes = in_table == 0;
  if (options_.method == AverageMethod::kSag) {
    MarkStored(i);
    const double scale = step / (static_cast<double>(stored_count_) * state_.beta);
    if (changes) moves_.push_back({own_look, state_.progress, 1.0});
    turns_.push_back({changes ? own_look : -1, 0.0, scale, true, false});
    state_.progress += scale;
    in_table = 1;
    return;
  }
  const bool second = options_.method == AverageMethod::kSaga2;
  const bool literal = options_.method == AverageMethod::kSagaLiteral;
  const double common = literal ? sampler_.constant(i) / l_mean : 1.0;
  const double own = literal ? common : std::max(drawn.draw.scaled_probability, 0.05);
  if (!second) MarkStored(i);
  const double along = -step / (own * state_.beta);
  const double scale = stored_count_ == 0 ? 0.0 : step / (common * static_cast<double>(stored_count_) * state_.beta);
  state_.progress += scale;
  if (changes) moves_.push_back({own_look, second ? along : along + state_.progress, second ? 0.0 : 1.0});
  turns_.push_back({changes ? own_look : -1, along, scale, false, !second});
  if (!second) {
    in_table = 1;
    return;
  }
  const int other_look = look_of_[static_cast<size_t>(drawn.second)];
  uint8_t& other_in_table = in_table_[static_cast<size_t>(other_look)];
  if (other_in_table == 0) {
    moves_.push_back({other_look, state_.progress, 1.0});
    turns_.push_back({other_look, 0.0, 0.0, false, true});
  }
  other_in_table = 1;
  MarkStored(drawn.second);
}

void BlockAverage::Count() {
  moves_.clear();
  turns_.clear();
  in_table_.assign(looks_.size(), 0);
  evaluations_ += static_cast<int64_t>(looks_.size());
  for (const Drawn& drawn : drawn_) CountIteration(drawn);
}

void BlockAverage::MovePart(int part) {
  double* rows = state_.rows.data();
  for (size_t m = 0; m < moves_.size(); ++m) {
    if (m + 1 < moves_.size() && ahead_ < int64_t{1} << 20) {
      const Look& next = looks_[static_cast<size_t>(moves_[m + 1].look)];
      const int64_t begin = next.entries_at + next.part_start[part];
      const int64_t end = std::min(next.entries_at + next.part_start[part + 1], begin + kFirstRows);
      for (int64_t e = begin; e < end; ++e) {
        const double* row = rows + int64_t{2} * entry_attribute_[static_cast<size_t>(e)] * stride_;
        for (int k = 0; k < 2 * stride_; k += 8) __builtin_prefetch(row + k, 1);
      }
    }
    const Move& move = moves_[m];
    const Look& look = looks_[static_cast<size_t>(move.look)];
    const int64_t begin = look.entries_at + look.part_start[part];
    kernels_->move_rows(rows, move.along, move.keep, entry_attribute_.data() + begin,
                        entry_value_.empty() ? nullptr : entry_value_.data() + begin, entry_token_.data() + begin,
                        look.part_start[part + 1] - look.part_start[part], stride_, ahead_,
                        changes_.data() + look.tokens_at);
  }
}

void BlockAverage::MoveTransitions() {
  double* v = state_.v_transitions.data();
  double* d = state_.d_transitions.data();
  for (const Turn& turn : turns_) {
    const double* change =
        turn.look < 0 ? zeros_.data() : changes_.data() + looks_[static_cast<size_t>(turn.look)].edges_at;
    if (turn.along != 0.0) kernels_->add_scaled(v, turn.along, change, square_, v);
    kernels_->follow(turn.before ? change : zeros_.data(), turn.scale, state_.beta, square_, d, v, transitions_.data());
    if (turn.after) kernels_->add_scaled(d, 1.0, change, square_, d);
  }
}

void BlockAverage::MoveAll() {
  team_.Run(kParts + 2, [&](int64_t task, int) {
    if (task < kParts) {
      MovePart(static_cast<int>(task));
    } else if (task == kParts) {
      MoveTransitions();
    } else {
      for (size_t k = 0; k < looks_.size(); ++k) {
        if (in_table_[k] != 0) memory_.Remember(looks_[k].x.index, remembered_.data() + looks_[k].remembered_at);
      }
    }
  });
}

absl::StatusOr<SolverState> BlockAverage::Advance(int64_t iterations, const base::StopToken& stop) {
  const int64_t end = iterations_ + iterations;
  while (iterations_ < end) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    if (drawn_.empty()) DrawBlock();
    LUTHIER_RETURN_IF_ERROR(Evaluate(stop));
    for (const Look& look : looks_) {
      if (!std::isfinite(look.loss)) return SolverState::kDiverged;
    }
    const int64_t before = iterations_;
    Count();
    MoveAll();
    ClearLooks();
    drawn_.clear();
    const int64_t flush_every = kFlushPasses * data_->sequences();
    if (state_.beta < LazyAverage::kMinBeta || before / flush_every != iterations_ / flush_every) state_.Flush();
  }
  return SolverState::kRunning;
}

void BlockAverage::Save(base::CheckpointWriter* writer) const {
  AverageSolver::Save(writer);
  // A stop may have come after the draws of a block.
  writer->U64(drawn_.size());
  for (const Drawn& drawn : drawn_) {
    writer->U64(static_cast<uint64_t>(drawn.draw.index));
    writer->F64(drawn.draw.scaled_probability);
    writer->F64(drawn.start);
    writer->U64((drawn.draw.first ? 2U : 0U) + (drawn.searches ? 1U : 0U));
    writer->U64(static_cast<uint64_t>(drawn.second + 1));
  }
}

bool BlockAverage::Load(base::CheckpointReader* reader) {
  bool fits = AverageSolver::Load(reader);
  const uint64_t count = reader->U64();
  const auto n = static_cast<uint64_t>(data_->sequences());
  fits = fits && reader->ok() && count <= static_cast<uint64_t>(block_);
  ClearLooks();
  drawn_.clear();
  for (uint64_t k = 0; fits && k < count; ++k) {
    Drawn drawn;
    const uint64_t index = reader->U64();
    drawn.draw.scaled_probability = reader->F64();
    drawn.start = reader->F64();
    const uint64_t flags = reader->U64();
    const uint64_t second = reader->U64();
    fits = reader->ok() && index < n && flags < 4 && second <= n &&
           (second > 0) == (options_.method == AverageMethod::kSaga2);
    drawn.draw.index = static_cast<int64_t>(index);
    drawn.draw.first = (flags & 2) != 0;
    drawn.searches = (flags & 1) != 0;
    drawn.second = static_cast<int64_t>(second) - 1;
    drawn_.push_back(drawn);
  }
  return fits && reader->ok();
}

}  // namespace luthier::crf
