"""Reports a Lightning training to a trial, validation by validation."""

from __future__ import annotations

from typing import Any, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from luthier.integrations._reporting import Reporter

__all__ = ["LuthierCallback"]


class LuthierCallback(Callback):  # type: ignore[misc]
    """Goes into `callbacks=` of `Trainer`. `metric` is a name that the module logs, such as "val_loss".

    With a `folder` Lightning's checkpoints are saved in it. Raises TrialPruned when the trial is to end.
    """

    def __init__(self, trial: Any, metric: str = "val_loss", folder: Optional[str] = None) -> None:
        super().__init__()
        self._reporter = Reporter(trial, folder, ".ckpt")
        self._metric = metric

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports the validation that has just ended, but for the one before training."""
        if trainer.sanity_checking:
            return
        if self._metric not in trainer.callback_metrics:
            there = ", ".join(trainer.callback_metrics)
            raise ValueError(f"no metric '{self._metric}'; there are: {there or 'none'}")
        value = float(trainer.callback_metrics[self._metric])
        self._reporter.report(value, trainer.current_epoch + 1, trainer.save_checkpoint)
