-- Version 1. Times are nanoseconds since 1970 UTC (the least and the largest integer: infinite past and future). Bodies are
-- messages of proto/luthier/storage/record.proto, specs of proto/luthier/v1/study.proto.
PRAGMA application_id = 0x4C555448;  -- "LUTH"

-- Numbers that outlive the rows they came from.
CREATE TABLE counter (
  name TEXT PRIMARY KEY CHECK (name IN ('fence', 'study_key')),
  value INTEGER NOT NULL CHECK (value >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES ('fence', 0), ('study_key', 0);

CREATE TABLE study (
  key INTEGER PRIMARY KEY CHECK (key >= 1),
  id TEXT NOT NULL UNIQUE CHECK (id <> ''),
  state TEXT NOT NULL CHECK (state IN ('ACTIVE', 'PAUSED', 'STOPPED', 'CANCELLED', 'COMPLETED')),
  state_reason TEXT NOT NULL,
  create_time_ns INTEGER NOT NULL,
  update_time_ns INTEGER NOT NULL,
  create_seq INTEGER NOT NULL CHECK (create_seq >= 0),
  update_seq INTEGER NOT NULL CHECK (update_seq >= 0),
  resume_seq INTEGER NOT NULL CHECK (resume_seq >= 0),
  spec BLOB NOT NULL
) STRICT;

CREATE TABLE trial (
  study INTEGER NOT NULL REFERENCES study (key) ON DELETE CASCADE,
  number INTEGER NOT NULL CHECK (number >= 1),
  state TEXT NOT NULL CHECK (state IN ('PENDING', 'RUNNING', 'COMPLETE', 'PRUNED', 'FAILED', 'CANCELLED')),
  -- Final value of the study's metric: finite or absent, and only in COMPLETE. -0.0 is stored as 0.0; the body has it exactly.
  value REAL CHECK (value IS NULL OR (state = 'COMPLETE' AND abs(value) <= 1.7976931348623157e308)),
  create_seq INTEGER NOT NULL CHECK (create_seq >= 0),
  finish_seq INTEGER NOT NULL CHECK (finish_seq >= 0),
  body BLOB NOT NULL,
  UNIQUE (study, number)
) STRICT;
CREATE INDEX trial_by_state ON trial (study, state, number);
CREATE INDEX trial_by_value ON trial (study, value, number) WHERE value IS NOT NULL;

-- Points of learning curves.
CREATE TABLE measurement (
  study INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  step INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (study, trial, attempt, step),
  FOREIGN KEY (study, trial) REFERENCES trial (study, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The log. Rows outlive their studies and never change.
CREATE TABLE event (
  seq INTEGER PRIMARY KEY CHECK (seq >= 1),
  time_ns INTEGER NOT NULL,
  study INTEGER NOT NULL,
  study_id TEXT NOT NULL,
  trial INTEGER NOT NULL,   -- 0: about the study.
  attempt INTEGER NOT NULL,
  type INTEGER NOT NULL CHECK (type >= 1),  -- luthier.v1.Event.Type
  actor TEXT NOT NULL,
  detail TEXT NOT NULL,
  -- Finite or absent; NaN, infinities and -0.0 are in value_bits: the eight bytes of the double, big endian.
  value REAL CHECK (value IS NULL OR abs(value) <= 1.7976931348623157e308),
  value_bits BLOB CHECK (value_bits IS NULL OR (value IS NULL AND length(value_bits) = 8))
) STRICT;
CREATE INDEX event_by_study ON event (study);  -- And seq, the row's own key.

-- Answers to requests, so that a repeated request gets the same one.
CREATE TABLE request (
  id BLOB PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 64),
  digest BLOB NOT NULL,
  reply BLOB NOT NULL,
  time_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX request_by_time ON request (time_ns);

PRAGMA user_version = 1;
