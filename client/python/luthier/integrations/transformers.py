"""Trainings of transformers' Trainer: reports to a trial, evaluation by evaluation, and spaces for its own search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from luthier.integrations._reporting import Reporter
from luthier.space import Bool, Categorical, Float, Int, to_domain

__all__ = ["LuthierCallback", "hp_space"]


class LuthierCallback(TrainerCallback):  # type: ignore[misc]
    """Goes into `callbacks=` of `Trainer`. `metric` is a name in its evaluations, such as "eval_loss".

    Steps are Trainer's optimizer steps. Raises TrialPruned when the trial is to end. Checkpoints stay Trainer's affair:
    it evaluates before it saves, so none belongs to the step that is reported.
    """

    def __init__(self, trial: Any, metric: str = "eval_loss") -> None:
        self._reporter = Reporter(trial)
        self._metric = metric

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Reports the evaluation that has just ended."""
        metrics = kwargs.get("metrics") or {}
        if self._metric not in metrics:
            raise ValueError(f"no metric '{self._metric}'; there are: {', '.join(metrics) or 'none'}")
        self._reporter.report(metrics[self._metric], state.global_step)


def hp_space(space: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Returns the `hp_space=` of `Trainer.hyperparameter_search(backend="optuna")` for a Luthier space; with
    `sampler=LuthierSampler()` the settings come from Luthier. ValueError for what Optuna has no word for."""
    domains = {name: to_domain(given) for name, given in space.items()}
    for name, d in domains.items():
        if d.condition is not None or getattr(d, "logit", False) or getattr(d, "count", None):
            raise ValueError(f"{name!r}: conditions, logit and vectors have no counterpart in a search of Trainer")

    def suggest(trial: Any, name: str, d: Any) -> Any:
        if isinstance(d, (Bool, Categorical)):
            return trial.suggest_categorical(name, getattr(d, "choices", [True, False]))
        if isinstance(d, Int):
            return trial.suggest_int(name, d.low, d.high, step=d.step or 1, log=d.log)
        assert isinstance(d, Float)
        return trial.suggest_float(name, d.low, d.high, step=d.step, log=d.log)

    return lambda trial: {name: suggest(trial, name, d) for name, d in domains.items()}
