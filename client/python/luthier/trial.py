"""Trials: `Trial`, which this program runs, and `FrozenTrial`, which is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luthier._asking import Trial
from luthier._frozen import FrozenTrial, TrialState
from luthier._optuna_refused import refuse

__all__ = ["FrozenTrial", "Trial", "TrialState"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Refuses words of Optuna's module of this name; those that are carried out, `luthier` has put here."""
        if not name.startswith("_"):
            refuse("trial", name)
        raise AttributeError(f"module 'luthier.trial' has no attribute {name!r}")
