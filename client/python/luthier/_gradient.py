"""Gradients of objectives, checked against differences of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from luthier import _results

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Slope:
    """One derivative: what the objective returned, and what differences of its values say."""

    name: str
    returned: float
    measured: float

    @property
    def error(self) -> float:
        """The difference of the two, relative to the larger one."""
        if not (math.isfinite(self.returned) and math.isfinite(self.measured)):
            return math.inf
        return abs(self.returned - self.measured) / max(abs(self.returned), abs(self.measured), 1e-9)


class GradientCheck(dict[str, float]):
    """The relative error of each derivative by its name. Printed, it is a table that says what is wrong."""

    def __init__(self, slopes: Sequence[Slope], missing: Sequence[str]) -> None:
        super().__init__((slope.name, slope.error) for slope in slopes)
        self.slopes: list[Slope] = list(slopes)
        self.missing: list[str] = list(missing)

    @property
    def ok(self) -> bool:
        """Whether all errors are at most 1e-3."""
        return all(error <= TOLERANCE for error in self.values())

    def __repr__(self) -> str:
        width = max([9, *(len(slope.name) for slope in self.slopes)])
        lines = [f"{'parameter':<{width}}  {'returned':>12}  {'measured':>12}  {'error':>8}"]
        for slope in self.slopes:
            verdict = "" if slope.error <= TOLERANCE else "  wrong" + _guess(slope)
            numbers = f"{slope.returned:>12.5g}  {slope.measured:>12.5g}  {slope.error:>8.1e}"
            lines.append(f"{slope.name:<{width}}  {numbers}{verdict}")
        if self.missing:
            lines.append(f"not returned, so unknown: {', '.join(self.missing)}")
        return "\n".join(lines)

    __str__ = __repr__


def _guess(slope: Slope) -> str:
    if slope.returned and abs(slope.returned + slope.measured) <= TOLERANCE * abs(slope.measured):
        return ": the sign is the other one"
    return ""


class _FixedTrial:
    """Stands for a trial of which only the setting matters."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = self.suggested = dict(params)
        self.tolerance: Optional[float] = None
        self.number, self.attempt, self.seed = 1, 1, 0
        self.start_step = 0
        self.checkpoint: Optional[str] = None
        self.target_step: Optional[int] = None
        self.direction: Optional[dict[str, float]] = None
        self.wants_gradient = True

    def __getitem__(self, name: str) -> Any:
        if name not in self.params:
            raise KeyError(f"the objective asks for {name!r}; the setting to check has {sorted(self.params)}")
        return self.params[name]

    def __contains__(self, name: str) -> bool:
        return name in self.params

    def suggest_float(self, name: str, *_: Any, **__: Any) -> Any:
        """Returns the value of the setting."""
        return self[name]

    suggest_int = suggest_categorical = suggest_float

    def report(self, *_: Any, **__: Any) -> str:
        """Says that training goes on."""
        return "CONTINUE"

    def should_stop(self) -> bool:
        """Says that training goes on."""
        return False

    should_prune = should_pause = should_stop

    def set_attribute(self, *_: Any) -> None:
        """Does nothing."""

    set_user_attr = set_attribute


def check_gradient(
    objective: Callable[[Any], Any], params: Mapping[str, Any], *, metric: str = "value", step: float = 1e-4
) -> GradientCheck:
    """Compares the gradient that an objective returns at a setting with differences of its values.

    `objective` is called about four times for each derivative, without a study; it must give the same value for the
    same setting. `step` is the length of the longer differences, relative to each parameter. Returns the relative
    errors; above 1e-3 something is wrong. Raises ValueError where the objective returns no gradient, or one of names
    that the setting lacks.

        print(luthier.check_gradient(objective, {"l2": 0.1}))
    """

    def run(setting: Mapping[str, Any]) -> tuple[float, Mapping[str, Any]]:
        value, gradient = _results.split(objective(_FixedTrial(setting)))
        return float(value[metric] if isinstance(value, Mapping) else value), gradient or {}

    def along(name: str, place: Optional[int]) -> float:
        x = float(params[name] if place is None else params[name][place])

        def value_at(at: float) -> float:
            moved: Union[float, list[float]] = at
            if place is not None:
                moved = [*params[name][:place], at, *params[name][place + 1 :]]
            return run({**params, name: moved})[0]

        h = step * (abs(x) or 1.0)
        long, short = ((value_at(x + d) - value_at(x - d)) / (2 * d) for d in (h, h / 2))
        return (4 * short - long) / 3  # The errors of second order cancel.

    _, gradient = run(params)
    if not gradient:
        raise ValueError("the objective returns no gradient: return value, {parameter: derivative}")
    unknown = sorted(set(gradient) - set(params))
    if unknown:
        raise ValueError(f"the gradient names {unknown}; the setting to check has {sorted(params)}")
    slopes: list[Slope] = []
    for name, slope in gradient.items():
        if isinstance(params[name], Sequence):
            slopes += [Slope(f"{name}[{i}]", float(s), along(name, i)) for i, s in enumerate(slope)]
        else:
            slopes.append(Slope(name, float(slope), along(name, None)))
    missing = [name for name, x in params.items() if isinstance(x, float) and name not in gradient]
    return GradientCheck(slopes, missing)
