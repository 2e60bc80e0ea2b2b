"""What a notebook shows of a study: a table and a picture, without scripts, so that it shows in untrusted notebooks
too."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from luthier import _wire
from luthier._frozen import FrozenTrial

if TYPE_CHECKING:
    from luthier._stored import Stored

_BEST = 5  # Rows of the table,
_COLUMNS = 8  # and parameters in it.
_DOTS = 1000
_WIDTH, _HEIGHT, _LEFT, _BELOW = 560.0, 160.0, 60.0, 16.0


def show(study: Stored) -> str:
    """Returns the page of a study: state and counts, the history of its metric, and the best trials."""
    message = study._refresh()
    states = _wire.enum_names("Study.State")
    counts = {name: getattr(message.trials, name) for name in ("complete", "pruned", "failed", "running", "pending")}
    head = f"<b>{html.escape(study.name)}</b> {states[message.state]}"
    if message.state_reason:
        head += f" ({html.escape(message.state_reason)})"
    head += ": " + (", ".join(f"{n} {name}" for name, n in counts.items() if n) or "no trials yet")
    done = [t for t in study.get_trials(["COMPLETE"]) if t.value is not None]
    sign = -1.0 if study.direction == "maximize" else 1.0

    def rank(trial: FrozenTrial) -> float:
        return sign * float(trial.value or 0.0)

    best = sorted(done, key=rank)[:_BEST]
    names = list(study._space.by_name)[:_COLUMNS]
    rows = [["trial", study.metric, *names]]
    rows += [[str(t.number), _short(t.value), *(_short(t.params.get(name)) for name in names)] for t in best]
    table = "".join(
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * len(best), rows)
    )
    points = [(t.number, float(t.value)) for t in done if t.value is not None]
    picture = _history(points, sign, study.metric) if len(points) > 1 else ""
    return f"<div><div>{head}</div>{picture}{'<table>' + table + '</table>' if best else ''}</div>"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def _history(points: list[tuple[int, float]], sign: float, metric: str) -> str:
    """Returns an SVG of values by number, with a line for the best so far. The worst tenth is cut off at the border."""
    ranked = sorted(sign * value for _, value in points)
    low, high = ranked[0], ranked[min(len(ranked) - 1, (9 * len(ranked)) // 10)]
    span = (high - low) or 1.0
    last = points[-1][0]

    def place(number: int, score: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - 6) * number / last
        share = min(max((score - low) / span, 0.0), 1.0)
        return x, 6 + (_HEIGHT - _BELOW - 12) * ((1 - share) if sign > 0 else share)

    step = max(1, len(points) // _DOTS)
    dots = "".join(
        '<circle cx="{:.1f}" cy="{:.1f}" r="2"/>'.format(*place(number, sign * value))
        for number, value in points[::step]
    )
    path: list[str] = []
    best = float("inf")
    for number, value in points:
        if sign * value < best:
            best = sign * value
            x, y = place(number, best)
            path.append(f"M{x:.1f},{y:.1f}" if not path else f"H{x:.1f}V{y:.1f}")
    path.append(f"H{place(last, best)[0]:.1f}")
    ends = [(place(0, low)[1], sign * low), (place(0, high)[1], sign * high)]
    labels = "".join(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>' for y, value in ends)
    labels += f'<text x="{_LEFT}" y="{_HEIGHT - 3}">{html.escape(metric)} by trial, 1 to {last}</text>'
    return (
        f'<svg width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="history of {html.escape(metric)}" style="display:block;font:11px sans-serif">'
        f'<g fill="#888" fill-opacity="0.6">{dots}</g><path d="{"".join(path)}" fill="none" stroke="#06c" '
        f'stroke-width="1.5"/><g fill="currentColor">{labels}</g></svg>'
    )
