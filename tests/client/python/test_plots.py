"""Figures of a study in notebooks and as files, and how far importance is to be trusted."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from pathlib import Path

import pytest

import luthier


def tuned(name: str, db: str, n: int = 20) -> luthier.Study:
    study = luthier.study(name, {"x": (0.0, 1.0), "y": (1e-3, 1.0)}, algorithm="random", db=db)
    study.optimize(lambda t: (t["x"] - 0.3) ** 2 + 0.1 * t["y"], n_trials=n)
    return study


def test_every_figure_is_shown_and_saved(name: str, session_db: str, tmp_path: Path) -> None:
    plot = tuned(name, session_db).plot
    for picture in (
        plot.history(), plot.edf(), plot.slice(), plot.contour(["x", "y"]), plot.parallel(), plot.importance(),
        plot.curves(), plot.timeline(),
    ):  # fmt: skip
        shown = picture._repr_html_()
        assert shown.startswith('<iframe sandbox="allow-scripts"')
        assert "Content-Security-Policy" in picture.html and "<script" not in shown
        picture.save(tmp_path / "figure.json")
        assert json.loads((tmp_path / "figure.json").read_text())["caption"] == picture.caption
    if shutil.which("gnuplot"):
        plot.history(last=5, compare=[name]).save(tmp_path / "history.svg")
        assert "<svg" in (tmp_path / "history.svg").read_text()


def test_show_has_the_three_figures_that_everybody_wants(name: str, session_db: str) -> None:
    study = tuned(name, session_db)
    assert study.show()._repr_html_().count("<iframe") == 3
    assert len(re.findall("<iframe", study.plot.history()._repr_html_())) == 1


def test_parameters_are_drawn_by_the_names_that_the_user_gave(name: str, session_db: str, tmp_path: Path) -> None:
    study = luthier.study(name, {"a b": (0.0, 1.0), "10%": (0.0, 1.0)}, algorithm="random", db=session_db)
    study.optimize(lambda t: t["a b"], n_trials=3)
    study.plot.slice(params=["a b"]).save(tmp_path / "figure.json")
    assert json.loads((tmp_path / "figure.json").read_text())["panels"][0]["x"]["label"] == "a b"
    assert "contour of" in repr(study.plot.contour(["a b", "10%"]))
    with pytest.raises(luthier.LuthierError, match='"a c" is no parameter'):
        study.plot.slice(["a c"])


def test_a_plot_is_called_by_its_name_and_says_what_it_is(name: str, session_db: str) -> None:
    study = tuned(name, session_db, 3)
    assert study.plot("history").caption == study.plot.history().caption
    assert study.plot("slice", ["x"]).caption == study.plot.slice(["x"]).caption
    with pytest.raises(ValueError, match="no figure 'histroy'; figures are history, edf, slice"):
        study.plot("histroy")
    assert repr(study.plot) == (
        f"<luthier plots of {name}: .history(), .edf(), .slice(), .contour(), .parallel(), .importance(), .curves(), "
        ".timeline(), .front()>"
    )
    assert repr(study.plot.history()).startswith(f"<luthier picture: history of {name}: 3 trials; the best value is")
    assert repr(study.show()).startswith(f"<luthier pictures: history of {name}, slice of {name}, parallel of {name}.")


def test_what_cannot_be_drawn_says_why(name: str, session_db: str, tmp_path: Path) -> None:
    plot = tuned(name, session_db, 3).plot
    with pytest.raises(luthier.LuthierError, match='"z" is no parameter'):
        plot.slice(["z"])
    with pytest.raises(luthier.LuthierError, match="does not end in .svg"):
        plot.history().save(tmp_path / "x.jpeg")


def test_importance_has_intervals(name: str, session_db: str) -> None:
    importance = tuned(name, session_db, 60).importance()
    assert list(importance)[0] == "x"
    for parameter, share in importance.items():
        low, high = importance.intervals[parameter]
        assert 0.0 <= low <= high <= 1.0 and 0.0 <= share <= 1.0
    assert importance.trials == 60 and importance.left_out == 0 and importance.predicted > 0.3


def test_importance_says_in_the_users_words_why_not_to_trust_it(name: str, session_db: str) -> None:
    study = luthier.study(name, {"learning rate": (0.0, 1.0), "y": (0.0, 1.0)}, algorithm="random", db=session_db)
    study.add_trials({"params": {"learning rate": 0.5 + 1e-3 * (i % 7), "y": i / 40}, "value": i / 40} for i in range(40))
    importance = study.importance()
    assert any('"learning rate" hardly varied' in text for text in importance.warnings), importance.warnings
    said = str(importance)
    low, high = importance.intervals["y"]
    assert re.search(rf"^y +{100 * importance['y']:.1f} %  \({100 * low:.1f} to {100 * high:.1f}\)$", said, re.M), said
    assert said.count("warning: ") == len(importance.warnings)


def test_a_browser_shows_the_study_at_its_url(name: str, db: str) -> None:
    study = tuned(name, db, n=3)
    url = study.url
    assert url is not None and re.fullmatch(rf"http://127\.0\.0\.1:\d+/#token=lut_[\w-]+&/studies/default/{name}", url)
    assert study.url == url, "one token for all"
    token, address = re.search(r"token=([\w-]+)", url), url.split("/#")[0]
    assert token is not None
    body = json.dumps({"name": f"projects/default/studies/{name}"}).encode()
    request = urllib.request.Request(
        f"{address}/luthier.v1.StudyService/GetStudy",
        body,
        {"Content-Type": "application/json", "Authorization": f"Bearer {token[1]}"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.loads(answer.read())["trials"]["complete"] == "3"
