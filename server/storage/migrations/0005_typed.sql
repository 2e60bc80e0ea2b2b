-- Version 5. What programs read of events and of stored replies has types: messages of proto/luthier/storage/record.proto. Rows from
-- before say it in words, which server/storage/legacy_records.cc reads.
ALTER TABLE event ADD COLUMN facts BLOB;  -- Event; NULL: a row from before.
ALTER TABLE request ADD COLUMN typed INTEGER NOT NULL DEFAULT 0 CHECK (typed IN (0, 1));  -- 1: `reply` is a Reply; 0: text.

PRAGMA user_version = 5;
