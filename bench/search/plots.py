"""The pictures of report.py: regret curves with quartiles, and the time of a suggestion against n. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results import GRADIENT_METHODS, LATENCY_TARGETS, LOOKALIKES, MARKS, WINDOW, latency_of, quantile

# Colours that the colour-blind tell apart (Okabe & Ito 2008), with line styles for print.
STYLES = [("#000000", "-"), ("#0072B2", "-"), ("#D55E00", "-"), ("#009E73", "-"), ("#CC79A7", "-"), ("#E69F00", "-")]
STYLES += [("#56B4E9", "--"), ("#7f7f7f", ":"), ("#D55E00", "--"), ("#009E73", "--"), ("#0072B2", ":")]


def draw(report: Any, folder: Path) -> None:
    """Writes search_regret.png and search_latency.png of a report.Report into `folder`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})

    # Regret: methods with quartiles to show; the rest is in the tables.
    shown = [m for m in report.methods if m not in (*GRADIENT_METHODS, *LOOKALIKES)]
    shown = [m for m in shown if max((len(report.runs_on(m, f)) for f in report.functions), default=0) >= 3]
    floor = 1e-16
    figure, axes = plt.subplots(4, 3, figsize=(10, 11), sharex=True)
    for axis, function in zip(axes.flat, report.functions):
        for method, (colour, style) in zip(shown, STYLES):
            runs = report.runs_on(method, function)
            if len(runs) < 3:
                continue
            ns = list(range(1, min(max(r.planned for r in runs), max(MARKS)) + 1))
            columns = [[r.regret_at(n) for r in runs] for n in ns]
            at = [[max(v, floor) for v in column if v is not None] for column in columns]
            median, low, high = ([quantile(c, q) for c in at] for q in (0.5, 0.25, 0.75))
            ours = method in report.ours
            axis.plot(ns, median, color=colour, linestyle=style, linewidth=2 if ours else 1.1, label=method,
                      zorder=3 if ours else 2)
            axis.fill_between(ns, low, high, color=colour, alpha=0.15 if ours else 0.08, linewidth=0)
        axis.set_yscale("log")
        axis.set_title(function, fontsize=9)
        axis.grid(alpha=0.25, linewidth=0.5)
    for axis in axes[-1]:
        axis.set_xlabel("evaluations")
    for axis in axes[:, 0]:
        axis.set_ylabel("regret, median and quartiles")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=min(len(handles), 8) or 1, frameon=False)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(folder / "search_regret.png", dpi=80, metadata={"Software": None})
    plt.close(figure)

    figure, axis = plt.subplots(figsize=(7.5, 4.5))
    styles = (STYLES * 2)[: len(report.methods)]
    for method, (colour, style) in zip([m for m in report.methods if m not in (*GRADIENT_METHODS, *LOOKALIKES)], styles):
        points = []
        for n in range(WINDOW, max(MARKS) + 1, WINDOW):
            measured = latency_of(report.runs_on(method, "hartmann6"), n)
            if measured:
                points.append((n, *measured))
        if not points:
            continue
        ns, p50, p95 = ([max(p[i], 1e-3) for p in points] for i in range(3))
        axis.plot(ns, p50, color=colour, linestyle=style, linewidth=2 if method in report.ours else 1.1, label=method)
        if method in report.ours:
            axis.fill_between(ns, p50, p95, color=colour, alpha=0.15, linewidth=0, label=f"{method}, to 95 %")
    axis.plot(list(LATENCY_TARGETS), [t[0] for t in LATENCY_TARGETS.values()], "k*", markersize=9, label="target, median")
    axis.set_yscale("log")
    axis.set_xlabel("evaluations so far (hartmann6)")
    axis.set_ylabel("CPU ms a suggestion, median")
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(folder / "search_latency.png", dpi=80, metadata={"Software": None})
    plt.close(figure)
