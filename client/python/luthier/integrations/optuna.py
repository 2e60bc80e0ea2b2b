"""Luthier's search as a sampler of Optuna: the program and its storage stay, the settings come from Luthier.

A trial's parameters that all earlier trials have in common (Optuna's intersection search space) are asked of a Luthier
study; there is one for each such space, made when it is first met and given the results that exist by then. Parameters
outside it, those of the first trial and of branches, are drawn by an independent sampler.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

import luthier
from luthier._foreign import optuna_constraints
from luthier._goals import Goal, check_metrics, free_end, largest, names_of_constraints, names_of_goals
from luthier.integrations._asking import ask
from luthier.space import labels_of

GRADIENT = "luthier:gradient"  # User attribute of a trial: derivatives of its value by parameters' names.
_UID = "luthier:uid"  # System attribute of an Optuna study: what it is called in Luthier.
_TOLD = "luthier:told"  # System attribute of a trial: the Luthier study that its maker told the result.
_CONSTRAINTS = "constraints"  # System attribute of a trial: what `constraints_func` returned.
_NUMBER = "optuna.number"  # Attribute of an imported Luthier trial: the number it has in Optuna.
_MAX_TRIALS = 500_000  # Imports raise it, up to 10^6.
_Distributions = dict[str, BaseDistribution]
_Values = Optional[Sequence[float]]

__all__ = ["GRADIENT", "LuthierSampler"]


class _Space:
    """An Optuna search space in Luthier's words. Choices become labels: Luthier's are texts, Optuna's any values."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions: dict[str, Any] = dict(distributions)
        self.labels: dict[str, list[str]] = {}
        self.domains: dict[str, Any] = dict(distributions)
        self.size = 1.0  # Settings in the space; infinite with a continuous parameter.
        for name, d in self.distributions.items():
            if isinstance(d, CategoricalDistribution):
                self.size *= len(d.choices)
                self.labels[name] = labels_of(d.choices)
                self.domains[name] = luthier.Categorical(self.labels[name])
            else:
                self.size *= math.inf if d.step is None else round((d.high - d.low) / d.step) + 1

    def to_optuna(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a Luthier trial's parameters as Optuna's values, of plain Python types."""
        all_labels = self.labels.items()
        choices = {name: self.distributions[name].choices[labels.index(params[name])] for name, labels in all_labels}
        rest = {name: d for name, d in self.distributions.items() if name not in choices}
        return {**choices, **{n: d.to_external_repr(min(max(params[n], d.low), d.high)) for n, d in rest.items()}}

    def to_luthier(self, params: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        """Returns Optuna's values as a Luthier trial's, or None where they do not lie in this space."""
        try:
            inside = {name: d.to_internal_repr(params[name]) for name, d in self.distributions.items()}
        except (KeyError, ValueError):
            return None
        if not all(d._contains(inside[name]) for name, d in self.distributions.items()):
            return None
        plain = {name: d.to_external_repr(inside[name]) for name, d in self.distributions.items()}
        return {**plain, **{name: labels[int(inside[name])] for name, labels in self.labels.items()}}


class _Metrics:
    """What an Optuna study measures, in Luthier's words: its values, and its constraints by their keys. No metric is named
    as one of the `parameters`."""

    def __init__(self, directions: Sequence[StudyDirection], keys: Sequence[str], parameters: Iterable[str]) -> None:
        goals: list[Goal] = ["maximize" if d == StudyDirection.MAXIMIZE else "minimize" for d in directions]
        names, bounds = names_of_goals(len(goals)), names_of_constraints(keys, len(goals))
        end = free_end([*names, *bounds.values()], parameters)
        self.goals: dict[str, Goal] = {name + end: goal for name, goal in zip(names, goals)}
        self.constraints = {key: name + end for key, name in bounds.items()}

    def options(self) -> dict[str, Any]:
        """Returns these as options of luthier.study."""
        if len(self.goals) == 1:
            ((metric, goal),) = self.goals.items()
            options: dict[str, Any] = {"metric": metric, "goal": goal}
        else:
            options = {"goals": self.goals}
        if self.constraints:
            options["constraints"] = {name: {"at_most": 0.0} for name in self.constraints.values()}
        return options

    def of(self, values: Optional[Sequence[float]], constraints: Mapping[str, float]) -> Optional[dict[str, float]]:
        """Returns a trial's metrics; None where one is missing."""
        bounded = largest(self.constraints, constraints)
        if values is None or len(values) != len(self.goals) or bounded is None:
            return None
        return {**{name: float(value) for name, value in zip(self.goals, values)}, **bounded}


class _Link:
    """An Optuna study's results in one search space, and the Luthier study that has them."""

    def __init__(self, space: _Space, metrics: _Metrics, study: luthier.Study) -> None:
        self.space = space
        self.metrics = metrics
        self.study = study
        self.identity = f"{study.name}@{study.created}"
        self.lock = threading.Lock()
        self.tried: set[str] = set()  # Settings that were given out or imported, in a finite space.
        self.next = 0  # Trials below this number need not be looked at any more.
        self.known = {int(t.attributes[_NUMBER]) for t in study.trials if _NUMBER in t.attributes}

    def ask(self) -> Any:
        """Returns the next trial, or None once every setting of a finite space was tried."""
        if len(self.tried) >= self.space.size:
            return None
        asked = ask(self.study)
        if asked is not None:
            self._note(asked.params)
        return asked

    def _note(self, params: Mapping[str, Any]) -> None:
        if self.space.size < _MAX_TRIALS:
            self.tried.add(json.dumps(params, sort_keys=True))

    def catch_up(self, trials: Sequence[FrozenTrial]) -> None:
        """Imports those finished `trials` that nobody told the Luthier study about."""
        with self.lock:
            new: list[dict[str, Any]] = []
            finished = [trial for trial in trials[self.next :] if trial.state.is_finished()]
            while self.next < len(trials) and trials[self.next].state.is_finished():
                self.next += 1
            for trial in finished:
                told = trial.number in self.known or trial.system_attrs.get(_TOLD) == self.identity
                self.known.add(trial.number)
                params = self.space.to_luthier(trial.params)
                measured = self.metrics.of(_values(trial), optuna_constraints(trial))
                if told or params is None or measured is None or trial.state == TrialState.FAIL:
                    continue
                self._note(params)
                new.append({"params": params, "state": trial.state.name, "metrics": measured})
                new[-1].update(gradient=_gradient(trial, self.space), attributes={_NUMBER: str(trial.number)})
            self.study.add_trials(new)


class LuthierSampler(BaseSampler):  # type: ignore[misc]
    """A sampler for `optuna.create_study(sampler=...)` that asks a Luthier coordinator for settings.

    `algorithm` is any of Luthier's; `server` or `db` say which coordinator, as in `luthier.study`. `seed` fixes all
    random choices. Derivatives of the value, where the objective has them, go in by
    `trial.set_user_attr("luthier:gradient", {"lr": 0.3})`; of several objectives, of the first value. Studies may have
    several `directions`, and constraints: those of `trial.set_constraint`, or what `constraints_func` returns of a trial
    that ended, which are met where none is above 0. `algorithm` must take them. Trials that lack a constraint that others
    have teach nothing. Processes that share an Optuna storage and a coordinator share what their Luthier studies have learnt.
    """

    def __init__(
        self, algorithm: Any = "auto", seed: Optional[int] = None, *, server: Optional[str] = None,
        db: Optional[str] = None, independent_sampler: Optional[BaseSampler] = None,
        constraints_func: Optional[Callable[[FrozenTrial], Sequence[float]]] = None,
    ) -> None:  # fmt: skip
        self._algorithm, self._seed = algorithm, seed
        self._fixed: dict[str, Any] = {"server": server, "db": db, "max_trials": _MAX_TRIALS, "algorithm": algorithm}
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._constraints_func = constraints_func
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._open: dict[tuple[str, int], tuple[_Link, Any, dict[str, Any]]] = {}
        self._seen: weakref.WeakKeyDictionary[Study, tuple[str, IntersectionSearchSpace]] = weakref.WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what belongs to this process: a copy elsewhere finds its studies in the coordinator."""
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_links", "_open", "_seen")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def reseed_rng(self) -> None:
        """Makes independent draws differ from those of a copy of this sampler."""
        self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Raises ValueError where the study measures more than one of Luthier's may."""
        check_metrics(f"study {study.study_name}", len(study.directions), self._constraints_func is not None)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> _Distributions:
        """Returns the parameters that all finished trials have in common and that can vary."""
        with self._lock:
            common = self._of(study)[1].calculate(study)
        return {name: distribution for name, distribution in common.items() if not distribution.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: _Distributions) -> dict[str, Any]:
        """Asks Luthier for the values of all parameters of `search_space` at once."""
        fixed: Mapping[str, Any] = trial.system_attrs.get("fixed_params", {})
        if all(name in fixed for name in search_space):
            return {}
        link = self._link(study, search_space)
        link.catch_up(study._get_trials(deepcopy=False, use_cache=True))
        asked = link.ask()
        if asked is None:  # Every setting was tried, and Optuna wants one more: any will do.
            draw = self._independent.sample_independent
            return {name: draw(study, trial, name, distribution) for name, distribution in search_space.items()}
        values = link.space.to_optuna(asked.params)
        with self._lock:
            self._open[self._of(study)[0], trial.number] = link, asked, values
        return values

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draws the value of one parameter that not all trials have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def luthier_studies(self) -> list[luthier.Study]:
        """Returns the Luthier studies that this sampler has asked, the oldest first."""
        with self._lock:
            return [link.study for link in self._links.values()]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: _Values) -> None:
        """Tells Luthier how the trial ended."""
        with self._lock:
            opened = self._open.pop((self._of(study)[0], trial.number), None)
        try:
            constraints = self._constraints_after(study, trial, state)
        except BaseException:
            if opened is not None:
                opened[0].study.cancel_trial(opened[1].number)
            raise
        if opened is None:
            return  # Not asked here: goes in as an import before the next ask.
        link, asked, given = opened
        measured, gradient = link.metrics.of(values, constraints), _gradient(trial, link.space)
        if measured is None and state == TrialState.PRUNED:
            measured = link.metrics.of(_values(trial), constraints)
        try:
            other = any(name in trial.params and trial.params[name] != value for name, value in given.items())
            if other or (measured is None and state == TrialState.COMPLETE):
                # Somebody chose other values, which go in as an import, or it lacks a constraint.
                link.study.cancel_trial(asked.number)
                return
            if state == TrialState.FAIL:
                link.study.tell(asked, state="FAILED")
            else:
                link.study.tell(asked, measured, state=state.name, gradient=gradient)
        except (luthier.LeaseLost, luthier.TrialFinal):
            return  # It took longer than its lease: its result goes in as an import.
        study._storage.set_trial_system_attr(trial._trial_id, _TOLD, link.identity)

    def _constraints_after(self, study: Study, trial: FrozenTrial, state: TrialState) -> Mapping[str, float]:
        """Returns the constraints of a trial that ends, by their keys; those of `constraints_func` are computed."""
        constraints = dict(optuna_constraints(trial))
        if self._constraints_func is not None:
            # Optuna keeps them where all samplers find them.
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
            found = study._storage.get_trial_system_attrs(trial._trial_id).get(_CONSTRAINTS) or ()
            constraints.update((str(i), float(value)) for i, value in enumerate(found))
        return constraints

    def _of(self, study: Study) -> tuple[str, IntersectionSearchSpace]:
        """Returns the unique id of `study`, made at first sight, kept in its storage, and its intersection space."""
        found = self._seen.get(study)
        if found is None:
            storage, number = study._storage, study._study_id
            if _UID not in storage.get_study_system_attrs(number):
                storage.set_study_system_attr(number, _UID, uuid.uuid4().hex)
            found = storage.get_study_system_attrs(number)[_UID], IntersectionSearchSpace(include_pruned=True)
            self._seen[study] = found
        return found

    def _link(self, study: Study, search_space: Mapping[str, BaseDistribution]) -> _Link:
        """Returns the Luthier study for `search_space`, made if there is none."""
        trials = study._get_trials(deepcopy=False, use_cache=True)
        keys = sorted({key for trial in trials if trial.state.is_finished() for key in optuna_constraints(trial)})
        check_metrics(f"study {study.study_name}", len(study.directions), bool(keys))
        metrics = _Metrics(study.directions, keys, search_space)
        with self._lock:
            uid = self._of(study)[0]
            spec = {name: optuna.distributions.distribution_to_json(d) for name, d in search_space.items()}
            goals = list(metrics.goals.values())
            goal: Any = goals[0] if len(goals) == 1 else goals
            key = json.dumps([uid, goal, str(self._algorithm), self._seed, spec] + ([keys] if keys else []))
            if key not in self._links:
                readable = re.sub(r"[^a-z0-9]+", "-", study.study_name.lower()).strip("-")[:32]
                name = f"optuna-{readable}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
                seed = int(uid[:8], 16) if self._seed is None else self._seed
                space = _Space(search_space)
                ours = luthier.study(name, space.domains, seed=seed, **metrics.options(), **self._fixed)
                self._links[key] = _Link(space, metrics, ours)
            return self._links[key]


def _values(trial: FrozenTrial) -> Optional[Sequence[float]]:
    """Returns the final values, for a pruned trial the last one reported."""
    if trial.values is not None:
        return list(trial.values)
    return [trial.intermediate_values[trial.last_step]] if trial.last_step is not None else None


def _gradient(trial: FrozenTrial, space: _Space) -> Optional[dict[str, float]]:
    """Returns the derivatives that the objective reported, of the parameters in `space`."""
    given: Mapping[str, float] = trial.user_attrs.get(GRADIENT) or {}
    return {name: float(slope) for name, slope in given.items() if name in space.distributions} or None
