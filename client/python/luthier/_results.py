"""What objectives return and what the service stores of it: measurements, gradients, and trials read back."""

from __future__ import annotations

import inspect
import json
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from luthier import _wire
from luthier._arguments import mapping, sequence, text
from luthier.space import Space
from luthier.trial import FrozenTrial, TrialState

if TYPE_CHECKING:
    from luthier.study import Study


def split(result: Any, gradient: Optional[Mapping[str, Any]] = None) -> tuple[Any, Optional[Mapping[str, Any]]]:
    """Takes (value, {parameter: derivative}) apart. TypeError for other tuples."""
    if isinstance(result, tuple):
        if len(result) != 2 or not (result[1] is None or isinstance(result[1], Mapping)):
            raise TypeError(f"the result {result!r} is neither a value nor (value, {{parameter: derivative}})")
        return result[0], result[1]
    return result, gradient


def measurement(
    study: Study,
    value: Any,
    *,
    metrics: Optional[Mapping[str, Any]] = None,
    gradient: Optional[Mapping[str, Any]] = None,
    standard_errors: Optional[Mapping[str, Any]] = None,
    step: int = 0,
    error_bound: Optional[float] = None,
) -> Any:
    """Returns the Measurement of a value of the study's metric, or of a dictionary of metrics. TypeError,
    ValueError."""
    m = _wire.message("Measurement")(step=step)
    every: dict[Any, Any] = dict(mapping("metrics", metrics or {}, '{"accuracy": 0.9}'))
    if isinstance(value, Mapping):
        every.update(value)
    elif value is not None:
        every[study.metric] = value
    for name, number in every.items():
        m.metrics[text("a metric's name", name)] = to_number(name, number)
    for name, number in mapping("standard_errors", standard_errors or {}, '{"loss": 0.1}').items():
        if name not in every:
            raise ValueError(f"standard_errors names {name!r}, which is none of the metrics {sorted(every)}")
        m.standard_errors[name] = to_number(name, number)
    if gradient:
        _put_gradient(study._space, mapping("gradient", gradient, '{"l2": -2.0}'), m)
        if error_bound is not None:
            m.gradient.error_bound = to_number("error_bound", error_bound)
    return m


def final(study: Study, result: Any, step: int) -> Any:
    """Returns the Measurement of what an objective returned. TypeError and ValueError say what is wrong with it."""
    value, gradient = split(result)
    if inspect.isawaitable(value):
        getattr(value, "close", lambda: None)()  # Else Python complains that nobody awaited it.
        raise TypeError("the objective returned a coroutine: await it; async objectives are for luthier.aio.study")
    if value is None:
        raise TypeError("the objective returned None; it returns the value of the metric")
    bound = getattr(gradient, "error_bound", None)  # Of luthier.torch and luthier.jax.
    m = measurement(study, value, gradient=gradient, step=step, error_bound=bound)
    if study.metric not in m.metrics:
        raise ValueError(
            f"the objective's metrics are {sorted(m.metrics)}; {study.metric!r}, the study's, is not among them"
        )
    return m


def to_number(name: Any, value: Any) -> float:
    """Returns a value as a float: of numpy, torch and the like too. TypeError where it is no real number."""
    complex_number = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    if isinstance(value, (str, bytes)) or complex_number:
        raise TypeError(f"{name} is {value!r}, which is no real number")
    try:
        return float(value.item() if getattr(value, "size", 0) == 1 else value)  # An array of one number will do.
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {value!r}, which is no number") from None


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


def _put_gradient(space: Space, gradient: Mapping[str, Any], m: Any) -> None:
    unknown = sorted(str(name) for name in set(gradient) - set(space.by_name))
    if unknown:
        raise ValueError(f"the gradient names {unknown}, which the study has not; it has {sorted(space.by_name)}")
    values = ordered_gradient(space, gradient)
    if values is not None:
        m.gradient.full.values.extend(values)
        return
    for name, slope in gradient.items():
        m.gradient.by_name.values[space.by_name[name].legal] = to_number(name, slope)


def note(value: Any) -> str:
    """Returns an attribute's text: texts as they are, other values as JSON."""
    if isinstance(value, str):
        return text("an attribute", value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise TypeError(f"an attribute is {value!r}: it is a text, or what JSON can say") from None


def freeze(space: Space, metric: str, trial: Any) -> FrozenTrial:
    """Returns a Trial message as users see it."""
    last = trial.final_measurement
    gradient: Optional[dict[str, float]] = None
    if last.gradient.WhichOneof("kind") == "full":
        gradient = dict(zip(space.coordinates(), last.gradient.full.values))
    state = TrialState(_wire.enum_names("Trial.State")[trial.state])
    begin = trial.attempts[0].start_time if trial.attempts else trial.create_time if state.is_finished() else None
    return FrozenTrial(
        number=trial.number,
        state=state,
        params=space.decode(trial.parameters),
        value=last.metrics[metric] if metric in last.metrics else None,
        metrics=dict(last.metrics),
        standard_errors=dict(last.standard_errors),
        gradient=gradient,
        attributes=dict(trial.attributes),
        designer=trial.provenance.designer,
        failure=f"{trial.failure.reason}: {trial.failure.message}" if trial.HasField("failure") else "",
        started=_seconds(begin) if begin is not None else None,
        ended=_seconds(trial.end_time) if state.is_finished() else None,
        intermediate_values={p.step: p.metrics[metric] for p in trial.measurements if metric in p.metrics},
        step=last.step,
    )


def explain(space: Space, trial: Any) -> dict[str, Any]:
    """Returns why a trial's setting was tried, from its provenance."""
    p = trial.provenance
    out: dict[str, Any] = {"designer": p.designer, "origin": p.origin, "details": dict(p.details)}
    if p.HasField("ask_index"):
        out.update(ask_index=p.ask_index, prefix_seq=p.prefix_seq)
    if p.direction:
        out["direction"] = dict(zip(space.coordinates(), p.direction))
    if trial.gradient_set_aside:
        out["gradient_set_aside"] = True
    return out


def _seconds(time: Any) -> float:
    return float(time.seconds) + 1e-9 * float(time.nanos)
