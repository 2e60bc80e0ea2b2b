"""Optuna's samplers and pruners: algorithms and rules that stop trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from luthier._arguments import count, whole
from luthier._optuna_refused import Words, check_options, refuse
from luthier.errors import Unsupported
from luthier.trial import FrozenTrial

Constraints = Optional[Callable[[FrozenTrial], Sequence[float]]]


class _Sampler:
    """What a sampler asks for: an algorithm with options, a seed, and constraints."""

    def __init__(self, algorithm: Any, seed: Optional[int] = None, constraints_func: Constraints = None) -> None:
        if seed is not None and whole("seed", seed) < 0:
            raise ValueError(f"seed is {seed}: it is at least 0")
        self.algorithm, self.seed, self.constraints_func = algorithm, seed, constraints_func

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            refuse("samplers", "BaseSampler")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(algorithm={self.algorithm!r}, seed={self.seed!r})"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            refuse("Sampler", name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


def algorithm_of(sampler: Any) -> Any:
    """Returns the algorithm of a sampler. Unsupported for one that is not made by `samplers`."""
    if isinstance(sampler, _Sampler):
        return sampler.algorithm
    raise Unsupported(
        _not_ours("sampler", sampler)
        or f"the sampler {_kind(sampler)} is not supported here; instead: algorithm=, or in Optuna's own study "
        "luthier.optuna.LuthierSampler"
    )


def _kind(given: Any) -> str:
    return given.__name__ if isinstance(given, type) else type(given).__name__


def _not_ours(what: str, given: Any) -> str:
    """Says what is wrong with a sampler or pruner that was not made, or is Optuna's own; else returns ""."""
    name = _kind(given)
    if name in vars(samplers) or name in vars(pruners):
        if isinstance(given, type):
            return f"the {what} is the class {name}; instead: {what}={name}(...)"
        if type(given).__module__.startswith("optuna."):
            return f"the {what} {name} of the package optuna is not supported here; instead: luthier.{what}s.{name}"
    return ""


_QUIET = {"warn_independent_sampling": True, "warn_asynchronous_seeding": True, "independent_sampler": None}
_OWN_OPTIONS = 'create_study(algorithm={"%s": {...}}), whose options are in docs/reference/%s.md'


class TPESampler(_Sampler):
    """The algorithm `tpe`."""

    def __init__(
        self,
        *,
        seed: Optional[int] = None,
        n_startup_trials: int = 10,
        n_ei_candidates: int = 24,
        multivariate: Optional[bool] = None,
        constraints_func: Constraints = None,
        **options: Any,
    ) -> None:
        defaults = {
            **_QUIET, "consider_prior": True, "prior_weight": 1.0, "consider_magic_clip": True, "gamma": None,
            "consider_endpoints": False, "weights": None, "group": False, "constant_liar": True,
            "categorical_distance_func": None,
        }  # fmt: skip
        options.pop("constant_liar", None)  # Trials that run always count as taken.
        options.pop("warn_independent_sampling", None)
        check_options("TPESampler", options, defaults, _OWN_OPTIONS % ("tpe", "tpe"))
        own: dict[str, Any] = {}
        if count("n_startup_trials", n_startup_trials) != 10:
            own["startup_trials"] = max(1, n_startup_trials)
        if count("n_ei_candidates", n_ei_candidates) != 24:
            own["candidates"] = n_ei_candidates
        if multivariate is not None:
            own["multivariate"] = bool(multivariate)
        super().__init__({"tpe": own} if own else "tpe", seed, constraints_func)

    @staticmethod
    def hyperopt_parameters() -> Any:
        """Refused."""
        refuse("Sampler", "hyperopt_parameters")


class GPSampler(_Sampler):
    """The algorithm `bo`."""

    def __init__(
        self,
        *,
        seed: Optional[int] = None,
        n_startup_trials: int = 10,
        deterministic_objective: bool = False,
        constraints_func: Constraints = None,
        **options: Any,
    ) -> None:
        options.pop("warn_independent_sampling", None)
        check_options("GPSampler", options, _QUIET, _OWN_OPTIONS % ("bo", "bo"))
        startup = count("n_startup_trials", n_startup_trials)
        own: dict[str, Any] = {} if startup == 10 else {"initial_points": max(1, startup)}
        del deterministic_objective  # The model estimates the noise, and finds none where there is none.
        super().__init__({"bo": own} if own else "bo", seed, constraints_func)


