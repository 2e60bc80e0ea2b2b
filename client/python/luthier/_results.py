"""What objectives return, as the service stores it: measurements of a study's metric, with gradients in its space."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Optional

from luthier import _wire
from luthier._arguments import mapping, scalar, sequence, shown, text
from luthier.space import LEGAL_NAME, Space


_MOST_METRICS = 32  # The service takes no more of a trial.
Notes = dict[str, str]  # Parts left out of a result, by name, with the reason.


def split(result: Any, gradient: Optional[Mapping[str, Any]] = None) -> tuple[Any, Optional[Mapping[str, Any]]]:
    """Takes (value, {parameter: derivative}) apart. TypeError for other tuples."""
    if isinstance(result, tuple):
        if len(result) != 2 or not (result[1] is None or isinstance(result[1], Mapping)):
            raise TypeError(f"the result {shown(result)} is neither a value nor (value, {{parameter: derivative}})")
        return result[0], result[1]
    return result, gradient


def by_name(metrics: Sequence[str], result: Any) -> Any:
    """Returns the values of several metrics that stand in their order, in a tuple or a list, by names; all else as it is.
    TypeError where they are too few or too many."""
    if isinstance(result, tuple) and len(result) == 2 and (result[1] is None or isinstance(result[1], Mapping)):
        return by_name(metrics, result[0]), result[1]
    if len(metrics) < 2 or not isinstance(result, (list, tuple)):
        return result
    if len(result) != len(metrics):
        raise TypeError(f"the result {shown(result)} has {len(result)} values; the metrics are {', '.join(metrics)}")
    return dict(zip(metrics, result))


def finite(gradient: Any) -> bool:
    """Whether a Gradient message has finite numbers only."""
    return all(math.isfinite(x) for x in [*gradient.full.values, *gradient.by_name.values.values()])


def gradients_of(
    gradient: Optional[Mapping[str, Any]], gradients: Optional[Mapping[str, Any]]
) -> Optional[Mapping[str, Any]]:
    """Returns the one that is given: that of the study's metric, or those of several metrics. ValueError for both."""
    if gradients is None:
        return gradient
    if gradient is not None:
        raise ValueError("give gradient or gradients, not both: gradients has that of each metric")
    for name, one in mapping("gradients", gradients, '{"loss": {"l2": -2.0}}').items():
        mapping(f"gradients[{name!r}]", one, '{"l2": -2.0}')
    return gradients


def of_several(gradient: Mapping[str, Any]) -> bool:
    """Whether it has gradients by metric. The derivative by a parameter is a number, or of a vector a sequence."""
    return bool(gradient) and all(isinstance(one, Mapping) for one in gradient.values())


def measurement(
    space: Space,
    metric: str,
    value: Any,
    *,
    metrics: Optional[Mapping[str, Any]] = None,
    gradient: Optional[Mapping[str, Any]] = None,
    standard_errors: Optional[Mapping[str, Any]] = None,
    step: int = 0,
    error_bound: Optional[float] = None,
    notes: Optional[Notes] = None,
    needed: Sequence[str] = (),
) -> Any:
    """Returns the Measurement of a value of `metric`, the study's, or of a dictionary of metrics; `space` has the
    parameters that the gradient may name; it is that of the metric, or has those of several, by metric. TypeError, ValueError. With `notes` only what concerns the metrics `needed`, or
    `metric` where none are, is an error: others that can't be kept are left out and named there."""
    m = _wire.message("Measurement")(step=step)
    every: dict[Any, Any] = dict(mapping("metrics", metrics or {}, '{"accuracy": 0.9}'))
    if isinstance(value, Mapping):
        every.update(value)
    elif value is not None:
        every[metric] = value
    for name, number in metrics_of(needed or (metric,), every, notes).items():
        m.metrics[name] = number
    for name, number in mapping("standard_errors", standard_errors or {}, '{"loss": 0.1}').items():
        if name not in every:
            raise ValueError(f"standard_errors names {name!r}, which is none of the metrics {sorted(every)}")
        if name in m.metrics:
            m.standard_errors[name] = to_number(name, number)
    if not gradient:
        return m
    if of_several(mapping("gradient", gradient, '{"l2": -2.0}')):
        if error_bound is not None:
            raise ValueError("error_bound is that of one gradient, not of several")
        for name, one in gradient.items():
            if name not in every:
                raise ValueError(f"gradients names {name!r}, which is none of the metrics {sorted(every)}")
            if one:
                _put_gradient(space, one, m.gradients[text("a metric's name", name)])
        return m
    _put_gradient(space, gradient, m.gradient)
    if error_bound is not None:
        m.gradient.error_bound = to_number("error_bound", error_bound)
    return m


