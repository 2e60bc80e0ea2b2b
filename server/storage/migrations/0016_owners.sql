-- Version 16. Studies have owners, and deleted ones are hidden for some days: the id of a hidden one is "~" and its key, and
-- hidden_id what it was. Programs of older versions would erase those. Owners of studies from before are the names of the
-- tokens in the events of their creation. Rows whose checksum does not fit keep one that does not.
ALTER TABLE study ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE study ADD COLUMN hidden_id TEXT NOT NULL DEFAULT '';
ALTER TABLE study ADD COLUMN hidden_time_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE study ADD COLUMN hidden_uptime_ns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX study_hidden ON study (key) WHERE hidden_id <> '';

-- Actors are "NAME@ADDRESS", and an address alone where no token was needed.
UPDATE study SET owner = coalesce((SELECT substr(actor, 1, instr(actor, '@') - 1) FROM event
    WHERE seq = study.create_seq AND study = study.key AND type = 1
      AND instr(actor, '@') > 1 AND instr(substr(actor, 1, instr(actor, '@')), ':') = 0), '')
  WHERE sum = row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq, update_seq,
    resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events);
UPDATE study SET sum = row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq,
    update_seq, resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events, owner,
    hidden_id, hidden_time_ns, hidden_uptime_ns)
  WHERE sum = row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq, update_seq,
    resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, newest_trial, events);

PRAGMA user_version = 16;
