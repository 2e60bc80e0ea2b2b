"""Luthier's search behind scikit-learn's search contract: where GridSearchCV fits, LuthierSearchCV does."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

import luthier
from luthier._goals import Goals
from luthier.integrations._asking import ask
from luthier.space import LEGAL_NAME, labels_of, place_of, to_domain

__all__ = ["LuthierSearchCV"]

_log = logging.getLogger("luthier")
_STEP_OF_SEEDS = 2**31 - 1
_TIMES = "fit_time", "score_time"


class LuthierSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Searches settings of an estimator by cross-validation, each next one chosen from the scores so far.

    `space` maps names of the estimator's parameters to lists of choices as in GridSearchCV, ranges `(low, high)` and
    `(low, high, "log-uniform")` as in BayesSearchCV and luthier.study, frozen distributions of scipy as in
    RandomizedSearchCV (`uniform`, `loguniform`, `randint`), or Luthier's own domains. `n_iter` settings are tried,
    `batch` of them between two choices: with `n_jobs` cores a batch of `n_jobs / folds` keeps all of them busy. The
    coordinator keeps mean and standard error of each setting's score, and learns from the mean; settings whose fits
    fail it learns to avoid.
    They are in `cv_results_` unless all fits of their batch failed. `error_score="raise"` ends the search instead.

    With several scores of `scoring`, `refit` names the one to search by, as in GridSearchCV; the others are kept with the
    trials, too. `constraints` bound means of scores, and of "fit_time" and "score_time" in seconds:
    {"precision": {"at_least": 0.9}}; `best_params_` is then the best setting within them. `goals` are several of these
    to search by: {"accuracy": "maximize", "fit_time": "minimize"}, as in luthier.study. `front_` then has the places in
    `cv_results_` of the settings within the constraints that none surpasses in all goals, and `best_params_` is the one
    of them that is best in what `refit` names: by its goal, or where it is none, the larger the better.
    `rank_test_NAME` of a goal to minimize has 1 for the smallest.

    `parameter_constraints` are what settings must keep, as in luthier.study: a setting that breaks one is never tried.
    What they forbid of a list is one of its choices, {"forbid": {"max_features": None}}.

    `study_name` continues a study that is there; without it every `fit` makes a new one. `server` and `db` say which
    coordinator, as in `luthier.study`. After `fit`, `study_` is the study and `trials_` its trials; the other
    attributes and parameters are those of RandomizedSearchCV.
    """

    study_name_: str
    _required_parameters = ["estimator", "space"]
    _parameter_constraints: dict[str, Any] = {
        **getattr(BaseSearchCV, "_parameter_constraints", {}),
        "space": [dict],
        "n_iter": "no_validation",
        "batch": "no_validation",
        "algorithm": "no_validation",
        "goals": [dict, None],
        "constraints": [dict, None],
        "parameter_constraints": "no_validation",
        "study_name": [str, None],
        "server": [str, None],
        "db": "no_validation",
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any],
        n_iter: int = 25,
        *,
        batch: int = 1,
        algorithm: Any = "auto",
        goals: Optional[Goals] = None,
        constraints: Optional[Mapping[str, Mapping[str, float]]] = None,
        parameter_constraints: Optional[Sequence[Mapping[str, Any]]] = None,
        study_name: Optional[str] = None,
        server: Optional[str] = None,
        db: Optional[str] = None,
        scoring: Any = None,
        n_jobs: Optional[int] = None,
        refit: Union[bool, str, Callable[..., int]] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Union[int, str] = "2*n_jobs",
        random_state: Any = None,
        error_score: Union[str, float] = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.space = space
        self.n_iter = n_iter
        self.batch = batch
        self.algorithm = algorithm
        self.goals = goals
        self.constraints = constraints
        self.parameter_constraints = parameter_constraints
        self.study_name = study_name
        self.server = server
        self.db = db
        self.random_state = random_state
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    @property
    def study_(self) -> luthier.Study:
        """The Luthier study of the last `fit`."""
        check_is_fitted(self, "study_name_")
        if "_study" not in self.__dict__:
            self._study: luthier.Study = luthier.load(self.study_name_, server=self.server, db=self.db)
        return self._study

    @property
    def trials_(self) -> Sequence[Any]:
        """The trials of the last `fit`, those of other programs on the same study included."""
        return self.study_.trials

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the connection out: a copy loads the study by its name."""
        return {name: value for name, value in super().__getstate__().items() if name != "_study"}

    def _run_search(self, evaluate_candidates: Callable[[list[dict[str, Any]]], Mapping[str, Any]]) -> None:
        """Asks for `batch` settings, evaluates them, tells their scores, until `n_iter` were tried."""
        if self.n_iter < 1 or self.batch < 1:
            raise ValueError(f"n_iter and batch must be at least 1, got {self.n_iter} and {self.batch}")
        domains, choices = _domains(self.space)
        generator = check_random_state(self.random_state)
        seed = secrets.randbelow(_STEP_OF_SEEDS) if self.random_state is None else generator.randint(_STEP_OF_SEEDS)
        name = self.study_name or f"sklearn-{type(self.estimator).__name__.lower()[:32]}-{secrets.token_hex(6)}"
        self._study = luthier.study(
            name,
            domains,
            **({"metric": "score", "goal": "maximize"} if self.goals is None else {"goals": self.goals}),
            constraints=self.constraints,
            parameter_constraints=_with_labels(self.parameter_constraints, choices),
            algorithm=self.algorithm,
            max_trials=max(self.n_iter, 1_000) if self.study_name else self.n_iter,
            seed=int(seed) if self.study_name is None else 0,
            server=self.server,
            db=self.db,
        )
        self.study_name_ = name
        done = seen = 0
        failure: Optional[ValueError] = None
        while done < self.n_iter:
            trials = ask(self._study, min(self.batch, self.n_iter - done))
            if not trials:  # Every setting of a finite space was tried, or somebody stopped the study.
                self._say_that_it_ended(done)
                break
            done += len(trials)
            candidates = [_candidate(trial.params, choices) for trial in trials]
            try:
                results = evaluate_candidates(candidates)
            except ValueError as error:
                if self.error_score == "raise" or "fits failed" not in str(error):
                    _give_back(self._study, trials)
                    raise
                failure = error  # scikit-learn says that all fits of the batch failed, and keeps nothing of them.
                for trial in trials:
                    self._study.tell(trial, state="FAILED")
                continue
            except BaseException:
                _give_back(self._study, trials)
                raise
            self._tell(trials, results, seen)
            seen += len(trials)
        if seen == 0 and failure is not None:
            raise failure

    def _tell(self, trials: Sequence[Any], results: Mapping[str, Any], begin: int) -> None:
        """Tells the scores of trials, which stand in `results` from the place `begin` on."""
        columns = self._columns(results)
        folds = sum(key.startswith("split") and key.endswith("_test_" + _scores(results)[0]) for key in results)
        for i, trial in enumerate(trials, start=begin):
            measured = {name: float(results["mean_" + column][i]) for name, column in columns.items()}
            if not all(map(math.isfinite, measured.values())):
                self._study.tell(trial, state="FAILED")
                continue
            errors = {name: float(results["std_" + columns[name]][i]) / math.sqrt(folds) for name in self._study.goals}
            for name in _scores(results):  # Further scores are kept.
                mean = float(results[f"mean_test_{name}"][i])
                told = name in measured or f"test_{name}" in columns.values()
                if not told and LEGAL_NAME.match(name) and math.isfinite(mean):
                    measured[name] = mean
            self._study.tell(trial, measured, standard_errors=errors)

    def _say_that_it_ended(self, done: int) -> None:
        """Warns where the study ended before all settings were tried. Raises StudyFinished where none was."""
        state, reason = self._study.state.lower(), self._study.state_reason or "its end is reached"
        if done == 0:
            raise luthier.StudyFinished(
                f"study {self.study_name_} is {state} ({reason}), so no setting is tried: another study_name=, or "
                "none, begins another one; study_.trials has the results"
            )
        if self.study_name is not None:
            _log.warning("study %s ended after %d of %d settings: %s", self.study_name_, done, self.n_iter, reason)

    def _columns(self, results: Mapping[str, Any]) -> dict[str, str]:
        """Returns for each metric of the study the column of `cv_results_` behind "mean_" and "std_"."""
        columns: dict[str, str] = {}
        if self.goals is None:
            columns["score"] = "test_" + self._metric(results)
        for what, named in (("goals", self.goals), ("constraints", self.constraints)):
            for name in named or {}:
                found = [key for key in (f"test_{name}", name) if f"mean_{key}" in results]
                if not found:
                    raise ValueError(f"{what} has {name!r}; there are {', '.join([*_scores(results), *_TIMES])}")
                columns[name] = found[0]
        return columns

    def _within(self, results: Mapping[str, Any]) -> Any:
        """Returns for each setting whether it is within the constraints."""
        within: Any = np.ones(len(results["params"]), dtype=bool)
        columns = self._columns(results) if self.constraints else {}
        for name, bounds in (self.constraints or {}).items():
            means = np.asarray(results["mean_" + columns[name]])
            within &= (means >= bounds.get("at_least", -math.inf)) & (means <= bounds.get("at_most", math.inf))
        return within

    def _losses(self, results: Mapping[str, Any]) -> Any:
        """Returns a row for each setting and a column for each goal, which is to be small."""
        columns = self._columns(results)
        signs = [1.0 if goal == "minimize" else -1.0 for goal in self._study.goals.values()]
        means = [np.asarray(results["mean_" + columns[name]], dtype=float) for name in self._study.goals]
        return np.stack([sign * mean for sign, mean in zip(signs, means)], axis=1)

    @property
    def front_(self) -> Any:
        """Places in `cv_results_` of the settings of the last `fit` within the constraints that none surpasses in all
        goals; without `goals` those of the best score."""
        check_is_fitted(self, "study_name_")
        _ = self.study_  # A copy loads it.
        return _front(self._losses(self.cv_results_), self._within(self.cv_results_))

    def _format_results(self, *args: Any, **options: Any) -> Any:
        """Returns `cv_results_`. Of a score that is to be small the smallest has rank 1."""
        results = super()._format_results(*args, **options)
        goals = self._study.goals if self.goals else {}
        for name in [name for name, goal in goals.items() if goal == "minimize" and f"rank_test_{name}" in results]:
            results[f"rank_test_{name}"] = _ranks(results[f"mean_test_{name}"])
        return results

    def _select_best_index(self, refit: Any, refit_metric: str, results: Mapping[str, Any]) -> Any:
        """Returns the place of the best setting within the constraints, with `goals` of those on the front; without any
        within them, of the best one, with a warning. A score is the better the larger, but for a goal to minimize."""
        if callable(refit) or not (self.constraints or self.goals):
            return super()._select_best_index(refit, refit_metric, results)
        ranks = np.array(results[f"rank_test_{refit_metric}"], dtype=float)
        within = self._within(results)
        if not within.any():
            _log.warning("no setting of study %s is within the constraints", self.study_name_)
            within = np.ones_like(within)
        front = _front(self._losses(results), within) if self.goals else np.flatnonzero(within)
        return int(front[ranks[front].argmin()]) if front.size else int(ranks.argmin())

    def _metric(self, results: Mapping[str, Any]) -> str:
        """Returns the name of the score that decides."""
        if "mean_test_score" in results:
            return "score"
        if isinstance(self.refit, str) and f"mean_test_{self.refit}" in results:
            return self.refit
        raise ValueError("with several scores, refit must name the one to search by, or goals those")


def _ranks(means: Any) -> Any:
    """Returns for each mean how many are smaller, and one: as scikit-learn ranks scores, those that are NaN the last."""
    losses = np.where(np.isnan(means), math.inf, means)
    return 1 + np.array([int((losses < loss).sum()) for loss in losses], dtype=np.int32)


def _scores(results: Mapping[str, Any]) -> list[str]:
    """Returns the names of the scores."""
    return sorted(key[len("mean_test_") :] for key in results if key.startswith("mean_test_"))


def _front(losses: Any, within: Any) -> Any:
    """Returns the places of those rows of `losses`, (settings, goals), that are `within` and that no other such row
    surpasses: is nowhere above and somewhere below. Rows with NaN are none."""
    there = np.flatnonzero(within & np.isfinite(losses).all(axis=1))
    rows = losses[there]
    surpassed = [bool(((rows <= row).all(axis=1) & (rows < row).any(axis=1)).any()) for row in rows]
    return there[~np.array(surpassed, dtype=bool)]


def _domains(space: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns Luthier's domains, and for each list what its labels stand for."""
    domains: dict[str, Any] = {}
    choices: dict[str, dict[str, Any]] = {}
    for name, domain in space.items():
        if isinstance(domain, (list, np.ndarray)) or (isinstance(domain, tuple) and not _has_numbers(domain)):
            values = list(domain)
            labels = labels_of(values)
            choices[name] = dict(zip(labels, values))
            numbers = all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values)
            ordered = numbers and len(values) > 2 and values == sorted(values)
            domains[name] = luthier.Ordinal(labels) if ordered else luthier.Categorical(labels)
        else:
            domains[name] = to_domain(domain)  # A tuple of numbers is a range, as in luthier.study.
    return domains, choices


