#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_WALKER_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_WALKER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/permit.h"
#include "lib/base/stop_token.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/naive_model.h"
#include "tests/server/coordinator/random_walk.h"

namespace luthier::coordinator::testing {

// One walk: a fresh core and a fresh naive model that take the same steps. Not for threads.
class Walker {
 public:
  Walker(const WalkOptions& options, WalkStats* stats);

  std::optional<WalkFailure> Run(const std::vector<Step>& steps);

 private:
  struct Known {
    std::string study;
    int64_t number = 0;
    std::string token;
    std::string worker;
  };

  // A caller's token. It ends for good when it is revoked, and by the wall clock alone when it expires.
  struct Token final : base::Permit {
    bool revoked = false;
    absl::Time expire = absl::InfiniteFuture();
    absl::Status Check(absl::Time now) const override;
  };

  static Core::Options CoreOptions();
  static NaiveModel::Options ModelOptions(bool late);

  void Fail(const std::string& what);

  // --- Choosing ---

  std::string StudyId(uint32_t r) const;
  std::string Worker(uint32_t r) const;

  // Mostly the newest token of a running trial; else any earlier one; else nonsense.
  Known Holder(uint32_t how, uint32_t which);

  std::string RequestId(uint32_t r);
  // Whether the coordinator must know the request if it answered it: it did less than the lifetime of requests ago, or
  // granted a trial that is open under its token.
  bool MustBeKnown(const std::string& request_id) const;
  // Sees to it that every answer to a request is the first one, to the last field.
  template <typename Reply>
  Done<Reply> AsBefore(const std::string& request_id, Done<Reply> done);
  // Operations with a request id, which may be sent again as they were.
  void Send(ControlOp op);
  void Send(EnqueueOp op);
  void Send(UpdateStudyOp op);
  void Send(ImportOp op);
  void Send(RetryOp op);
  void Send(SuggestOp op, int index);
  template <typename Op>
  void Remember(const Op& op);
  // False: that one may have been forgotten meanwhile.
  bool SendAgain(uint32_t which, int index);
  // Between any two steps somebody may set the clock.
  void SetWallClock(uint32_t r);

  study::Measurement Point(uint32_t r);

  // --- Steps ---

  void Take(const Step& step, int index);

  void FlushBatch();

  void Heartbeat(const std::array<uint32_t, 6>& r);

  // What an operation's reply must be: given once, and what the model says.
  template <typename Reply>
  Done<Reply> Check(std::string name, Expected expected);
  void Compare(const std::string& name, const Expected& e, const StudyReply& reply);
  void Compare(const std::string& name, const Expected& e, const EnqueueReply& reply);
  void Compare(const std::string& name, const Expected& e, const ImportReply& reply);
  void Compare(const std::string& name, const Expected& e, const TrialReply& reply);
  void Compare(const std::string& name, const Expected& e, const ReportReply& reply);
  void Compare(const std::string& name, const Expected& e, const FinishReply& reply);
  void Compare(const std::string& name, const Expected& e, const SuggestReply& reply);

  // Asks of a study that is not there, or that is over, would mostly be wasted: some become its creation or its end.
  Step Useful(Step step) const;

  void Plan(const Step& planned, int index);

  // Revokes a token, lets it expire soon, or gives its holder a new one.
  void ChangeToken(const std::array<uint32_t, 6>& r);
  // Whose operations follow.
  void ComeFrom(uint32_t caller);
  // What the model says, or the refusal of a caller whose token has ended: then nothing happens to the model.
  template <typename F>
  Expected Judged(F&& judge) const;
  void Push(Operation operation);

  void PlanSuggest(const std::array<uint32_t, 6>& r, int index);

  void Asked(const std::string& name, int handle, absl::StatusOr<SuggestReply> reply);

  // --- Running ---

  void Begin() { model_.BeginBatch(harness_.clock.Monotonic(), harness_.clock.Wall(), armed_); }

  void RunBatch();

  void Commit();

  bool InParts(const std::string& id) const;

  // When a designer has nothing more to ask for is its own affair; the model is told, and says whether it may be.
  void NoteExhausted();

  void NoteEvents(const std::vector<storage::Event>& events);

  void CheckEvents();

  // Rows in storage against the model; key 0: all studies, and the core's own recount.
  void CheckRows(storage::StudyKey only);

  void CheckRow(storage::StudyKey key, const std::string& study, const storage::TrialRecord& row,
                const NaiveModel::Study& s);

  void CheckReplay();

  const bool late_;
  WalkStats* const stats_;
  Harness harness_;
  NaiveModel model_;
  std::string failure_;

  std::vector<std::pair<Step, int>> planned_;
  std::vector<std::shared_ptr<Token>> callers_;
  std::shared_ptr<const base::Permit> permit_;  // Of whose operations follow.
  std::vector<Operation> operations_;
  Harness::Permits permits_;  // For each of them.
  std::vector<std::shared_ptr<int>> pending_answers_;
  bool armed_ = false;
  bool commit_failed_now_ = false;
  std::vector<int> answered_now_;
  std::vector<std::tuple<std::string, int64_t, int32_t>> granted_now_;
  std::vector<storage::Event> events_now_;

  std::vector<Known> tokens_;
  std::set<std::string> known_tokens_;
  std::vector<std::string> request_ids_;
  // The first answer to a request.
  struct FirstAnswer {
    std::string text;
    absl::Duration at;
    std::vector<Known> granted;
  };
  std::map<std::string, FirstAnswer> first_answers_;  // By request id.
  std::deque<Operation> sent_;
  absl::Duration wall_offset_ = absl::ZeroDuration();
  std::vector<base::StopSource> gone_;
  std::set<std::pair<storage::StudyKey, int64_t>> set_aside_;
  std::set<int> expect_replaced_;
  std::set<int> answered_;
  std::map<std::pair<storage::StudyKey, int64_t>, storage::TrialRecord> finals_;
  uint64_t last_fence_ = 0;
  uint64_t last_seq_ = 0;
};

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_WALKER_H_