class NSGAIISampler(_Sampler):
    """The algorithm `nsga2`."""

    def __init__(
        self,
        *,
        population_size: int = 50,
        seed: Optional[int] = None,
        constraints_func: Constraints = None,
        **options: Any,
    ) -> None:
        defaults = {
            "mutation": None, "mutation_prob": None, "crossover": None, "crossover_prob": 0.9, "swapping_prob": 0.5,
            "elite_population_selection_strategy": None, "child_generation_strategy": None, "after_trial_strategy": None,
            **self._more,
        }  # fmt: skip
        check_options(type(self).__name__, options, defaults, _OWN_OPTIONS % ("nsga2", "nsga2"))
        size = count("population_size", population_size)
        super().__init__("nsga2" if size == 50 else {"nsga2": {"population": size}}, seed, constraints_func)

    _more: Mapping[str, Any] = {}


class NSGAIIISampler(NSGAIISampler):
    """The algorithm `nsga2`, which follows reference lines with more than three objectives."""

    _more = {"reference_points": None, "dividing_parameter": 3}


class CmaEsSampler(_Sampler):
    """The algorithm `cma_es`."""

    def __init__(
        self,
        x0: Any = None,
        sigma0: Optional[float] = None,
        *,
        seed: Optional[int] = None,
        popsize: Optional[int] = None,
        warn_independent_sampling: bool = True,
        **options: Any,
    ) -> None:
        defaults = {
            "x0": None, "sigma0": None, "n_startup_trials": 1, "independent_sampler": None, "restart_strategy": None,
            "consider_pruned_trials": False, "inc_popsize": -1, "use_separable_cma": False, "with_margin": False,
            "lr_adapt": False, "source_trials": None,
        }  # fmt: skip
        way = _OWN_OPTIONS % ("cma_es", "cma_es") + "; study.enqueue_trial, study.add_trials take along what is known"
        check_options("CmaEsSampler", {"x0": x0, "sigma0": sigma0, **options}, defaults, way)
        super().__init__({"cma_es": {"population": popsize}} if popsize else "cma_es", seed)


class RandomSampler(_Sampler):
    """The algorithm `random`."""

    def __init__(self, seed: Optional[int] = None) -> None:
        super().__init__("random", seed)


def _rule(name: str, n_startup_trials: int, n_warmup_steps: int, interval_steps: int, n_min_trials: int) -> Any:
    check_options(f"{name.capitalize()}Pruner", {"n_min_trials": n_min_trials}, {"n_min_trials": 1}, "n_startup_trials=")
    return {name: {"min_trials": max(1, n_startup_trials), "warmup": n_warmup_steps, "interval": interval_steps}}


def median_pruner(
    n_startup_trials: int = 5, n_warmup_steps: int = 0, interval_steps: int = 1, *, n_min_trials: int = 1
) -> dict[str, Any]:
    """Stops trials that are worse than the median at the same step."""
    rule: dict[str, Any] = _rule("median", n_startup_trials, n_warmup_steps, interval_steps, n_min_trials)
    return rule


def percentile_pruner(
    percentile: float,
    n_startup_trials: int = 5,
    n_warmup_steps: int = 0,
    interval_steps: int = 1,
    *,
    n_min_trials: int = 1,
) -> dict[str, Any]:
    """Lets the best `percentile` of trials at the same step go on."""
    rule: dict[str, Any] = _rule("percentile", n_startup_trials, n_warmup_steps, interval_steps, n_min_trials)
    rule["percentile"]["percentile"] = percentile
    return rule


def stopping_of(pruner: Any) -> Any:
    """Returns the rule of a pruner. Unsupported for one that is not made by `pruners`."""
    if pruner is None or isinstance(pruner, Mapping):
        return pruner or None
    alone = next((name for name, word in vars(pruners).items() if word is pruner), None)
    if alone is not None:
        raise Unsupported(f"the pruner is the word {alone} alone; instead: pruner={alone}(...)")
    raise Unsupported(
        _not_ours("pruner", pruner)
        or f"the pruner {_kind(pruner)} is not supported here; instead: pruners.MedianPruner, PercentilePruner, or "
        "luthier.study(stopping=, resource=, algorithm=)"
    )


pruners: Words = Words("pruners", MedianPruner=median_pruner, PercentilePruner=percentile_pruner, NopPruner=dict)
samplers: Words = Words(
    "samplers", TPESampler=TPESampler, CmaEsSampler=CmaEsSampler, GPSampler=GPSampler, RandomSampler=RandomSampler,
    NSGAIISampler=NSGAIISampler, NSGAIIISampler=NSGAIIISampler,
)  # fmt: skip
