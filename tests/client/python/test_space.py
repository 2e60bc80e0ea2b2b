"""Spaces: domains, labels that keep their types, names that the service would not take."""

from __future__ import annotations

import math
from typing import Any

import pytest

import luthier
from luthier.space import Space, decode_label, encode_label, legal_name, to_domain, to_spec, to_specs

LABELS: list[Any] = [
    "a",
    "1",
    1,
    1.0,
    0.5,
    1e-5,
    True,
    "true",
    None,
    "null",
    "None",
    "",
    '"x"',
    -3,
    "NaN",
    "ä",
    "1e5",
    "[1]",
]


@pytest.mark.parametrize("label", LABELS, ids=repr)
def test_labels_keep_value_and_type(label: Any) -> None:
    if label == "":
        assert decode_label(encode_label(label)) == ""
        return
    back = decode_label(encode_label(label))
    assert back == label and type(back) is type(label)


def test_labels_are_all_different() -> None:
    assert len({encode_label(label) for label in LABELS}) == len(LABELS)


def test_labels_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    assert [decode_label(encode_label(x)) for x in (np.int64(3), np.float64(0.25), np.bool_(True), np.str_("s"))] == [
        3,
        0.25,
        True,
        "s",
    ]


def test_labels_that_are_none() -> None:
    with pytest.raises(TypeError, match="can't be a label"):
        luthier.Categorical([object()])
    with pytest.raises(ValueError, match="not all different"):
        luthier.Categorical(["a", "a"])


def test_labels_through_the_service(name: str, session_db: str) -> None:
    labels = [1, "1", 0.5, None, True, "x"]
    study = luthier.study(name, {"c": luthier.Categorical(labels), "o": luthier.Ordinal([1, 2.5, 10])}, db=session_db)
    for label in labels:
        study.enqueue({"c": label, "o": 2.5})
    seen: list[Any] = []

    def objective(trial: luthier.Trial) -> float:
        seen.append(trial["c"])
        assert type(trial["o"]) is float
        return 0.0

    study.optimize(objective, n_trials=len(labels))
    assert [(type(s), s) for s in seen] == [(type(s), s) for s in labels]
    again = luthier.load(name, db=session_db)
    assert [type(t.params["c"]) for t in again.trials] == [type(label) for label in labels]


def test_kinds_through_the_service(name: str, session_db: str) -> None:
    space = {
        "f": (0.0, 1.0),
        "i": (1, 5),
        "log": luthier.Int(1, 1000, log=True),
        "p": luthier.Float(0.01, 0.99, logit=True),
        "step": luthier.Float(0, 1, step=0.25),
        "b": luthier.Bool(),
        "flag": [True, False],
        "kind": ["mlp", "linear"],
        "width": luthier.Int(8, 64).when("kind", "mlp"),
    }
    study = luthier.study(name, space, algorithm="random", db=session_db)

    def objective(trial: luthier.Trial) -> float:
        p = trial.params
        assert isinstance(p["f"], float) and type(p["i"]) is int and type(p["log"]) is int
        assert type(p["b"]) is bool and type(p["flag"]) is bool
        assert p["step"] in (0, 0.25, 0.5, 0.75, 1)
        assert ("width" in trial) == (p["kind"] == "mlp") == ("width" in p)
        if p["kind"] == "mlp":
            assert type(trial["width"]) is int
        else:
            with pytest.raises(KeyError, match="width"):
                trial["width"]
        return 0.0

    study.optimize(objective, n_trials=12)
    assert list(study.trials[0].params)[:8] == list(space)[:8]


def test_names_that_are_not_legal(name: str, session_db: str) -> None:
    names = ["lr/0", "a b", "ärger", "luthier.x", "x" * 100, "9"]
    assert len({legal_name(n) for n in names}) == len(names) and legal_name("lr") == "lr"
    study = luthier.study(name, {n: (0.0, 1.0) for n in names}, db=session_db)
    study.enqueue({n: 0.5 for n in names})
    study.optimize(lambda t: (sum(t.params.values()), {n: 1.0 for n in names}), n_trials=2)
    again = luthier.load(name, db=session_db)
    assert again.trials[0].params == {n: 0.5 for n in names}
    assert again.trials[0].gradient == {n: 1.0 for n in names}


def test_vectors(name: str, session_db: str) -> None:
    study = luthier.study(name, {"w": luthier.Float(0, 1, count=3), "x": (0.0, 1.0)}, algorithm="random", db=session_db)
    study.optimize(lambda t: (sum(t["w"]) + t["x"], {"w": [1.0, 1.0, 1.0], "x": 1.0}), n_trials=2)
    assert study.trials[0].gradient == {"w[0]": 1.0, "w[1]": 1.0, "w[2]": 1.0, "x": 1.0}


