-- Version 7. Values of parameters may be vectors. Programs of older versions would read them as the number 0.
PRAGMA user_version = 7;
