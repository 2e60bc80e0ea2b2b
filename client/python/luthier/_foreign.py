"""Results of other tools: Optuna's storages, scikit-learn's searches, data frames."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from luthier import table
from luthier._frozen import FrozenTrial
from luthier._goals import CONSTRAINT, check_metrics, free_end, largest, names_of_constraints, names_of_goals
from luthier._notes import to_note
from luthier.space import LEGAL_NAME, Categorical, Domain, Float, Int, Parameter, labels_of, to_domain

if TYPE_CHECKING:
    from luthier.study import Study

_MANY = 64  # Attributes of a trial.
_log = logging.getLogger("luthier")


def rows_of(study: Study, source: Any, study_name: Optional[str]) -> tuple[list[Any], str]:
    """Returns what a source holds as the service imports it, and a name for where it comes from. TypeError,
    ValueError."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if "://" not in path and path.endswith((".csv", ".jsonl")):
            return table.read(study, path), os.path.basename(path)
        source = optuna_study(path, study_name)
    elif hasattr(source, "get_all_studies"):
        source = optuna_study(source, study_name)
    source = getattr(source, "cv_results_", source)
    if hasattr(source, "get_trials"):
        return _from_optuna(study, source), f"optuna:{source.study_name}"
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        if "params" not in source:
            records = source.to_dict("records")
            table.grow(study, records, source.columns)
            return table.read_records(study, records, "the data frame"), "data frame"
        source = source.to_dict("list")
    if isinstance(source, Mapping) and "params" in source:
        return _from_search(study, source), "scikit-learn"
    raise TypeError(
        f"{type(source).__name__} is nothing to import from: give a .csv or .jsonl file, an Optuna study or storage, a "
        "search of scikit-learn or its cv_results_, or a data frame"
    )


# --- Optuna ---


def optuna_study(storage: Any, name: Optional[str]) -> Any:
    """Returns an Optuna study of a storage: an object, a URL or a journal's file. ValueError."""
    if isinstance(storage, str) and "://" not in storage and not os.path.isfile(storage):
        raise ValueError(f"{storage} is no file; a database is named by its URL, sqlite:///FILE")
    import optuna

    if isinstance(storage, str) and "://" not in storage:
        from optuna.storages.journal import JournalFileBackend

        storage = optuna.storages.JournalStorage(JournalFileBackend(storage))
    if name is None:
        names = optuna.get_all_study_names(storage)
        if len(names) != 1:
            raise ValueError(f"the storage has the studies {names}: say which by study_name=")
        name = names[0]
    return optuna.load_study(study_name=name, storage=storage)


def optuna_constraints(trial: Any) -> dict[str, float]:
    """Returns the constraints of an Optuna trial by their keys; those of a `constraints_func` have numbers."""
    attributes = trial.system_attrs
    found = {str(i): float(value) for i, value in enumerate(attributes.get("constraints") or ())}
    prefix = "constraints:"
    return {**found, **{key[len(prefix) :]: float(x) for key, x in attributes.items() if key.startswith(prefix)}}


def _finished(source: Any) -> tuple[list[Any], list[str]]:
    """Returns the trials of an Optuna study that have ended, and the keys of their constraints."""
    trials = [trial for trial in source.get_trials(deepcopy=False) if trial.state.is_finished()]
    return trials, sorted({key for trial in trials for key in optuna_constraints(trial)})


def optuna_metrics(source: Any) -> dict[str, Any]:
    """Returns what an Optuna study measures, as options of luthier.study: its goals, and bounds for its constraints."""
    directions = [direction.name.lower() for direction in source.directions]
    trials, keys = _finished(source)
    check_metrics(source.study_name, len(directions), bool(keys))
    taken = _parameters(trials)
    names = names_of_goals(len(directions))
    end = free_end(names, taken)
    options: dict[str, Any] = {"goal": directions[0]}
    if keys and end:  # Without bounds a parameter may be named as the metric.
        options["metric"] = names[0] + end
    if len(directions) > 1:
        given = list(getattr(source, "metric_names", None) or ())
        legal = len(set(given)) == len(directions) and all(LEGAL_NAME.match(name) for name in given)
        free = legal and not taken.intersection(given)
        options = {"goals": dict(zip(given if free else [name + end for name in names], directions))}
    bounds = _names_of_bounds(keys, len(directions), taken).values()
    return {**options, "constraints": {name: {"at_most": 0.0} for name in bounds}} if bounds else options


def _parameters(trials: Iterable[Any]) -> set[str]:
    """Returns the names of the parameters of Optuna's trials."""
    return {name for trial in trials for name in trial.params}


