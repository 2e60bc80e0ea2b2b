-- Version 10. Somebody may ask for a trial's end, and studies may end after a time: programs of older versions would not
-- know the event, and would go on.
PRAGMA user_version = 10;
