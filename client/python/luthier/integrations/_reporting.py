"""What the training callbacks share: a report to the trial after each step, checkpoints, and the end when it is told to
stop."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import luthier


class Reporter:
    """Reports points of a learning curve to a trial.

    With a `folder` each report comes with a checkpoint in it; the newest two are kept, since the one before the newest
    is what another attempt resumes from until the newest is acknowledged.
    """

    def __init__(self, trial: Any, folder: Optional[str] = None, suffix: str = "") -> None:
        self.trial = trial
        self._folder = Path(folder).absolute() if folder is not None else None
        self._suffix = suffix
        self._kept: list[Path] = []

    def report(self, value: float, step: int, save: Optional[Callable[[str], Any]] = None) -> None:
        """Reports `value` at `step`; `save(path)` writes the checkpoint. Raises TrialPruned when the trial is to
        end."""
        path = None
        if self._folder is not None and save is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"step-{step}{self._suffix}"
            save(str(path))
            self._kept.append(path)
        self.trial.report(float(value), step=step, checkpoint=None if path is None else str(path))
        while len(self._kept) > 2:
            old = self._kept.pop(0)
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        if self.trial.should_stop():
            raise luthier.TrialPruned(f"stopped at step {step}")
