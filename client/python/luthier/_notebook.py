"""What a notebook shows of a study: a table and a picture, without scripts, so that it shows in untrusted notebooks
too."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from luthier import _wire
from luthier._frozen import FrozenTrial

if TYPE_CHECKING:
    from luthier._stored import Stored

_BEST = 5  # Rows of the table,
_COLUMNS = 8  # and parameters in it.
_DOTS = 1000
_WIDTH, _HEIGHT, _LEFT, _BELOW = 560.0, 160.0, 60.0, 16.0
_Dot = tuple[float, float]
_NONE = "no trial meets the constraints, so that none is the best; trial {} violates them least"


def show(study: Stored) -> str:
    """Returns the page of a study: state and counts, a picture of its results, and the best trials within the
    constraints; with several goals those of the front."""
    message = study._refresh()
    states = _wire.enum_names("Study.State")
    counts = {name: getattr(message.trials, name) for name in ("complete", "pruned", "failed", "running", "pending")}
    head = f"<b>{html.escape(study.name)}</b> {states[message.state]}"
    if message.state_reason:
        head += f" ({html.escape(message.state_reason)})"
    head += ": " + (", ".join(f"{n} {name}" for name, n in counts.items() if n) or "no trials yet")
    done = [t for t in study.get_trials(["COMPLETE"]) if t.values is not None]
    within = [t for t in done if t.feasible is not False]
    signs = [-1.0 if goal == "maximize" else 1.0 for goal in study.goals.values()]

    def rank(trial: FrozenTrial) -> float:
        return signs[0] * float(trial.value or 0.0)

    best = sorted(within, key=rank)
    if len(signs) > 1:
        front = set(message.front)
        best = [trial for trial in best if trial.number in front]
        head += f"; {len(best)} on the front" if best else ""
    if message.infeasible:
        head += f", {message.infeasible} beyond a bound"
    if message.least_violating_trial:
        head += "; " + _NONE.format(message.least_violating_trial)
    names = list(study._space.by_name)[:_COLUMNS]
    metrics = [*study.goals, *(name for name in study.constraints if name not in study.goals)]
    rows = [["trial", *metrics, *names]]
    for t in best[:_BEST]:
        rows.append([str(t.number), *(_short(t.metrics.get(m)) for m in metrics), *(_short(t.params.get(n)) for n in names)])
    table = "".join(
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * len(rows), rows)
    )
    picture = ""
    if len(done) > 1:
        picture = _front(study, done, best, signs) if len(signs) > 1 else _history(study, done, signs[0])
    return f"<div><div>{head}</div>{picture}{'<table>' + table + '</table>' if best else ''}</div>"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def _usual(values: Sequence[float], sign: float) -> tuple[float, float]:
    """Returns the best value, and the worst that is shown: the worst tenth is cut off at the border."""
    ranked = sorted(sign * value for value in values)
    return sign * ranked[0], sign * ranked[min(len(ranked) - 1, (9 * len(ranked)) // 10)]


def _history(study: Stored, done: Sequence[FrozenTrial], sign: float) -> str:
    """Returns an SVG of values by number, with a line for the best so far within the constraints."""
    values = {t.number: float(t.value or 0.0) for t in done}
    last = done[-1].number
    within = [t.number for t in done if t.feasible is not False]
    ends = _usual([values[n] for n in within] or list(values.values()), sign)
    # Trials beyond a bound that are better than all others are in the picture, too.
    first = sign * min(sign * value for value in values.values())
    picture = _Picture((0.0, float(last)), (first, ends[1]), sign > 0)
    best: list[_Dot] = []
    for n in within:
        if not best or sign * values[n] < sign * best[-1][1]:
            best.append((n, values[n]))
    if best:
        best.append((last, best[-1][1]))
    beyond = [(t.number, values[t.number]) for t in done if t.feasible is False]
    labels = f"{study.metric} by trial, 1 to {last}" + (", hollow beyond a bound" if beyond else "")
    return picture.draw(f"history of {study.metric}", [(n, values[n]) for n in within], beyond, best, labels)


def _front(study: Stored, done: Sequence[FrozenTrial], best: Sequence[FrozenTrial], signs: Sequence[float]) -> str:
    """Returns an SVG of the first two goals, with a line through the trials of the front."""
    a, b = list(study.goals)[:2]
    dots = {t.number: (t.metrics[a], t.metrics[b]) for t in done}
    x = _usual([dot[0] for dot in dots.values()], signs[0])
    y = _usual([dot[1] for dot in dots.values()], signs[1])
    picture = _Picture((min(x), max(x)), y, signs[1] > 0)
    within = [dots[t.number] for t in done if t.feasible is not False]
    beyond = [dots[t.number] for t in done if t.feasible is False]
    # In two goals the front is a staircase; of more goals two are seen, in which its trials surpass each other.
    line = sorted(dots[t.number] for t in best) if len(signs) == 2 else []
    labels = f"{b} over {a}, {_short(min(x))} to {_short(max(x))}" + (", hollow beyond a bound" if beyond else "")
    return picture.draw(f"{b} over {a}", within, beyond, line, labels)


class _Picture:
    """A frame from `x[0]` to `x[1]`, and from the best value, `y[0]`, to the worst that is shown, `y[1]`."""

    def __init__(self, x: _Dot, y: _Dot, best_is_low: bool) -> None:
        self._x, self._y, self._best_is_low = x, y, best_is_low

    def _place(self, dot: _Dot) -> _Dot:
        x = _LEFT + (_WIDTH - _LEFT - 6) * _share(dot[0], *self._x)
        share = _share(dot[1], *self._y)
        return x, 6 + (_HEIGHT - _BELOW - 12) * ((1 - share) if self._best_is_low else share)

    def draw(self, what: str, within: Sequence[_Dot], beyond: Sequence[_Dot], line: Sequence[_Dot], labels: str) -> str:
        """Returns the SVG with dots, hollow dots and a line of steps."""
        step = max(1, (len(within) + len(beyond)) // _DOTS)

        def circles(dots: Sequence[_Dot]) -> str:
            return "".join('<circle cx="{:.1f}" cy="{:.1f}" r="2"/>'.format(*self._place(dot)) for dot in dots[::step])

        hollow = f'<g fill="none" stroke="#a60" stroke-opacity="0.8">{circles(beyond)}</g>' if beyond else ""
        places = [self._place(dot) for dot in line]
        path = "".join(f"M{x:.1f},{y:.1f}" if i == 0 else f"H{x:.1f}V{y:.1f}" for i, (x, y) in enumerate(places))
        words = "".join(
            f'<text x="{_LEFT - 6}" y="{self._place((self._x[0], value))[1] + 4:.1f}" text-anchor="end">{value:.4g}</text>'
            for value in self._y
        )
        words += f'<text x="{_LEFT}" y="{_HEIGHT - 3}">{html.escape(labels)}</text>'
        return (
            f'<svg width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
            f'aria-label="{html.escape(what)}" style="display:block;font:11px sans-serif">'
            f'<g fill="#888" fill-opacity="0.6">{circles(within)}</g>{hollow}<path d="{path}" fill="none" stroke="#06c" '
            f'stroke-width="1.5"/><g fill="currentColor">{words}</g></svg>'
        )


def _share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)
