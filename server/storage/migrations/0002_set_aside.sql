-- Version 2. Which gradients were set aside is read from the log (type 21: GRADIENT_SET_ASIDE).
CREATE INDEX event_set_aside ON event (study, trial) WHERE type = 21;

PRAGMA user_version = 2;
