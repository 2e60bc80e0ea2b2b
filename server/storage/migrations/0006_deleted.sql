-- Version 6. A deleted study loses its id at once and its rows bit by bit: until they are gone, its id is "~" and its key,
-- which no study's id can be. Programs of older versions would show it.
PRAGMA user_version = 6;