def metrics_of(needed: Sequence[str], given: Mapping[Any, Any], notes: Optional[Notes] = None) -> dict[str, float]:
    """Returns metrics as the service takes them. TypeError, ValueError. With `notes` these concern those `needed`, the
    study's, alone: a loss is worth more than what stands beside it, so others that can't be kept are left out and named
    there."""
    out: dict[str, float] = {}
    many: list[str] = []
    for name in sorted(given, key=lambda name: name not in needed):  # The study's own have a place in any case.
        if notes is None or name in needed:
            out[text("a metric's name", name)] = to_number(name, given[name])
            continue
        try:
            number = to_number(name, given[name])
        except TypeError as error:
            notes[str(name)] = f"{error}; trial.set_user_attr keeps it"
            continue
        if not isinstance(name, str) or not LEGAL_NAME.match(name):
            notes[str(name)] = f"{name!r} is no name of a metric: letters, digits, '_' and '.' only, at most 64"
        elif len(out) < _MOST_METRICS:
            out[name] = number
        else:
            many.append(name)
    if notes is not None and many:
        notes[many[0]] = f"{', '.join(many)}: a trial has at most {_MOST_METRICS} metrics"
    return out


def final(space: Space, metrics: Sequence[str], result: Any, step: int, notes: Notes) -> Any:
    """Returns the Measurement of what an objective returned. `metrics`: those of the study, of which a bare value is the
    only one, and several values stand in their order. TypeError and ValueError say what is wrong with it; what is left
    out beside them is named in `notes`."""
    value, gradient = split(by_name(metrics, result))
    if inspect.isawaitable(value):
        getattr(value, "close", lambda: None)()  # Keeps Python from warning that nobody awaited it.
        raise TypeError("the objective returned a coroutine: await it; async objectives are for luthier.aio.study")
    if value is None:
        raise TypeError("the objective returned None; it returns the value of the metric")
    bound = getattr(gradient, "error_bound", None)  # Gradients of luthier.torch and luthier.jax have it.
    if len(metrics) > 1 and not isinstance(value, Mapping):
        raise TypeError(f"the objective returned {shown(value)}; it returns a dictionary with {', '.join(metrics)}")
    m = measurement(space, metrics[0], value, gradient=gradient, step=step, error_bound=bound, notes=notes, needed=metrics)
    lacking = [repr(name) for name in metrics if name not in m.metrics]
    if lacking:
        raise ValueError(
            f"the objective's metrics are {sorted(map(str, value))}; {', '.join(lacking)}, the study's, "
            f"{'is' if len(lacking) == 1 else 'are'} not among them"
        )
    return m


def check_point(goals: Sequence[str], value: Any, metrics: Optional[Mapping[str, Any]]) -> None:
    """Raises TypeError or ValueError for a reported point that lacks one of several objectives."""
    if len(goals) < 2:
        return
    value = split(value)[0]
    way = "report({" + ", ".join(f'"{name}": ...' for name in goals) + "}, step)"
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(
            f"the report has {shown(value)}; in a study with several objectives it has a dictionary with all of them: {way}"
        )
    given = {**(metrics or {}), **(value or {})}
    lacking = [name for name in goals if name not in given]
    if lacking:
        raise ValueError(
            f"the report lacks {', '.join(lacking)} and has {', '.join(map(str, given))}; in a study with several "
            f"objectives a point has all of them: {way}"
        )


def to_number(name: Any, value: Any) -> float:
    """Returns a value as a float: of numpy, torch and the like too. TypeError where it is no real number."""
    complex_number = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    if isinstance(value, (str, bytes)) or complex_number:
        raise TypeError(f"{name} is {shown(value)}, which is no real number")
    if isinstance(value, Decimal) and value.is_nan():
        return math.nan  # Python refuses to convert one that signals.
    mask = getattr(value, "mask", False)  # An attribute in numpy; in pandas it is a method.
    if not callable(mask) and getattr(value, "size", 0) == 1 and bool(mask):
        return math.nan  # A masked number has no value, though it converts to 0.
    try:
        return float(scalar(value))  # An array of one number will do.
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # Tensors of several numbers and others have classes of their own.
        raise TypeError(f"{name} is {shown(value)}, which is no number") from None


def ordered_gradient(space: Space, gradient: Mapping[str, Any]) -> Optional[list[float]]:
    """Returns the entries of a gradient that names vectors, in the order of the space; None where it names none.
    ValueError where a float is missing or a vector has another length."""
    if not any(name in space.by_name and space.by_name[name].spec.HasField("count") for name in gradient):
        return None
    values: list[float] = []
    for p in space.differentiable:
        if p.name not in gradient:
            raise ValueError(f"with vectors the gradient needs all float parameters; {p.name!r} is missing")
        some = gradient[p.name]
        if not p.spec.HasField("count"):
            values.append(to_number(p.name, some))
            continue
        entries = [to_number(p.name, x) for x in sequence(f"the gradient of {p.name}", some)]
        if len(entries) != p.spec.count:
            raise ValueError(f"the gradient of {p.name!r} has {len(entries)} entries, not {p.spec.count}")
        values += entries
    return values


def _put_gradient(space: Space, gradient: Mapping[str, Any], out: Any) -> None:
    unknown = sorted(str(name) for name in set(gradient) - set(space.by_name))
    if unknown:
        raise ValueError(f"the gradient names {unknown}, which the study has not; it has {sorted(space.by_name)}")
    values = ordered_gradient(space, gradient)
    if values is not None:
        out.full.values.extend(values)
        return
    for name, slope in gradient.items():
        out.by_name.values[space.by_name[name].legal] = to_number(name, slope)
