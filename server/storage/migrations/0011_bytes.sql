-- Version 11. Projects may have a quota of bytes, which goes by what each study keeps. Programs of older versions would not
-- count.

-- Bytes of its ended trials and of points of curves, as they are stored, without indices and events; about. It only grows.
ALTER TABLE study ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0);
UPDATE study SET bytes =
  coalesce((SELECT sum(length(body)) FROM trial WHERE trial.study = study.key), 0) +
  coalesce((SELECT sum(length(body)) FROM measurement WHERE measurement.study = study.key), 0);

PRAGMA user_version = 11;
