"""Reports an XGBoost training to a trial, round by round."""

from __future__ import annotations

from typing import Any, Optional

from xgboost.callback import TrainingCallback

from luthier.integrations._reporting import Reporter

__all__ = ["LuthierCallback"]


class LuthierCallback(TrainingCallback):  # type: ignore[misc]
    """Goes into `callbacks=` of `xgboost.train` or of the scikit-learn estimators.

    `metric` is written as XGBoost prints it: "validation-logloss" is metric logloss of the data named validation in
    `evals`. With a `folder` models are saved in it as checkpoints. Raises TrialPruned when the trial is to end.
    """

    def __init__(self, trial: Any, metric: str, folder: Optional[str] = None) -> None:
        super().__init__()
        self._reporter = Reporter(trial, folder, ".ubj")
        self._data, _, self._metric = metric.partition("-")

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Reports the round that has just ended; False tells XGBoost to go on."""
        try:
            value = evals_log[self._data][self._metric][-1]
        except KeyError:
            there = ", ".join(f"{data}-{metric}" for data, metrics in evals_log.items() for metric in metrics)
            raise ValueError(f"no metric '{self._data}-{self._metric}'; there are: {there or 'none'}") from None
        self._reporter.report(value[0] if isinstance(value, tuple) else value, epoch + 1, model.save_model)
        return False