def _with_labels(constraints: Any, choices: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns constraints on parameters with the labels that stand for the choices they forbid. ValueError for a value
    that is none of a parameter's choices."""
    if not isinstance(constraints, (list, tuple)):
        return constraints  # luthier.study says what is wrong with others.
    out: list[Any] = []
    for i, one in enumerate(constraints):
        forbid = one.get("forbid") if isinstance(one, Mapping) else None
        if isinstance(forbid, Mapping):
            where = f"parameter_constraints[{i}].forbid"
            one = {**one, "forbid": {name: _labels(where, name, x, choices.get(name)) for name, x in forbid.items()}}
        out.append(one)
    return out


def _labels(where: str, name: str, given: Any, choices: Optional[Mapping[str, Any]]) -> Any:
    if choices is None:
        return given
    labels, values = list(choices), list(choices.values())
    place = place_of(given, values)
    if place is not None:
        return labels[place]
    if isinstance(given, (list, tuple, np.ndarray)):
        return [_labels(where, name, value, choices) for value in given]
    if isinstance(given, str) and given in choices:
        return given  # The label itself, as `trials_` has it.
    if isinstance(given, Mapping) and {"at_least", "at_most"} & set(given):
        return given
    raise ValueError(f"{where}: {given!r} is no choice of {name!r}; it has {', '.join(map(repr, values))}")


def _has_numbers(values: Sequence[Any]) -> bool:
    return any(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values)


def _candidate(params: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the setting that a trial stands for, in the estimator's own values."""
    return {name: choices[name][value] if name in choices else value for name, value in params.items()}


def _give_back(study: luthier.Study, trials: Sequence[Any]) -> None:
    """Cancels trials whose evaluation was broken off."""
    for trial in trials:
        study.cancel_trial(trial.number)
