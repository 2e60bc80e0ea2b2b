-- Version 12. Requests are forgotten, and studies with max_wall end, by how long coordinators have run and not by the wall
-- clock; replies are kept as they were given. Programs of older versions would forget by the clock, and answer otherwise.

-- A column's check cannot be changed: the table is made anew.
CREATE TABLE counter_12 (
  name TEXT PRIMARY KEY CHECK (name IN ('fence', 'study_key', 'uptime_ns')),
  value INTEGER NOT NULL CHECK (value >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO counter_12 (name, value) SELECT name, value FROM counter;
INSERT INTO counter_12 (name, value) VALUES ('uptime_ns', 0);  -- Nanoseconds, of all coordinators of this database.
DROP TABLE counter;
ALTER TABLE counter_12 RENAME TO counter;

-- Every request that is known begins its time anew.
DROP INDEX request_by_time;
ALTER TABLE request RENAME COLUMN time_ns TO uptime_ns;
UPDATE request SET uptime_ns = 0;
CREATE INDEX request_by_uptime ON request (uptime_ns);

-- The uptime at which it was created. What passed of max_wall until now was told by the wall clock.
ALTER TABLE study ADD COLUMN create_uptime_ns INTEGER NOT NULL DEFAULT 0;
UPDATE study SET create_uptime_ns = min(0, create_time_ns - CAST(strftime('%s', 'now') AS INTEGER) * 1000000000)
  WHERE create_time_ns BETWEEN 0 AND 4000000000000000000;

-- storage.record.WayBack: what else than `spec` and max_trials leads back to it; NULL: nothing, or not kept.
ALTER TABLE former_spec ADD COLUMN back BLOB;

PRAGMA user_version = 12;
