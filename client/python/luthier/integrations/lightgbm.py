"""Reports a LightGBM training to a trial, round by round."""

from __future__ import annotations

from typing import Any, Optional

from luthier.integrations._reporting import Reporter

__all__ = ["LuthierCallback"]


class LuthierCallback:
    """Goes into `callbacks=` of `lightgbm.train` or of the scikit-learn estimators' `fit`.

    `metric` is written as LightGBM prints it: "valid_0's l2" is `metric="valid_0-l2"`. With a `folder` models are saved
    in it as checkpoints. Raises TrialPruned when the trial is to end.
    """

    order = 25  # After LightGBM's own early stopping would have looked, as its documentation advises for callbacks.

    def __init__(self, trial: Any, metric: str, folder: Optional[str] = None) -> None:
        self._reporter = Reporter(trial, folder, ".txt")
        self._metric = metric

    def __call__(self, env: Any) -> None:
        """Reports the round that has just ended."""
        values = {f"{entry[0]}-{entry[1]}": entry[2] for entry in env.evaluation_result_list}
        if self._metric not in values:
            raise ValueError(f"no metric '{self._metric}'; there are: {', '.join(values) or 'none'}")
        self._reporter.report(values[self._metric], env.iteration + 1, env.model.save_model)
