-- Version 13. Each row has a checksum of all its other columns (server/storage/row_sums.h), each page one at its end
-- (page_sums.h; the file is brought into that shape before this), and each study says how many rows others have of it.
-- Programs of older versions would write neither.
ALTER TABLE counter ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE counter SET sum = row_sum('counter', name, value);

-- The largest number of its trials, which have no hole, and how many events it has.
ALTER TABLE study ADD COLUMN newest_trial INTEGER NOT NULL DEFAULT 0 CHECK (newest_trial >= 0);
ALTER TABLE study ADD COLUMN events INTEGER NOT NULL DEFAULT 0 CHECK (events >= 0);
ALTER TABLE study ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE study SET
  newest_trial = coalesce((SELECT max(number) FROM trial WHERE trial.study = study.key), 0),
  events = (SELECT count(*) FROM event WHERE event.study = study.key);
UPDATE study SET sum = row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq,
  update_seq, resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events);

ALTER TABLE former_spec ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE former_spec SET sum = row_sum('former_spec', study, until_seq, max_trials, spec, back);

ALTER TABLE trial ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE trial SET sum = row_sum('trial', study, number, state, value, create_seq, finish_seq, body, resource, training,
  removed);

ALTER TABLE measurement ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE measurement SET sum = row_sum('measurement', study, trial, attempt, step, body);

ALTER TABLE event ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE event SET sum = row_sum('event', seq, time_ns, study, study_id, trial, attempt, type, actor, detail, value,
  value_bits, facts);

ALTER TABLE request ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE request SET sum = row_sum('request', id, digest, reply, uptime_ns, typed);

PRAGMA user_version = 13;
