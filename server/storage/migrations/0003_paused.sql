-- Version 3. Trials may be PAUSED, and how much of the study's resource they took is summed up. A column's check cannot be
-- changed: the table is made anew.
CREATE TABLE trial_3 (
  study INTEGER NOT NULL REFERENCES study (key) ON DELETE CASCADE,
  number INTEGER NOT NULL CHECK (number >= 1),
  state TEXT NOT NULL
    CHECK (state IN ('PENDING', 'RUNNING', 'COMPLETE', 'PRUNED', 'FAILED', 'CANCELLED', 'PAUSED')),
  -- Final value of the study's metric: finite or absent, and only in COMPLETE. -0.0 is stored as 0.0; the body has it exactly.
  value REAL CHECK (value IS NULL OR (state = 'COMPLETE' AND abs(value) <= 1.7976931348623157e308)),
  create_seq INTEGER NOT NULL CHECK (create_seq >= 0),
  finish_seq INTEGER NOT NULL CHECK (finish_seq >= 0),
  -- Units of the study's resource that all attempts together were trained for.
  resource INTEGER NOT NULL DEFAULT 0 CHECK (resource >= 0),
  body BLOB NOT NULL,
  UNIQUE (study, number)
) STRICT;
INSERT INTO trial_3 (study, number, state, value, create_seq, finish_seq, body)
  SELECT study, number, state, value, create_seq, finish_seq, body FROM trial ORDER BY rowid;
DROP TABLE trial;
ALTER TABLE trial_3 RENAME TO trial;
CREATE INDEX trial_by_state ON trial (study, state, number);
CREATE INDEX trial_by_value ON trial (study, value, number) WHERE value IS NOT NULL;
CREATE INDEX trial_by_resource ON trial (study, resource) WHERE resource > 0;

PRAGMA user_version = 3;