@pytest.mark.parametrize(
    "space, error, words",
    [
        ({"x": 3}, TypeError, "is no domain"),
        ({"x": "abc"}, TypeError, "is no domain"),
        ({"": (0.0, 1.0)}, ValueError, "is empty"),
        ({"x": luthier.Int(0, 1).when("y", 1)}, ValueError, "there is no 'y'"),
        ({"x": (1.0, 0.0)}, luthier.BadField, r"space\[0\]"),
        ({"x": luthier.Float(0, 1, log=True)}, luthier.BadField, "min"),
        ({"x": (0.0, math.inf)}, luthier.BadField, "finite"),
        ({"x": []}, luthier.BadField, "label"),
    ],
)
def test_bad_spaces_say_what_is_wrong(
    space: Any, error: type[Exception], words: str, name: str, session_db: str
) -> None:
    with pytest.raises(error, match=words):
        luthier.study(name, space, db=session_db)


def test_all_that_is_wrong_is_said_at_once(name: str, session_db: str) -> None:
    with pytest.raises(luthier.BadField) as caught:
        luthier.study(name, {"x": (1.0, 0.0), "y": (3, 1)}, max_trials=0, db=session_db)
    fields = [violation.field for violation in caught.value.violations]
    assert len(fields) >= 3 and any("max_trials" in f for f in fields), fields
    assert caught.value.reason == "BAD_FIELD"


def test_domains_of_others() -> None:
    class FloatDistribution:
        low, high, log, step = 1e-3, 1.0, True, None

    domain = to_domain(FloatDistribution())
    assert isinstance(domain, luthier.Float) and domain.log
    stats = pytest.importorskip("scipy.stats")
    log = to_domain(stats.loguniform(1e-3, 1.0))
    assert isinstance(log, luthier.Float) and log.log and (log.low, log.high) == (1e-3, 1.0)
    whole = to_domain(stats.randint(3, 7))
    assert isinstance(whole, luthier.Int) and (whole.low, whole.high) == (3, 6)


def test_conditions_on_typed_labels() -> None:
    specs = to_specs({"k": [1, "1"], "x": luthier.Float(0, 1).when("k", 1)})
    assert [v.string_value for v in specs[1].condition.values] == ["1"]
    specs = to_specs({"n": (1, 3), "x": luthier.Float(0, 1).when("n", 2, 3)})
    assert [v.number_value for v in specs[1].condition.values] == [2, 3]


def test_same_domain_knows_defaults() -> None:
    known = Space([to_spec("x", luthier.Int(1, 5, step=1))]).by_name["x"]
    assert known.same_domain(to_spec("x", (1, 5))) and not known.same_domain(to_spec("x", (1, 6)))


def test_tuples_are_ranges_and_lists_are_choices() -> None:
    def shown(given: Any) -> Any:
        d = to_domain(given)
        return type(d).__name__, getattr(d, "choices", None) or (d.low, d.high, d.log)  # type: ignore[attr-defined]

    assert shown((1, 8)) == ("Int", (1, 8, False)) and shown((1.0, 8)) == ("Float", (1.0, 8.0, False))
    assert shown((1e-6, 1e6, "log-uniform")) == ("Float", (1e-6, 1e6, True))
    assert shown((1, 64, "log-uniform")) == ("Int", (1, 64, True)) and shown((1, 64, "uniform")) == ("Int", (1, 64, False))
    assert shown([1, 8]) == shown([1, 8]) == ("Categorical", [1, 8]) and shown(("a", "b")) == ("Categorical", ["a", "b"])
    for wrong in ((1, 2, 3), (1,), (1, "a"), (1e-6, 1e6, "log")):
        with pytest.raises((TypeError, ValueError), match="choices|labels"):
            to_domain(wrong)


@pytest.mark.parametrize(
    ("value", "choices", "place"),
    [
        (True, [1, True], 1),
        (1, [True, 1.0, 1], 2),
        (1.0, [True, 1], 1),
        ("1", [1, "1"], 1),
        ("1", [1], None),
        (True, [1], None),
        (None, ["None", None], 1),
        ((2, 3), [[2, 3], (2, 3)], 1),
        (float("nan"), [1], None),
    ],
)
def test_places_among_choices(value: Any, choices: list[Any], place: Any) -> None:
    assert luthier.space.place_of(value, choices) == place
