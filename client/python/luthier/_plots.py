"""Figures of a study: `study.plot.history()` and others, as notebooks show them and as files."""

from __future__ import annotations

import html
import os
import subprocess
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier._arguments import sequence, text, whole
from luthier._server import environment, program
from luthier.errors import LuthierError

if TYPE_CHECKING:
    from luthier.study import Study

_SECONDS = 120.0
_HEIGHT = 560  # Pixels of a figure in a notebook,
_ROW = 340  # and of a row of several panels.
_KINDS = ("history", "edf", "slice", "contour", "parallel", "importance", "curves", "timeline", "front")


class Picture:
    """A figure of a study as it was when the figure was made. A notebook shows it: it can be zoomed into, and says the
    numbers under the pointer."""

    def __init__(self, study: Study, arguments: list[str], height: int = _HEIGHT) -> None:
        self._study = study
        self._arguments = arguments
        self._height = height
        self._words = f"{arguments[0]} of {study.name}"
        with tempfile.TemporaryDirectory(prefix="luthier-") as folder:
            path = os.path.join(folder, "figure.html")
            self.caption: str = self._draw(path)
            with open(path, encoding="utf-8") as file:
                self.html: str = file.read()

    def __repr__(self) -> str:
        return f"<luthier picture: {self._words}: {self.caption} A notebook shows it; .save('FILE.svg') writes it>"

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Draws the study as it is now into a file: .svg, .png or .pdf (with gnuplot), .html, .json or .gp. Raises
        LuthierError with what `luthier plot` says."""
        self._draw(os.fspath(path))

    def _draw(self, path: str) -> str:
        client = self._study._client
        command = [program("luthier"), "plot", *self._arguments, "--server", client.target(), "--out", path]
        if client.accept_plaintext:
            command.append("--accept-plaintext")
        run = subprocess.run(
            command, env=environment(client.local), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
        if run.returncode != 0:
            said = run.stderr.strip().removeprefix("luthier: ") or "luthier plot failed"
            for parameter in self._study._space.parameters:
                if parameter.legal != parameter.name:
                    said = said.replace(parameter.legal, parameter.name)
            raise LuthierError(said)
        return run.stderr.strip()

    def _repr_html_(self) -> str:
        # The page runs in a frame of an origin of its own: it reaches neither the notebook nor the network.
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{self._height}" frameborder="0" '
            f'title="{html.escape(self.caption)}" srcdoc="{html.escape(self.html)}"></iframe>'
        )


class Pictures:
    """Several figures below each other."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self.pictures: list[Picture] = list(pictures)

    def __repr__(self) -> str:
        words = ", ".join(picture._words for picture in self.pictures)
        return f"<luthier pictures: {words}. A notebook shows them; .pictures[0].save('FILE.svg') writes the first>"

    def _repr_html_(self) -> str:
        return "".join(picture._repr_html_() for picture in self.pictures)


class Plots:
    """The figures of a study. Each method draws the study as it is now; docs/guide/plots.md says what is seen.
    `study.plot("slice", ["x"])` is `study.plot.slice(["x"])`."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __call__(self, kind: str = "history", *arguments: Any, **options: Any) -> Picture:
        """Draws the figure of this name. Raises ValueError naming the figures that there are."""
        if text("kind", kind) not in _KINDS:
            raise ValueError(f"there is no figure {kind!r}; figures are {', '.join(_KINDS)}")
        picture: Picture = getattr(self, kind)(*arguments, **options)
        return picture

    def __repr__(self) -> str:
        return f"<luthier plots of {self._study.name}: {', '.join(f'.{kind}()' for kind in _KINDS)}>"

    def _legal(self, name: str) -> str:
        """Returns the name that the service has for a parameter, or for a part of a vector as "v.max"."""
        by_name = self._study._space.by_name
        whole_name, dot, part = name.rpartition(".")
        if name in by_name:
            return by_name[name].legal
        return by_name[whole_name].legal + dot + part if whole_name in by_name else name

    def _picture(
        self, kind: str, last: Optional[int] = None, metric: Optional[str] = None, compare: Sequence[str] = (),
        params: Optional[Sequence[str]] = None, height: int = _HEIGHT, more: Sequence[str] = (),
    ) -> Picture:  # fmt: skip
        arguments = [kind, self._study._path, *more]
        if last is not None:
            arguments += ["--last", str(whole("last", last))]
        if metric is not None:
            arguments += ["--metric", text("metric", metric)]
        for name in compare:
            arguments += ["--compare", text("compare", name)]
        if params is not None:
            arguments += ["--params", ",".join(self._legal(text("params", name)) for name in sequence("params", params))]
        return Picture(self._study, arguments, height)

    def history(
        self, *, compare: Sequence[str] = (), last: Optional[int] = None, metric: Optional[str] = None
    ) -> Picture:
        """Values by trial, and the best one so far; `compare` names other studies."""
        return self._picture("history", last, metric, compare)

    def edf(self, *, compare: Sequence[str] = (), last: Optional[int] = None, metric: Optional[str] = None) -> Picture:
        """The share of trials that are as good as each value."""
        return self._picture("edf", last, metric, compare)

    def slice(
        self, params: Optional[Sequence[str]] = None, *, last: Optional[int] = None, metric: Optional[str] = None
    ) -> Picture:
        """The metric over each parameter, with what the model expects and the slopes that were reported."""
        rows = -(-len(params or self._study._space.by_name) // 3)
        return self._picture("slice", last, metric, params=params, height=200 + _ROW * min(4, max(1, rows)))

    def contour(
        self, params: Optional[Sequence[str]] = None, *, last: Optional[int] = None, metric: Optional[str] = None
    ) -> Picture:
        """The metric over two parameters; without `params` over those on which the results depend most."""
        return self._picture("contour", last, metric, params=params)

    def parallel(
        self, params: Optional[Sequence[str]] = None, *, last: Optional[int] = None, metric: Optional[str] = None
    ) -> Picture:
        """A line for each trial through its parameters and its value."""
        return self._picture("parallel", last, metric, params=params)

    def importance(self, *, pairs: bool = False, metric: Optional[str] = None) -> Picture:
        """How much of the metric's variance each parameter explains."""
        return self._picture("importance", metric=metric, more=["--pairs"] if pairs else [])

    def curves(self, *, last: Optional[int] = None, metric: Optional[str] = None) -> Picture:
        """Learning curves of the best trials and of some others."""
        return self._picture("curves", last, metric)

    def timeline(self, *, last: Optional[int] = None) -> Picture:
        """When trials ran, on which worker."""
        return self._picture("timeline", last)

    def front(self, metrics: Optional[Sequence[str]] = None, *, last: Optional[int] = None) -> Picture:
        """Trials by two objectives, across and up, and those of which no other is as good in both; without `metrics` by
        the first two."""
        names = [] if metrics is None else [text("metrics", name) for name in sequence("metrics", metrics)]
        return self._picture("front", last, more=["--metrics", ",".join(names)] if names else [])