def _names_of_bounds(keys: list[str], goals: int, taken: set[str]) -> dict[str, str]:
    """Returns the metric that stands for each constraint of an Optuna study; none is one of the names `taken`."""
    names = names_of_constraints(keys, goals)
    end = free_end(names.values(), taken)
    return {key: name + end for key, name in names.items()}


def _bounds_for(study: Study, source: Any, trials: list[Any], keys: list[str]) -> dict[str, str]:
    """Returns the metric of `study` that stands for each constraint of an Optuna study. ValueError without one."""
    names = _names_of_bounds(keys, len(source.directions), _parameters(trials))
    if set(names.values()) <= set(study.constraints):
        return names
    if CONSTRAINT in study.constraints:
        return dict.fromkeys(keys, CONSTRAINT)
    bounds = {name: {"at_most": 0} for name in names.values()}
    raise ValueError(
        f"{source.study_name} has the constraints {', '.join(keys)}, for which {study.name} has no bounds: make it by "
        f"luthier.from_optuna, or with constraints={bounds}"
    )


def _from_optuna(study: Study, source: Any) -> list[Any]:
    theirs, goals = [direction.name.lower() for direction in source.directions], study.goals
    if theirs != list(goals.values()):
        raise ValueError(
            f"{source.study_name} wants its values to {', '.join(theirs)}; {study.name} has {goals}: "
            "luthier.from_optuna makes a study that fits"
        )
    trials, keys = _finished(source)
    bounds = _bounds_for(study, source, trials, keys)
    space: dict[str, Domain] = {}
    rows = []
    for trial in trials:
        row = _optuna_row(trial, list(goals), bounds)
        if row is None:
            continue
        for name, distribution in trial.distributions.items():
            domain = _to_domain(distribution, row["params"], name)
            space[name] = _union(space[name], domain) if name in space else domain
        rows.append(row)
    if len(rows) < len(trials):
        _log.warning(
            "%d trials of %s are left out: they lack constraints that others have", len(trials) - len(rows),
            source.study_name,
        )  # fmt: skip
    if study._open:
        table.declare(study, space)
    return [table.to_import(study, row) for row in rows]


def _to_domain(distribution: Any, params: dict[str, Any], name: str) -> Domain:
    """Returns the domain of a distribution. Choices that can't be labels, as tuples, go by their texts, in `params`
    too."""
    choices = list(getattr(distribution, "choices", ()))
    if all(isinstance(c, (str, int, float, bool, type(None))) for c in choices):
        return to_domain(distribution)
    texts = labels_of(choices)
    params[name] = texts[choices.index(params[name])]
    return Categorical(texts)


def _union(a: Domain, b: Domain) -> Domain:
    """Returns a domain with the values of both, as trials of Optuna may have had different ranges."""
    if isinstance(a, Categorical) and isinstance(b, Categorical):
        return Categorical(
            a.choices + [c for c in b.choices if not any(c == x and type(c) is type(x) for x in a.choices)]
        )
    if isinstance(a, Float) and isinstance(b, Float):
        same = (a.log, a.step) == (b.log, b.step)
        low, high = min(a.low, b.low), max(a.high, b.high)
        return Float(low, high, log=a.log, step=a.step) if same else Float(low, high)
    if isinstance(a, Int) and isinstance(b, Int):
        same = (a.log, a.step) == (b.log, b.step)
        low, high = min(a.low, b.low), max(a.high, b.high)
        return Int(low, high, log=a.log, step=a.step) if same else Int(low, high)
    return a


def grow_by_trials(study: Study, trials: Iterable[Any]) -> None:
    """Gives an open space the parameters of trials that it lacks."""
    if not study._open:
        return
    space: dict[str, Domain] = {}
    for trial in trials:
        given = trial._all_domains() if isinstance(trial, FrozenTrial) else {}
        for name in table.stored_params(study, trial) if given else ():
            space[name] = _union(space[name], given[name]) if name in space else given[name]
    if space:
        table.declare(study, space)


def _optuna_row(trial: Any, goals: list[str], bounds: Mapping[str, str]) -> Optional[dict[str, Any]]:
    """Returns a trial of Optuna as a result from elsewhere; None where it lacks a constraint of `bounds`."""
    curve = {step: value for step, value in trial.intermediate_values.items() if step >= 0}
    values, state = trial.values, trial.state.name
    if values is None and state == "PRUNED" and curve and len(goals) == 1:
        values = [curve[max(curve)]]
    bounded = largest(bounds, optuna_constraints(trial))
    if bounded is None and state == "COMPLETE":
        return None
    metrics = None if values is None or bounded is None else {**dict(zip(goals, values)), **bounded}
    if metrics is not None and not all(map(math.isfinite, metrics.values())):
        state, metrics = "FAILED", None
    notes = {str(key)[:64]: to_note(note) for key, note in list(trial.user_attrs.items())[:_MANY]}
    row = {"params": dict(trial.params), "state": state, "metrics": metrics, "curve": curve, "attributes": notes}
    row["step"] = max(curve) if curve and metrics is not None else 0
    for ours, time in (("started", trial.datetime_start), ("ended", trial.datetime_complete)):
        row[ours] = None if time is None else time.timestamp()
    return row


