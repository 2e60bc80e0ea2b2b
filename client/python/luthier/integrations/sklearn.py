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
from luthier.integrations._asking import ask
from luthier.space import labels_of, to_domain

__all__ = ["LuthierSearchCV"]

_log = logging.getLogger("luthier")
_STEP_OF_SEEDS = 2**31 - 1


class LuthierSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Searches settings of an estimator by cross-validation, each next one chosen from the scores so far.

    `space` maps names of the estimator's parameters to lists of choices as in GridSearchCV, ranges `(low, high)` and
    `(low, high, "log-uniform")` as in BayesSearchCV and luthier.study, frozen distributions of scipy as in
    RandomizedSearchCV (`uniform`, `loguniform`, `randint`), or Luthier's own domains. `n_iter` settings are tried,
    `batch` of them between two choices: with `n_jobs` cores a batch of `n_jobs / folds` keeps all of them busy. The
    coordinator keeps mean and standard error of each setting's score, and learns from the mean; settings whose fits
    fail it learns to avoid.
    They are in `cv_results_` unless all fits of their batch failed. `error_score="raise"` ends the search instead.

    `constraints` bound means of other scores of `scoring`, and of "fit_time" and "score_time" in seconds:
    {"precision": {"at_least": 0.9}}; `best_params_` is then the best setting within them.

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
        "constraints": [dict, None],
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
        constraints: Optional[Mapping[str, Mapping[str, float]]] = None,
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
        self.constraints = constraints
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
            metric="score",
            goal="maximize",
            constraints=self.constraints,
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
            metric = self._metric(results)
            folds = sum(key.startswith("split") and key.endswith(f"_test_{metric}") for key in results)
            for i, trial in enumerate(trials, start=seen):
                mean, deviation = float(results[f"mean_test_{metric}"][i]), float(results[f"std_test_{metric}"][i])
                measured = {"score": mean, **{name: float(of[i]) for name, of in self._constrained(results).items()}}
                if all(map(math.isfinite, measured.values())):
                    self._study.tell(trial, measured, standard_errors={"score": deviation / math.sqrt(folds)})
                else:
                    self._study.tell(trial, state="FAILED")
            seen += len(trials)
        if seen == 0 and failure is not None:
            raise failure

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

    def _constrained(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a column of `cv_results_` for each constraint."""
        columns: dict[str, Any] = {}
        for name in self.constraints or {}:
            found = [key for key in (f"mean_test_{name}", f"mean_{name}") if key in results]
            if not found:
                scores = sorted(key[len("mean_test_") :] for key in results if key.startswith("mean_test_"))
                raise ValueError(f"constraints has {name!r}; there are {', '.join([*scores, 'fit_time', 'score_time'])}")
            columns[name] = results[found[0]]
        return columns

    def _select_best_index(self, refit: Any, refit_metric: str, results: Mapping[str, Any]) -> Any:
        """Returns the place of the best setting within the constraints; without any such, of the best one, with a
        warning."""
        if callable(refit) or not self.constraints:
            return super()._select_best_index(refit, refit_metric, results)
        ranks = np.array(results[f"rank_test_{refit_metric}"], dtype=float)
        within: Any = np.ones(len(ranks), dtype=bool)
        for name, column in self._constrained(results).items():
            bounds = self.constraints[name]
            within &= np.asarray(column) >= bounds.get("at_least", -math.inf)
            within &= np.asarray(column) <= bounds.get("at_most", math.inf)
        if not within.any():
            _log.warning("no setting of study %s is within the constraints", self.study_name_)
            return int(ranks.argmin())
        return int(np.where(within, ranks, math.inf).argmin())

    def _metric(self, results: Mapping[str, Any]) -> str:
        """Returns the name of the score that decides."""
        if "mean_test_score" in results:
            return "score"
        if isinstance(self.refit, str) and f"mean_test_{self.refit}" in results:
            return self.refit
        raise ValueError("with several scores, refit must name the one to search by")


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


def _has_numbers(values: Sequence[Any]) -> bool:
    return any(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values)


def _candidate(params: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the setting that a trial stands for, in the estimator's own values."""
    return {name: choices[name][value] if name in choices else value for name, value in params.items()}


def _give_back(study: luthier.Study, trials: Sequence[Any]) -> None:
    """Cancels trials whose evaluation was broken off."""
    for trial in trials:
        study.cancel_trial(trial.number)
