"""What the gradients of torch and jax share: which hyperparameters have one, and the linear system of implicit
gradients."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

_log = logging.getLogger("luthier")

CONVERGED, LIMIT, PRECISION, INDEFINITE, DIVERGED = "converged", "limit", "precision", "indefinite", "diverged"
MOST_BOUNDED = 64  # Derivatives up to which an error bound is worth one backward pass for each.

_WHY = {
    LIMIT: "max_iterations ended the linear system",
    PRECISION: "floating point ended the linear system",
    INDEFINITE: "the training loss has no minimum at these weights (its Hessian is not positive definite)",
    DIVERGED: "a loss or a derivative is not finite",
}


class ImplicitGradient(dict[str, Any]):
    """Derivatives of the validation loss by hyperparameters' names, floats or arrays. An objective returns it as it is:
    `return gradient.value, gradient`. Empty, which means unknown, where `status` is "indefinite" or "diverged".

    `value` is the validation loss. `status` is "converged", "limit" (`max_iterations` ended it), "precision" (floating
    point did), "indefinite" (the weights are at no minimum) or "diverged" (something is not finite). `residual` is what
    is left of the linear system, relative to its right side, after `iterations`. `training_gradient` is the Euclidean
    norm of the training loss's gradient: the formula holds where it is 0. `error_bound` is an estimate of the
    derivatives' Euclidean error by the residual alone, None with more than 64 derivatives.
    """

    def __init__(
        self, derivatives: Mapping[str, Any], value: float, solution: Solution, training_gradient: float
    ) -> None:
        super().__init__(derivatives)
        self.value: float = value
        self.status: str = solution.status
        self.residual: float = solution.residual
        self.iterations: int = solution.iterations
        self.training_gradient: float = training_gradient
        self.error_bound: Optional[float] = None

    @property
    def converged(self) -> bool:
        """Whether the residual is at most the tolerance."""
        return self.status == CONVERGED

    def __repr__(self) -> str:
        how = f"{self.status}, residual {self.residual:.1e} after {self.iterations} iterations"
        return f"<ImplicitGradient {dict(self)}: {how}>"


@dataclass
class Solution:
    """The end of a linear system H q = b."""

    q: Any
    status: str
    residual: float
    iterations: int
    curvature: float = math.inf  # The least p'Hp / p'p on the way: an estimate from above of the least eigenvalue.


def solve(product: Callable[[Any], Any], b: Any, tolerance: float, max_iterations: int) -> Solution:
    """Solves H q = b by conjugate gradients. `product` returns H p for vectors like `b`, of torch, jax or numpy.

    Ends when |b - H q| <= tolerance |b|. The residual is computed anew before that is believed; where it is larger than
    the recursion says, conjugate gradients start again, until a start does not halve it any more.
    """
    size = math.sqrt(float(b @ b))
    out = Solution(b * 0.0, CONVERGED, 0.0, 0)
    if size == 0:
        return out
    r, best, before = b, out.q, math.inf
    while True:
        out.residual = math.sqrt(float(r @ r)) / size
        if not math.isfinite(out.residual):
            out.status = DIVERGED
        elif out.status != CONVERGED or out.residual <= tolerance:
            pass
        elif out.residual > before / 2:
            out.status = PRECISION
        else:
            best, before = out.q, out.residual
            out.status = _descend(product, r, out, tolerance * size, max_iterations)
            r = b - product(out.q)
            continue
        if out.status == PRECISION and before < out.residual:
            out.q, out.residual = best, before
        return out


def _descend(product: Callable[[Any], Any], r: Any, out: Solution, goal: float, max_iterations: int) -> str:
    """Improves `out.q` by conjugate gradients until the recursion's residual, from `r`, is at most `goal`."""
    p, rr = r, float(r @ r)
    while math.sqrt(rr) > goal:
        if out.iterations >= max_iterations:
            return LIMIT
        hp = product(p)
        out.iterations += 1
        php, pp = float(p @ hp), float(p @ p)
        if not math.isfinite(php):
            return DIVERGED
        if php <= 0:
            return INDEFINITE
        out.curvature = min(out.curvature, php / pp)
        step = rr / php
        out.q = out.q + step * p
        r = r - step * hp
        rr, last = float(r @ r), rr
        p = r + (rr / last) * p
    return CONVERGED


def warn(solution: Solution, tolerance: float) -> None:
    """Says in the log why a linear system did not converge."""
    if solution.status != CONVERGED:
        _log.warning(
            "implicit gradient: %s; residual %.1e after %d iterations, tolerance %.1e",
            _WHY[solution.status], solution.residual, solution.iterations, tolerance,
        )  # fmt: skip


def check_limits(tolerance: float, max_iterations: int) -> None:
    """Raises ValueError for invalid limits."""
    if not (0 < tolerance < 1):
        raise ValueError(f"tolerance is {tolerance!r}; it is above 0 and below 1")
    if max_iterations < 1:
        raise ValueError(f"max_iterations is {max_iterations!r}; it is at least 1")


def hyperparameters(trial: Any, names: Optional[Iterable[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that derivatives are of, floats or lists of floats, and all other values, each by name.

    `trial` is a trial or a mapping. Without `names` they are the floats and the vectors; where the trial tells its
    space, those of them that have no step. ValueError where there is none, or where `names` has others.
    """
    params: Mapping[str, Any] = trial if isinstance(trial, Mapping) else trial.params
    if names is None:
        stepped = _stepped(trial)
        wanted = [name for name, value in params.items() if _is_float(value) and name not in stepped]
    else:
        wanted = [names] if isinstance(names, str) else list(names)
    missing = [name for name in wanted if name not in params]
    if missing or not wanted:
        asked = sorted(params) or "none yet: in an open space call trial.suggest_float first"
        what = f"no hyperparameter {missing[0]!r}" if missing else "no float to differentiate by"
        raise ValueError(f"there is {what}; the trial has {asked}")
    floats = {
        name: [float(x) for x in params[name]] if _is_list(params[name]) else float(params[name]) for name in wanted
    }
    return floats, {name: value for name, value in params.items() if name not in floats}


def _stepped(trial: Any) -> set[str]:
    """Returns the names of floats with a step, which have no derivatives, where the trial tells its space."""
    space = getattr(trial, "_space", None) or getattr(getattr(trial, "_study", None), "_space", None)
    return set() if space is None else set(space.by_name) - {p.name for p in space.differentiable}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (_is_list(value) and len(value) > 0 and all(isinstance(x, float) for x in value))


def wanted(trial: Any) -> bool:
    """Whether the search can use a gradient of this trial."""
    return bool(getattr(trial, "wants_gradient", True))
