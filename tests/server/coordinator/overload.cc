#include "tests/server/coordinator/overload.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "server/storage/memory_storage.h"
#include "tests/server/coordinator/future.h"
#include "tests/server/coordinator/harness.h"
#include "tests/testing/forwarding_storage.h"

namespace luthier::coordinator::testing {
namespace {

// The writer stands inside a commit, and nothing else waits.
class Busy {
 public:
  explicit Busy(Coordinator::Options options)
      : coordinator_(Coordinator::Start(&gate_, &clock_, std::move(options)).value()) {
    LUTHIER_CHECK(Send<StudyReply>(*coordinator_, CreateStudyOp{"s", MakeSpec(), "user", {}}).Wait().ok());
    gate_.Close();
    held_ = Send<StudyReply>(*coordinator_, ControlOp{"s", Control::kPause, "", "user", {}});
    gate_.AwaitCommit();
  }
  ~Busy() { gate_.Open(); }

  // How many copies of `op` are taken before one is refused, of at most `tries`.
  template <typename Reply, typename Op>
  size_t Taken(const Op& op, size_t tries) {
    for (size_t n = 0; n < tries; ++n) {
      Future<Reply> answer = Send<Reply>(*coordinator_, op);
      if (!answer.ready()) continue;
      LUTHIER_CHECK(base::GetReason(answer.Wait().status()) == base::reason::kQueueFull);
      return n;
    }
    return tries;
  }

 private:
  base::ManualClock clock_;
  storage::MemoryStorage memory_;
  luthier::testing::GatedStorage gate_{&memory_};
  Future<StudyReply> held_;
  std::unique_ptr<Coordinator> coordinator_;
};

std::string Compare(const char* what, size_t taken, size_t least, size_t most) {
  if (taken >= least && taken <= most) return "";
  return absl::StrCat(taken, " ", what, " were taken, not ", least, " to ", most, "\n");
}

}  // namespace

std::string Overload(Coordinator::Options options) {
  options.tick = absl::Milliseconds(1);
  const ControlOp ask{"s", Control::kResume, "", "user", {}};
  FinishOp result;
  result.id = std::string(1, 's');
  result.number = 1;
  result.token = std::string(16, 'x');
  result.content = ReleaseContent{};
  std::string wrong;
  {
    Busy busy(options);
    const size_t asks = busy.Taken<StudyReply>(ask, options.max_ask_ops + 100);
    wrong += Compare("small requests", asks, options.max_ask_ops, options.max_ask_ops);
    // Those do not keep results out.
    const size_t results = busy.Taken<FinishReply>(result, options.max_finish_ops + 100);
    wrong += Compare("small results", results, options.max_finish_ops, options.max_finish_ops);
  }
  // A megabyte each, in what takes most: gradients, and the values of enqueued trials.
  constexpr size_t kLarge = size_t{1} << 20;
  const size_t most = options.max_queued_bytes / kLarge;
  EnqueueOp enqueue{"s", {NewTrial{{{"x", std::string(kLarge, 'x')}}, {}}}, "", "user", {}};
  CompleteContent content{Loss(1), false, ""};
  content.measurement.gradient.emplace().values.assign(kLarge / sizeof(double), 1.0);
  result.content = content;
  {
    Busy busy(options);
    wrong += Compare("large requests", busy.Taken<EnqueueReply>(enqueue, most + 10), most - 1, most);
    wrong += Compare("large results", busy.Taken<FinishReply>(result, most + 10), most - 1, most);
  }
  return wrong;
}

}  // namespace luthier::coordinator::testing
