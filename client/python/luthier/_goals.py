"""The metrics that a study declares: its objectives, and bounds on what trials measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

from luthier import _wire
from luthier._arguments import mapping, number, text
from luthier.space import LEGAL_NAME

Goal = Literal["minimize", "maximize"]
Goals = Mapping[str, Union[Goal, Mapping[str, Any]]]
Constraints = Mapping[str, Mapping[str, float]]
_WORDS = {"minimize": "MINIMIZE", "maximize": "MAXIMIZE"}
CONSTRAINT = "constraint"  # The metric that stands for all constraints of Optuna's: the largest of them.
MOST_METRICS = 8  # Metrics that a study may declare.
_EXAMPLE = '{"accuracy": "maximize", "energy": "minimize"}'


def _goal(name: str, given: Any) -> int:
    word = text(name, given).lower()
    if word not in _WORDS:
        raise ValueError(f"{name} is {given!r}, not 'minimize' or 'maximize'")
    return _wire.enum("Goal")[_WORDS[word]]


def _take(where: str, given: Mapping[str, Any], names: tuple[str, ...], out: Any) -> None:
    for name, value in given.items():
        if name not in names:
            raise ValueError(f"{where} has {name!r}; it has {', '.join(names)}")
        setattr(out, name, number(f"{name} of {where}", value))


def put_metrics(spec: Any, metric: str, goal: str, goals: Optional[Goals], constraints: Optional[Constraints]) -> None:
    """Puts what a study measures into its StudySpec. TypeError, ValueError."""
    entries: dict[str, Any] = {}
    if goals is not None:
        if metric != "value" or goal != "minimize":
            raise ValueError("give metric= and goal= for one objective, or goals= for several")
        for name, given in mapping("goals", goals, _EXAMPLE).items():
            entry = entries[text("a name in goals", name)] = _wire.message("MetricSpec")(name=name)
            options = dict(given) if isinstance(given, Mapping) else {"goal": given}
            entry.goal = _goal(f"the goal of {name}", options.pop("goal", None))
            _take(f"goals[{name!r}]", options, ("reference",), entry)
        if not entries:
            raise ValueError(f"goals is empty: it is as {_EXAMPLE}")
    else:
        name = text("metric", metric)
        entries[name] = _wire.message("MetricSpec")(name=name, goal=_goal("goal", goal))
    example = '{"latency_ms": {"at_most": 20}}'
    for name, given in mapping("constraints", constraints or {}, example).items():
        entry = entries.setdefault(text("a name in constraints", name), _wire.message("MetricSpec")(name=name))
        _take(f"constraints[{name!r}]", mapping(f"constraints[{name!r}]", given, example), ("at_least", "at_most"), entry)
    if goals is None and not constraints:
        spec.metric.CopyFrom(entries[metric])
    else:
        spec.metrics.extend(entries.values())


def metrics_of(spec: Any) -> list[Any]:
    """Returns the MetricSpecs of a StudySpec: all that a result must have."""
    return list(spec.metrics) or [spec.metric]


def objectives_of(spec: Any) -> dict[str, str]:
    """Returns "minimize" or "maximize" for each objective, in the order of the study."""
    words = _wire.enum_names("Goal")
    return {m.name: words[m.goal].lower() for m in metrics_of(spec) if m.goal}


def names_of_goals(n: int) -> list[str]:
    """Returns names of metrics for the values of an Optuna study, which have none."""
    return ["value"] if n == 1 else [f"value_{i}" for i in range(n)]


def check_metrics(study: str, goals: int, constraints: bool) -> None:
    """Raises ValueError where a study of Optuna's measures more than one here may declare."""
    if goals > MOST_METRICS:
        raise ValueError(f"{study} has {goals} objectives; a study here has at most {MOST_METRICS}")
    if constraints and goals == MOST_METRICS:
        raise ValueError(
            f"{study} has {goals} objectives, and its constraints are one more metric; a study here has at most "
            f"{MOST_METRICS}: leave an objective out, or the constraints"
        )


def free_end(names: Iterable[str], taken: Iterable[str]) -> str:
    """Returns what goes behind all `names` so that none is one that is taken: nothing, "_", "__" and so on."""
    some, others, end = list(names), set(taken), ""
    while any(name + end in others for name in some):
        end += "_"
    return end


def names_of_constraints(keys: Sequence[str], goals: int) -> dict[str, str]:
    """Returns the metric that stands for each of Optuna's constraints, by their keys; beside `goals` other metrics. Where
    all of them are more than a study may declare, one stands for the largest of them."""
    if goals + len(keys) > MOST_METRICS:
        return dict.fromkeys(keys, CONSTRAINT)
    names = {key: f"{CONSTRAINT}_{key}" for key in keys}
    if all(LEGAL_NAME.match(name) for name in names.values()):
        return names
    return {key: f"{CONSTRAINT}_{i}" for i, key in enumerate(keys)}


def largest(names: Mapping[str, str], values: Mapping[str, float]) -> Optional[dict[str, float]]:
    """Returns the metrics that stand for constraints, whose `values` are given by the keys of `names`; None where one is
    missing or is no number."""
    if any(math.isnan(values.get(key, math.nan)) for key in names):
        return None
    return {name: greatest(values[key] for key, of in names.items() if of == name) for name in names.values()}


def greatest(limits: Iterable[float]) -> float:
    """Returns the largest constraint. Where none is finite, nor above 0, it is 0, which is met, too: metrics are finite."""
    most = float(max(limits, default=0.0))
    return 0.0 if most == -math.inf else most


def beyond(spec: Any, metrics: Mapping[str, float]) -> list[str]:
    """Returns in words which metrics are beyond which bound: "ms = 30, at most 20"."""
    out: list[str] = []
    for name, bounds in bounds_of(spec).items():
        value = metrics.get(name)
        if value is None:
            continue
        if value < bounds.get("at_least", value):
            out.append(f"{name} = {value:.6g}, at least {bounds['at_least']:.6g}")
        elif value > bounds.get("at_most", value):
            out.append(f"{name} = {value:.6g}, at most {bounds['at_most']:.6g}")
    return out


def surpasses(signs: Sequence[float], a: Sequence[float], b: Sequence[float]) -> bool:
    """Returns whether values `a` are at least as good as `b` in all goals, and better in one. A sign is 1 for a value
    that is to be small, and -1 for one that is to be large."""
    pairs = [(sign * x, sign * y) for sign, x, y in zip(signs, a, b)]
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def bounds_of(spec: Any) -> dict[str, dict[str, float]]:
    """Returns the bounds of each metric that has some, as `constraints` of luthier.study."""
    fields = ("at_least", "at_most")
    bounds = {m.name: {f: float(getattr(m, f)) for f in fields if m.HasField(f)} for m in metrics_of(spec)}
    return {name: some for name, some in bounds.items() if some}