def to_optuna(study: Study, **options: Any) -> Any:
    """Returns an Optuna study with the trials of `study` that have ended: parameters, values, curves, user attributes,
    times, and for each bound of the study a constraint, which is above 0 beyond it. `options` are those of
    optuna.create_study. Needs optuna.

        luthier.to_optuna(study, storage="sqlite:///example.db", study_name="mnist")
    """
    import optuna
    from optuna.trial import TrialState, create_trial

    study._refresh()
    distributions = {p.name: _distribution(p) for p in study._space.parameters}
    out = optuna.create_study(directions=list(study.goals.values()), **options)
    if len(study.goals) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It is experimental, for years.
            out.set_metric_names(list(study.goals))
    for t in study.get_trials(("COMPLETE", "PRUNED", "FAILED")):
        params = {name: value for name, value in t.params.items() if distributions.get(name) is not None}
        frozen = create_trial(
            state=TrialState["FAIL" if t.state.value == "FAILED" else t.state.value],
            values=t.values,
            params=params,
            distributions={name: distributions[name] for name in params},
            user_attrs=t.user_attrs,
            system_attrs=_limits(study.constraints, t.metrics),
            intermediate_values=t.intermediate_values,
        )
        frozen.datetime_start, frozen.datetime_complete = _local_time(t.started or t.ended), _local_time(t.ended)
        out.add_trial(frozen)
    return out


def _limits(bounds: Mapping[str, Mapping[str, float]], metrics: Mapping[str, float]) -> dict[str, Any]:
    """Returns bounds as Optuna keeps the constraints of a trial: each is how far its metric is beyond it."""
    if not bounds or not set(bounds) <= set(metrics):
        return {}
    beyond: list[float] = []
    for name, ends in bounds.items():
        beyond += [ends["at_least"] - metrics[name]] if "at_least" in ends else []
        beyond += [metrics[name] - ends["at_most"]] if "at_most" in ends else []
    return {"constraints": beyond}


def _local_time(seconds: Optional[float]) -> Any:
    from datetime import datetime

    return None if seconds is None else datetime.fromtimestamp(seconds)


def _distribution(p: Parameter) -> Any:
    """Returns Optuna's distribution for a parameter; None for vectors, which it has not."""
    from optuna import distributions as d

    domain = p.domain()
    if isinstance(domain, Float):
        return (
            None if domain.count is not None else d.FloatDistribution(domain.low, domain.high, domain.log, domain.step)
        )
    if isinstance(domain, Int):
        return d.IntDistribution(domain.low, domain.high, domain.log, domain.step or 1)
    return d.CategoricalDistribution(p.labels() or [True, False])


# --- scikit-learn, and tables whose columns have no ranges ---


def _from_search(study: Study, results: Mapping[str, Any]) -> list[Any]:
    """Returns the candidates of a search; the metric is the mean test score, with its standard error."""
    key = next((k for k in (study.metric, "score") if f"mean_test_{k}" in results), None)
    if key is None:
        scores = [name for name in results if str(name).startswith("mean_test_")]
        raise ValueError(f"cv_results_ has {scores}; name the study's metric after one of them, or 'score'")
    if study.direction != "maximize":
        raise ValueError(
            f"scores are the better the larger, but study {study.name} minimizes: make it with goal='maximize'"
        )
    folds = sum(1 for name in results if str(name).startswith("split") and str(name).endswith(f"_test_{key}"))
    candidates = list(results["params"])
    names = dict.fromkeys(name for params in candidates for name in params)
    table.grow(study, candidates, [f"params_{name}" for name in names])
    deviations = results.get(f"std_test_{key}")
    out = []
    for i, (params, mean) in enumerate(zip(candidates, results[f"mean_test_{key}"])):
        row: dict[str, Any] = {"params": params, "state": "COMPLETE" if math.isfinite(mean) else "FAILED"}
        if math.isfinite(mean):
            row["metrics"] = {study.metric: float(mean)}
            if folds > 1 and deviations is not None and math.isfinite(deviations[i]):
                row["standard_errors"] = {study.metric: float(deviations[i]) / math.sqrt(folds)}
        out.append(table.to_import(study, row))
    return out
