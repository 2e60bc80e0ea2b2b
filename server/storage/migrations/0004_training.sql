-- Version 4. COMPLETE trials are counted by how their training ended (luthier.v1.Training.Outcome; 0: not said). Rows from before
-- say nothing about it.
ALTER TABLE trial ADD COLUMN training INTEGER NOT NULL DEFAULT 0
  CHECK (training = 0 OR (training > 0 AND state = 'COMPLETE'));
CREATE INDEX trial_by_training ON trial (study, training) WHERE training > 0;

PRAGMA user_version = 4;
