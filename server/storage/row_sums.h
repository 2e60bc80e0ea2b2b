#ifndef LUTHIER_SERVER_STORAGE_ROW_SUMS_H_
#define LUTHIER_SERVER_STORAGE_ROW_SUMS_H_

#include <sqlite3.h>

#include "absl/status/status.h"

// Checksums of rows. The column `sum` of each table has the value of the SQL function row_sum for the table's name and
// all other columns. It does not fit a row under another key, a changed column, or a row of another table. It is
// computed by the statement that writes the row, and again by each that reads it. It finds what a page's checksum
// can't: changes in a WAL that is in use, changes by other programs, and our own mistakes.
namespace luthier::storage {

// Makes row_sum(table, column, …) known to the connection: XXH3 of the values, each with its type and its length.
absl::Status RegisterRowSums(sqlite3* db);

// clang-format off
#define LUTHIER_COUNTER_SUM "row_sum('counter', name, value)"
#define LUTHIER_STUDY_SUM_UNTIL_15                                                                             \
  "row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq, update_seq,"     \
  " resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events)"
#define LUTHIER_STUDY_SUM_OF(id, hidden_id, hidden_time, hidden_uptime)                                         \
  "row_sum('study', key, " id ", state, state_reason, create_time_ns, update_time_ns, create_seq, update_seq,"  \
  " resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events, owner, "     \
  hidden_id ", " hidden_time ", " hidden_uptime ")"
#define LUTHIER_STUDY_SUM LUTHIER_STUDY_SUM_OF("id", "hidden_id", "hidden_time_ns", "hidden_uptime_ns")
#define LUTHIER_FORMER_SPEC_SUM "row_sum('former_spec', study, until_seq, max_trials, spec, back)"
#define LUTHIER_TRIAL_SUM                                                                           \
  "row_sum('trial', study, number, state, value, create_seq, finish_seq, body, resource, training," \
  " removed)"
#define LUTHIER_MEASUREMENT_SUM "row_sum('measurement', study, trial, attempt, step, body)"
#define LUTHIER_EVENT_SUM                                                                                  \
  "row_sum('event', seq, time_ns, study, study_id, trial, attempt, type, actor, detail, value, value_bits," \
  " facts)"
#define LUTHIER_REQUEST_SUM "row_sum('request', id, digest, reply, uptime_ns, typed)"
// clang-format on

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_ROW_SUMS_H_
