"""Luthier's search as a searcher of Ray Tune: trials run where Ray puts them, their settings come from Luthier."""

from __future__ import annotations

import math
import os
import secrets
from typing import Any, Optional

import ray.cloudpickle
from ray.tune.result import TRAINING_ITERATION
from ray.tune.search import Searcher
from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized, Uniform
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils.util import flatten_dict, unflatten_dict

import luthier
from luthier import _wire
from luthier._goals import Goal
from luthier.integrations._asking import ask
from luthier.space import labels_of, place_of
from luthier.trial import Trial

__all__ = ["LuthierSearch"]

_MAX_TRIALS = 500_000
_SAVED = ("_name", "_metric", "_mode", "_choices", "_last")


class LuthierSearch(Searcher):  # type: ignore[misc]
    """Goes into `TuneConfig(search_alg=...)`; the space is Tuner's `param_space`.

    Domains of Ray become Luthier's: `uniform`, `loguniform`, `quniform`, `randint`, `lograndint`, `qrandint`, `choice`;
    `sample_from`, `randn` and `grid_search` are refused by name, constants stay what they are. Intermediate results are
    reported, so that Luthier learns from trials that a scheduler of Ray ends early. `study_name` continues a study that
    is there. `server` and `db` say which coordinator, as in `luthier.study`. What was learnt is with the coordinator;
    Ray's own checkpoints hold the study's name and the leases of trials under way.
    """

    def __init__(
        self,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        *,
        algorithm: Any = "auto",
        seed: int = 0,
        study_name: Optional[str] = None,
        server: Optional[str] = None,
        db: Optional[str] = None,
    ) -> None:
        self._metric: Optional[str] = None
        self._mode: Optional[str] = None
        super().__init__(metric=metric, mode=mode)
        self._options: dict[str, Any] = {"algorithm": algorithm, "seed": seed}
        self._where: dict[str, Any] = {"server": server, "db": db if db is None else os.path.abspath(db)}
        self._name = study_name or f"ray-{secrets.token_hex(8)}"
        self._study: Optional[luthier.Study] = None
        self._domains: dict[str, Any] = {}
        self._choices: dict[str, dict[str, Any]] = {}
        self._running: dict[str, Trial] = {}
        self._last: dict[str, tuple[int, float]] = {}

    @property
    def study(self) -> luthier.Study:
        """The Luthier study. RuntimeError before Tuner has told the space, the metric and the mode."""
        if self._study is None:
            if not self._domains or not self.metric or not self.mode:
                raise RuntimeError("LuthierSearch needs a param_space with domains, a metric and a mode")
            goal: Goal = "minimize" if self.mode == "min" else "maximize"
            self._study = luthier.study(
                self._name, self._domains, goal=goal, max_trials=_MAX_TRIALS, **self._options, **self._where
            )
        return self._study

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Takes space, metric and mode from Tuner."""
        if self._domains:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        _, domains, grids = parse_spec_vars(config)
        if grids:
            raise ValueError("LuthierSearch takes no grid_search: use choice, or algorithm='grid'")
        for path, domain in domains:
            self._add("/".join(map(str, path)), domain)
        return self.study is not None

    def suggest(self, trial_id: str) -> Any:
        """Returns the setting of a new trial, or that of a trial which has one."""
        trial = self._running.get(trial_id)
        if trial is None:
            trial = ask(self.study)
            if trial is None:
                return Searcher.FINISHED
            self._running[trial_id] = trial
        values = {name: self._choices[name][v] if name in self._choices else v for name, v in trial.params.items()}
        return unflatten_dict(values)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Reports a point of the learning curve. What Luthier would stop is Ray's schedulers' business."""
        trial, value = self._running.get(trial_id), result.get(self.metric)
        step = int(result.get(TRAINING_ITERATION, 0))
        if trial is None or value is None or step <= self._last.get(trial_id, (-1, 0.0))[0]:
            return  # A restored trial repeats what it had reported.
        self._last[trial_id] = step, float(value)
        try:
            trial.report(float(value), step=step)
        except luthier.LeaseLost:
            self._running.pop(trial_id)

    def on_trial_complete(self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False) -> None:
        """Tells the coordinator how the trial ended."""
        trial = self._running.pop(trial_id, None)
        last = self._last.pop(trial_id, (0, math.nan))[1]
        if trial is None:
            return
        value = float((result or {}).get(self.metric, last))
        try:
            if error or not math.isfinite(value):
                self.study.tell(trial, state="FAILED")
            else:
                self.study.tell(trial, value)
        except (luthier.LeaseLost, luthier.TrialFinal):
            pass  # It was silent for too long, or somebody cancelled it: the coordinator has moved on.

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Optional[list[float]] = None,
    ) -> None:
        """Adds a result from elsewhere."""
        params: dict[str, Any] = {}
        for name, given in flatten_dict(parameters, "/").items():
            if name in self._choices:
                labels, choices = list(self._choices[name]), list(self._choices[name].values())
                place = place_of(given, choices)
                if place is None:
                    raise ValueError(f"{name} is {given!r}, which is none of {choices}")
                params[name] = labels[place]
            elif name in self._domains:
                params[name] = given
        state = "FAILED" if error else "PRUNED" if pruned else "COMPLETE"
        self.study.add_trials([{"params": params, "state": state, "value": None if error else value}])

    def save(self, checkpoint_path: str) -> None:
        """Writes what a restored search needs beside the coordinator: names, choices, leases of trials under way."""
        state = {name: value for name, value in self.__dict__.items() if name in _SAVED}
        state["leases"] = {key: (t._worker, t._lease.SerializeToString()) for key, t in self._running.items()}
        with open(checkpoint_path, "wb") as file:
            ray.cloudpickle.dump(state, file)

    def restore(self, checkpoint_path: str) -> None:
        """Goes on with the study that `save` named, and takes its leases back."""
        with open(checkpoint_path, "rb") as file:
            state = ray.cloudpickle.load(file)
        leases = state.pop("leases")
        self.__dict__.update(state)
        self._study = luthier.load(self._name, **self._where)
        parse = _wire.message("Lease").FromString
        self._running = {key: Trial(self._study._asked, parse(lease), worker) for key, (worker, lease) in leases.items()}
        for trial in self._running.values():  # At once: an expired lease would go to the next ask.
            beat = _wire.message("HeartbeatRequest")(worker=trial._worker, tokens=[trial._lease.token])
            self._study._client.call("WorkerService", "Heartbeat", beat)

    def __getstate__(self) -> dict[str, Any]:
        """Ray pickles searchers with the tuner: the connection stays here."""
        return {**self.__dict__, "_study": None, "_running": {}}

    def _add(self, name: str, domain: Domain) -> None:
        sampler = domain.get_sampler() if isinstance(domain, (Categorical, Float, Integer)) else None
        quantum = None
        if isinstance(sampler, Quantized):
            sampler, quantum = sampler.sampler, sampler.q
        log = isinstance(sampler, LogUniform)
        plain = log or isinstance(sampler, Uniform)
        if isinstance(domain, Categorical) and plain:
            labels = labels_of(domain.categories)
            self._choices[name] = dict(zip(labels, domain.categories))
            self._domains[name] = luthier.Categorical(labels)
        elif isinstance(domain, Float) and plain and not (log and quantum):
            self._domains[name] = _float(domain, log, quantum)
        elif isinstance(domain, Integer) and plain and not (log and quantum not in (None, 1)):
            high = domain.upper if quantum else domain.upper - 1
            step = None if quantum in (None, 1) else int(quantum)
            low = domain.lower if step is None else math.ceil(domain.lower / step) * step
            self._domains[name] = luthier.Int(int(low), int(high), log=log, step=step)
        else:
            raise ValueError(
                f"parameter '{name}': LuthierSearch has nothing like {domain.domain_str} of {type(domain).__name__}"
            )


def _float(domain: Any, log: bool, quantum: Optional[float]) -> luthier.Float:
    """Returns a domain of numbers; Ray's quantized ones are multiples of the quantum."""
    if quantum is None:
        return luthier.Float(domain.lower, domain.upper, log=log)
    low, high = math.ceil(domain.lower / quantum - 1e-9) * quantum, math.floor(domain.upper / quantum + 1e-9) * quantum
    return luthier.Float(low, high, step=quantum)
