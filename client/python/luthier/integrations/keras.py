"""Reports a Keras training to a trial, epoch by epoch."""

from __future__ import annotations

from typing import Any, Optional

from keras.callbacks import Callback

from luthier.integrations._reporting import Reporter

__all__ = ["LuthierCallback"]


class LuthierCallback(Callback):  # type: ignore[misc]
    """Goes into `callbacks=` of `model.fit`. `metric` is a name in its logs, such as "val_loss".

    With a `folder` models are saved in it as checkpoints. Raises TrialPruned when the trial is to end.
    """

    def __init__(self, trial: Any, metric: str = "val_loss", folder: Optional[str] = None) -> None:
        super().__init__()
        self._reporter = Reporter(trial, folder, ".keras")
        self._metric = metric

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        """Reports the epoch that has just ended."""
        if self._metric not in (logs or {}):
            raise ValueError(f"no metric '{self._metric}'; there are: {', '.join(logs or {}) or 'none'}")
        self._reporter.report((logs or {})[self._metric], epoch + 1, self.model.save)
