-- Version 9. Trials may declare parameters while they run and leave others unused, and measurements may have standard
-- errors: programs of older versions would not know the event, and would take what a trial left unused for its setting.
PRAGMA user_version = 9;
