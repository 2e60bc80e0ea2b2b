"""Arguments of the wrong type: every one is an error that names it, and never one of our own making."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pytest

import luthier
from luthier._arguments import number, whole

ODD = [
    None, 3, -1, 2.5, float("nan"), float("inf"), "text", b"bytes", "", [], {}, object(), True, 10**30, (1, 2), {1: 2},
    len, decimal.Decimal("1.5"), "half \ud800",
]  # fmt: skip
OF_A_STUDY = [
    "metric", "goal", "algorithm", "max_trials", "max_parallel", "max_failed_trials", "patience", "until_answered",
    "target_value", "seed", "reproducible", "resource", "stopping", "weight", "labels", "display_name", "description", "lease_ttl",
    "max_attempts", "objective",
]  # fmt: skip


@pytest.fixture(scope="module")
def study(session_db: str) -> luthier.Study:
    """A study that takes all that is right."""
    space = {"x": (0.0, 1.0), "k": (1, 9), "c": ["a", 1, None], "v": luthier.Float(0, 1, count=2), "b": luthier.Bool()}
    return luthier.study(
        "arguments", space, algorithm="random", max_trials=10_000, max_failed_trials=10_000, db=session_db
    )


def complaint(call: Callable[[], Any]) -> str:
    """Returns what an error says; "" where there is none. Errors of the wrong kind fail the test."""
    try:
        call()
    except (TypeError, ValueError, KeyError, luthier.LuthierError) as error:
        text = str(error)
        for of_python in (
            "has type",
            "has no attribute",
            "not iterable",
            "unsupported",
            "not supported",
            "required argument",
        ):
            assert of_python not in text, text
        assert text
        return text
    return ""


@pytest.mark.parametrize("argument", OF_A_STUDY)
def test_of_a_study(argument: str, name: str, session_db: str) -> None:
    said = [
        complaint(lambda: luthier.study(f"{name[:50]}-{i}", {"x": (0.0, 1.0)}, db=session_db, **{argument: odd}))
        for i, odd in enumerate(ODD)
    ]
    told = [text for text in said if text]
    assert len(told) > 5 and all(argument in text or argument.partition("_")[0] in text for text in told), told


def test_of_domains(name: str, session_db: str) -> None:
    makers: list[Callable[[Any], Any]] = [
        lambda odd: {"x": odd},
        lambda odd: {"x": luthier.Float(odd, 1)},
        lambda odd: {"x": luthier.Float(0, 1, step=odd)},
        lambda odd: {"x": luthier.Float(0, 1, count=odd)},
        lambda odd: {"x": luthier.Float(0, 1, default=odd)},
        lambda odd: {"x": luthier.Float(1, 2, log=odd)},
        lambda odd: {"x": luthier.Int(odd, 9)},
        lambda odd: {"x": luthier.Int(0, 9, step=odd)},
        lambda odd: {"x": luthier.Categorical(odd)},
        lambda odd: {"x": luthier.Categorical([odd, "z"])},
        lambda odd: {"a": ["p", "q"], "x": luthier.Float(0, 1).when("a", odd)},
        lambda odd: {odd: (0.0, 1.0)},
        lambda odd: odd,
    ]
    for i, make in enumerate(makers):
        said = [complaint(lambda: luthier.study(f"{name[:50]}-{i}-{j}", make(odd), db=session_db))  # noqa: B023
                for j, odd in enumerate(ODD) if not (isinstance(odd, dict) and make is makers[-2])]  # fmt: skip
        assert sum(map(bool, said)) > 5, (i, said)


def test_of_trials(study: luthier.Study) -> None:
    def with_trial(use: Callable[[luthier.Trial], Any]) -> Callable[[], Any]:
        def call() -> None:
            trial = study.ask()
            try:
                use(trial)
            finally:
                if trial.number in study._asked.open:
                    study.tell(trial, state="FAILED")

        return call

    uses: dict[str, Callable[[luthier.Trial, Any], Any]] = {
        "tell": lambda t, odd: study.tell(t, odd),
        "tell state": lambda t, odd: study.tell(t, 1.0, state=odd),
        "tell gradient": lambda t, odd: study.tell(t, 1.0, gradient=odd),
        "tell slope": lambda t, odd: study.tell(t, 1.0, gradient={"x": odd}),
        "tell vector": lambda t, odd: study.tell(t, 1.0, gradient={"x": 1.0, "v": odd}),
        "tell errors": lambda t, odd: study.tell(t, 1.0, standard_errors=odd),
        "tell bound": lambda t, odd: study.tell(t, 1.0, gradient={"x": 1.0}, error_bound=odd),
        "tell metric": lambda t, odd: study.tell(t, {"other": 1.0, "value": odd}),
        "report": lambda t, odd: t.report(odd),
        "report step": lambda t, odd: t.report(1.0, step=odd),
        "report metrics": lambda t, odd: t.report(metrics=odd),
        "report gradient": lambda t, odd: t.report(1.0, gradient=odd),
        "attribute": lambda t, odd: t.set_attribute(odd, "a"),
        "note": lambda t, odd: t.set_user_attr(odd, "a"),
        "parameter": lambda t, odd: t[odd] if not isinstance(odd, (list, dict)) else t["none"],
    }
    for what, use in uses.items():
        told = [complaint(with_trial(lambda t: use(t, odd))) for odd in ODD]  # noqa: B023
        assert sum(map(bool, told)) > 2, (what, told)
    assert study.get_trials(["RUNNING"]) == []


def test_of_studies(study: luthier.Study, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    full = {"x": 0.5, "k": 3, "c": "a", "v": [0.1, 0.2], "b": True}

    def objective(trial: luthier.Trial) -> float:
        return 1.0

    uses: dict[str, Callable[[Any], Any]] = {
        "n": lambda odd: [study.tell(t, state="FAILED") for t in study.ask(odd if odd is not None else 1)],
        "trial": lambda odd: study.tell(odd, 1.0),
        "n_trials": lambda odd: study.optimize(objective, odd if odd is not None else 1),
        "timeout": lambda odd: study.optimize(objective, 1, odd),
        "n_jobs": lambda odd: study.optimize(objective, 1, n_jobs=odd),
        "processes": lambda odd: study.optimize(objective, 1, processes=odd if odd not in (3, True) else 0),
        "catch": lambda odd: study.optimize(objective, 1, catch=odd),
        "callbacks": lambda odd: study.optimize(objective, 1, callbacks=odd),
        "objective": lambda odd: study.optimize(odd if odd is not len else 0, 1),
        "setting": lambda odd: study.enqueue(odd or 0),
        "x": lambda odd: study.enqueue({"x": odd}),
        "attributes": lambda odd: study.enqueue({"x": 0.5}, odd),
        "trials": lambda odd: study.add_trials(odd),
        "result": lambda odd: study.add_trials([odd or 0]),
        "predict": lambda odd: study.predict(odd or 0),
        "at_seq": lambda odd: study.predict(full, at_seq=odd),
        "number": lambda odd: study.trial(odd),
        "numbers": lambda odd: study.retry(odd if odd not in (None, "", [], {}) else 0),
        "filter": lambda odd: study.get_trials(filter=odd, limit=1),
        "limit": lambda odd: study.get_trials(limit=odd),
        "file": lambda odd: study.export(odd),
        "labels": lambda odd: study.update(labels=odd if odd is not None else 0),
        "patience": lambda odd: study.update(patience=odd if odd not in (None, 3) else -1),
        "project": lambda odd: luthier.workers(project=odd, server="unix:/nowhere"),
    }
    for row in ("params", "state", "value", "metrics", "gradient", "standard_errors", "step", "curve", "started"):
        uses["row " + row] = lambda odd, row=row: study.add_trials([{"params": full, "value": 1.0, row: odd}])  # type: ignore[misc]
    for what, use in uses.items():
        told = [complaint(lambda: use(odd)) for odd in ODD]  # noqa: B023
        assert sum(map(bool, told)) > 2, (what, told)
    assert study.get_trials(["RUNNING"]) == []


def test_a_trial_whose_result_was_refused_is_told_again(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    trial = study.ask()
    with pytest.raises(luthier.BadField):
        study.tell(trial.number, {"other": 1.0})
    study.tell(trial.number, 0.5)
    assert study.trial(trial.number).value == 0.5


def test_numbers_as_people_have_them() -> None:
    np = pytest.importorskip("numpy")
    assert [whole("n", n) for n in (7, 7.0, 1e3, np.int8(7), np.float32(7), np.array(7), np.array([7.0]))] == [
        7, 7, 1000, 7, 7, 7, 7
    ]  # fmt: skip
    assert [number("x", x) for x in (0.5, 1, np.float16(0.5), np.array([0.5]), decimal.Decimal("0.5"))] == [
        0.5, 1.0, 0.5, 0.5, 0.5
    ]  # fmt: skip
    for bad in (True, np.bool_(True), "7", np.array([1, 2]), 1j, None):
        with pytest.raises(TypeError, match="^n is "):
            whole("n", bad)
        with pytest.raises(TypeError, match="^n is "):
            number("n", bad)


@pytest.mark.parametrize(
    "words, said",
    [
        ({"algorithm": "cma-es"}, r"algorithm is 'cma-es': it is one of asha, auto, .*; did you mean 'cma_es'\?"),
        ({"algorithm": {"tpe": {"candidate": 3}}}, "tpe has no 'candidate'; it has .*; did you mean 'candidates"),
        ({"stopping": "medain"}, "stopping is 'medain': it is one of curve, median, percentile; did you mean 'median'"),
        ({"objective": {"comand": {"argv": ["true"]}}}, "objective is 'comand': .*did you mean 'command'"),
        ({"objective": {"command": {"args": ["true"]}}}, "command has no 'args'; .*did you mean 'argv'"),
        ({"algorithm": {"bo": {"kernel": "SE"}}}, r"bo has no 'kernel': it moved; write {'expert': {'kernel': ...}}"),
        ({"algorithm": {"bo": {"trust_box": "TRUST_BOX_ON"}}}, "bo has no 'trust_box' any more; leave it out"),
        ({"algorithm": {"grid": {"expert": {"center": True}}}}, "grid.expert has no 'center'; .*did you mean 'centres'"),
        ({"algorithm": {"asha": {"sampler": {"hbo": {"warp": "LOG"}}}}}, "asha.sampler.hbo has no 'warp': it moved"),
    ],
)
def test_wrong_names_are_told_with_those_that_there_are(words: Any, said: str, name: str, session_db: str) -> None:
    with pytest.raises(ValueError, match=said):
        luthier.study(name, db=session_db, **words)
    with pytest.raises(TypeError, match=r"^study\(\) got an unexpected keyword argument 'algoritm'"):
        luthier.study(name, db=session_db, algoritm="tpe")  # type: ignore[call-arg]
