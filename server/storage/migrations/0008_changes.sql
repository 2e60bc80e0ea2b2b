-- Version 8. Specs of studies may change, trials may be imported, retried and deleted. Programs of older versions would
-- not know the events, and would count trials that are gone.

-- By how much imports and retries raised budget.max_trials above what the user asked for.
ALTER TABLE study ADD COLUMN added_trials INTEGER NOT NULL DEFAULT 0 CHECK (added_trials >= 0);
-- Of the spec that the study was created with, to know it again; empty in older ones, whose spec never changed before.
ALTER TABLE study ADD COLUMN created_digest TEXT NOT NULL DEFAULT '';

-- 0: no. 1: another trial has taken its place. 2: deleted by a user. The column value is NULL then.
ALTER TABLE trial ADD COLUMN removed INTEGER NOT NULL DEFAULT 0 CHECK (removed BETWEEN 0 AND 2);
CREATE INDEX trial_removed ON trial (study, removed, state) WHERE removed > 0;

-- What designers went by before the event until_seq changed it. Without a spec: that which follows, but for max_trials.
CREATE TABLE former_spec (
  study INTEGER NOT NULL REFERENCES study (key) ON DELETE CASCADE,
  until_seq INTEGER NOT NULL CHECK (until_seq >= 1),
  max_trials INTEGER NOT NULL,
  spec BLOB,
  PRIMARY KEY (study, until_seq)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 8;
