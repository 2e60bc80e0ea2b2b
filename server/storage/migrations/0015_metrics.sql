-- Version 15. Specs may name several metrics, and bounds. The column value of a trial is then NULL where a bound is not met,
-- and facts of points have the values of all metrics. Rows of before stay as they are. Programs of older versions would
-- see such a spec as one without a metric.
PRAGMA user_version = 15;
