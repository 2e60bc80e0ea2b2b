"""Results that come in and go out: files, data frames, Optuna, scikit-learn; and what a notebook shows."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

import luthier
from luthier import _csv, _wire, table
from luthier._server import program

SPACE: dict[str, Any] = {
    "x": (0.0, 1.0),
    "k": (1, 9),
    "c": luthier.Categorical(["a", 1, "1", None, True, "=1+1"]),
    "flag": luthier.Bool(),
    "größe/ß": luthier.Float(1e-3, 1.0, log=True),
    "state": (0, 5),
}


def _filled(name: str, db: str) -> luthier.Study:
    """Returns a study whose trials have all that a trial may have."""
    study = luthier.study(name, SPACE, metric="loss", algorithm="random", max_trials=30, db=db)

    def objective(trial: luthier.Trial) -> Any:
        if trial.number == 3:
            raise ValueError("boom")
        for step in (1, 2):
            trial.report(trial["x"] / step, step)
        if trial.number == 4:
            raise luthier.TrialPruned
        trial.set_attribute("note", '=HYPERLINK("http://x")' if trial.number == 1 else {"a": [1]})
        return {"loss": trial["x"], "acc": 1 / 3}, {"x": 1.0, "größe/ß": 0.1}

    study.optimize(objective, n_trials=8, catch=(ValueError,))
    return study


def _same(left: list[luthier.FrozenTrial], right: list[luthier.FrozenTrial], what: tuple[str, ...]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right):
        for field in what:
            assert getattr(a, field) == getattr(b, field), (field, a, b)


def test_jsonl_loses_nothing(name: str, session_db: str, tmp_path: Path) -> None:
    study = _filled(name, session_db)
    path = str(tmp_path / "trials.jsonl")
    study.export(path, curves=True)
    other = luthier.study(name + "-b", SPACE, metric="loss", algorithm="random", db=session_db)
    assert other.import_trials(path) == list(range(1, 9))
    fields = ("params", "state", "value", "metrics", "gradient", "step", "intermediate_values")
    numbers = range(1, 9)
    _same([study.trial(n) for n in numbers], [other.trial(n) for n in numbers], fields)
    assert json.loads(other.trial(2).attributes["note"]) == {"a": [1]}
    assert other.trial(1).attributes["luthier.source"] == "trials.jsonl"
    # The form is the command line's: it reads ours, and we read its own.
    command = [program("luthier"), "--server", study._client.target()]
    subprocess.run([*command, "study", "import", path, "--name", name + "-c"], check=True, capture_output=True)
    _same(luthier.load(name + "-c", db=session_db).trials, study.trials, ("params", "state", "value", "gradient"))
    theirs = str(tmp_path / "theirs.jsonl")
    subprocess.run([*command, "study", "export", name, "--out", theirs], check=True, capture_output=True)
    opened = luthier.study(name + "-d", metric="loss", db=session_db)
    opened.import_trials(theirs)
    _same(opened.trials, study.trials, ("params", "value"))


def test_csv(name: str, session_db: str, tmp_path: Path) -> None:
    study = _filled(name, session_db)
    path = tmp_path / "trials.csv"
    study.export(str(path))
    head, first = path.read_text(encoding="utf-8").splitlines()[:2]
    names = "params_x,params_k,params_c,params_flag,params_größe/ß,params_state"
    assert head == f"number,state,loss,{names},metrics_acc,step,attrs_note"
    assert "'=HYPERLINK" in first
    other = luthier.study(name + "-b", SPACE, metric="loss", db=session_db)
    other.import_trials(str(path))
    _same(other.trials, study.trials, ("params", "state", "value", "metrics", "step"))
    assert other.trial(1).attributes["note"] == study.trial(1).attributes["note"]


FORMAT = json.loads((Path(__file__).parents[2] / "data" / "tables" / "format.json").read_text(encoding="utf-8"))


def _essence(message: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"state": _wire.enum_names("Trial.State")[message.state]}
    out["parameters"] = _wire.plain(message).get("parameters", {})
    out["metrics"] = dict(message.final_measurement.metrics)
    if message.final_measurement.step:
        out["step"] = message.final_measurement.step
    if message.attributes:
        out["attributes"] = dict(message.attributes)
    return out


def test_the_format_of_tables_is_the_command_lines() -> None:
    assert list(table.RESERVED) == FORMAT["reserved"] and list(table.PREFIXES) == FORMAT["prefixes"]


@pytest.mark.parametrize("given", FORMAT["tables"], ids=lambda given: given["name"])
def test_tables_of_the_format_are_read(given: Any, name: str, session_db: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(given["csv"], encoding="utf-8", newline="")
    study = luthier.study(name, metric=given["metric"], db=session_db)
    wanted = [{k: v for k, v in trial.items() if k != "incomplete"} for trial in given["trials"]]
    assert [_essence(trial) for trial in table.read(study, str(path))] == wanted
    study._refresh()
    kinds = {p.legal: [p.kind, *([_labels(p)] if p.labels() else [])] for p in study._space.parameters}
    assert kinds == {entry[0]: entry[1:] for entry in given["space"]}


def _labels(p: Any) -> list[str]:
    return list(p.spec.categorical.values)


@pytest.mark.parametrize("given", FORMAT["refused"], ids=lambda given: given["words"])
def test_what_the_format_refuses_is_named(given: Any, name: str, session_db: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(given["csv"], encoding="utf-8")
    study = luthier.study(name, {"lr": (0.0, 1.0)}, metric="loss", db=session_db)
    with pytest.raises(ValueError, match=given["words"]):
        study.import_trials(str(path))


@pytest.mark.parametrize(
    "raw, words",
    [
        (b"lr,loss\n0.5,caf\xe9\n", "t.csv:2: is not in UTF-8"),
        ("lr,loss\n0.5,1\n".encode("utf-16"), "t.csv:1: is in UTF-16"),
        (b'lr,loss\n0.5,"1\n', "t.csv:2: a quoted field is not closed"),
        (b"lr,loss\n0.5,1_0\n", "t.csv:2: could not convert '1_0'"),
        (b"lr,loss\n1_0,1\n", "t.csv:2: could not convert '1_0'"),
    ],
)
def test_files_that_are_no_tables(raw: bytes, words: str, name: str, session_db: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(raw)
    study = luthier.study(name, {"lr": (0.0, 1.0)}, metric="loss", db=session_db)
    with pytest.raises(ValueError, match=words):
        study.import_trials(str(path))


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('a , b\r\n 1," 2 "\r\n', [(1, ["a", "b"]), (2, ["1", " 2 "])]),
        ('"a\n""b""",c\n\n,\n"",', [(2, ['a\n"b"', "c"]), (4, ["", ""]), (5, ["", ""])]),
        ("a\rb\r", [(1, ["a"]), (1, ["b"])]),
        ("\n\n", []),
        ("a,b", [(1, ["a", "b"])]),
        (' "a" x,b"c"\n', [(1, ["a x", 'b"c"'])]),
        ("x" * 200_000 + ',"' + "y" * 200_000 + '"', [(1, ["x" * 200_000, "y" * 200_000])]),
    ],
    ids=range(7),
)
def test_records_of_tables(text: str, wanted: Any) -> None:
    assert _csv.records(text, "t.csv") == wanted
    again = "".join(_csv.line(record) for _, record in wanted)
    assert [record for _, record in _csv.records(again, "t.csv")] == [record for _, record in wanted]


def test_hostile_names_and_labels_come_back(name: str, session_db: str, tmp_path: Path) -> None:
    labels = ["=1", "-x", ",", '"', "'7", "7", "true", "漢", "nan", "'", 7, True, None, -1, " x ", "x", "\u00a0x"]
    names = ["step", "number", "state", "value", "=x", "-x", ",", '"q"', "漢", "metrics_a", "params_b", "loss", "a ", "a"]
    space = {n: luthier.Categorical(labels) if i % 2 else luthier.Float(-1e9, 1e9) for i, n in enumerate(names)}
    study = luthier.study(name, space, metric="step", max_trials=30, db=session_db)
    for k in range(2 * len(labels)):
        params = {n: labels[(k + i) % len(labels)] if i % 2 else (k - 3) / 7 for i, n in enumerate(names)}
        study.add_trial({"params": params, "metrics": {"step": float(k), "acc": 1.0}, "step": k})
    path = str(tmp_path / "ours.csv")
    study.export(path)
    theirs = str(tmp_path / "theirs.csv")
    command = [program("luthier"), "--server", study._client.target()]
    subprocess.run([*command, "study", "export", name, "--format", "csv", "--out", theirs], check=True)
    for i, file in enumerate([path, theirs]):
        other = luthier.study(f"{name}-{i}", space, metric="step", db=session_db)
        other.import_trials(file)
        _same(other.trials, study.trials, ("params", "value", "metrics", "step"))
        # The command line reads both, and makes the same parameters of them.
        made = [*command, "study", "import", file, "--metric", "step", "--name", f"{name}-cli-{i}"]
        subprocess.run(made, check=True, capture_output=True)
        again = luthier.load(f"{name}-cli-{i}", db=session_db)
        assert {p.name: p.kind for p in again._space.parameters} == {p.name: p.kind for p in study._space.parameters}
        _same(again.trials, study.trials, ("params", "value", "metrics", "step"))


@pytest.mark.parametrize(
    "text, words",
    [
        ("x,y\n1,2\n", "no column has the metric 'loss'; it has x, y"),
        ("x,loss\n0.5,1\n0.7,abc\n", "t.csv:3: 'abc' is no number"),
        ("x,loss\n0.5,\n", "t.csv:2: there is no value of loss"),
        ("x,loss\n7,1\n", "x"),
    ],
)
def test_tables_that_are_wrong(text: str, words: str, name: str, session_db: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    study = luthier.study(name, {"x": (0.0, 1.0)}, metric="loss", db=session_db)
    with pytest.raises(ValueError, match=words):
        study.import_trials(str(path))
    assert len(study) == 0
    with pytest.raises(ValueError, match="is no file"):
        study.import_trials(str(tmp_path / "t.xlsx"))
    with pytest.raises(TypeError, match="nothing to import from"):
        study.import_trials(object())
    with pytest.raises(ValueError, match=r"ends in \.csv"):
        study.export(str(tmp_path / "t.xlsx"))


def test_an_open_space_takes_what_a_table_has(name: str, session_db: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("lr,layers,kind,loss\n0.001,1,a,1.0\n0.5,4,b,0.5\n0.1,2,a,0.75\n")
    study = luthier.study(name, metric="loss", db=session_db)
    study.import_trials(str(path))
    assert [t.params for t in study.trials][1] == {"lr": 0.5, "layers": 4, "kind": "b"}
    assert study.best_value == 0.5
    lr = study._space.by_name["lr"].domain()
    assert isinstance(lr, luthier.Float) and (lr.low, lr.high, lr.log) == (0.001, 0.5, True)
    study.optimize(lambda t: t.suggest_float("lr", 0.001, 0.5, log=True), n_trials=1)


def test_data_frame(name: str, session_db: str) -> None:
    pd = pytest.importorskip("pandas")
    study = _filled(name, session_db)
    frame = study.trials_dataframe(attributes=["note"])
    trials = study.trials
    assert list(frame["number"]) == list(range(1, 9))
    assert list(frame["params_c"]) == [t.params["c"] for t in trials]
    assert [type(v) for v in frame["params_c"]] == [type(t.params["c"]) for t in trials]
    assert frame["params_k"].dtype.kind == "i" and frame["attempts"].dtype.kind == "i"
    assert list(frame["attrs_note"].fillna("")) == [t.attributes.get("note", "") for t in trials]
    for name_, kind in (("started", "M"), ("ended", "M"), ("seconds", "f"), ("value", "f"), ("metrics_acc", "f")):
        assert frame[name_].dtype.kind == kind
    assert {"state", "worker", "designer", "params_größe/ß", "params_flag"} <= set(frame.columns)
    other = luthier.study(name + "-b", SPACE, metric="loss", db=session_db)
    other.import_trials(frame)
    _same(other.trials, trials, ("params", "state", "value"))
    empty = luthier.study(name + "-c", SPACE, db=session_db).trials_dataframe()
    assert len(empty) == 0 and isinstance(empty, pd.DataFrame)


def test_parquet(name: str, session_db: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    study = _filled(name, session_db)
    path = str(tmp_path / "t.parquet")
    study.export(path)
    assert list(pd.read_parquet(path)["value"].dropna()) == [t.value for t in study.trials if t.value is not None]


def test_attributes_that_lists_leave_out(name: str, session_db: str, tmp_path: Path) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    study.optimize(lambda t: t["x"], n_trials=1)
    study.set_attributes(1, {"long": "ä" * 2000})
    study.export(str(tmp_path / "t.jsonl"))
    other = luthier.study(name + "-b", {"x": (0.0, 1.0)}, db=session_db)
    other.import_trials(str(tmp_path / "t.jsonl"))
    assert other.trial(1).attributes["long"] == "ä" * 2000


class _Search:
    """Stands for a search of scikit-learn that was fitted."""

    cv_results_ = {
        "params": [{"C": 0.1, "kernel": "rbf"}, {"C": 10.0, "kernel": "linear"}, {"C": 1.0, "kernel": "rbf"}],
        "mean_test_score": [0.5, 0.75, math.nan],
        "std_test_score": [0.1, 0.2, math.nan],
        **{f"split{i}_test_score": [0, 0, 0] for i in range(4)},
    }


def test_scores_of_a_search(name: str, session_db: str) -> None:
    study = luthier.study(name, metric="score", goal="maximize", db=session_db)
    study.import_trials(_Search())
    assert (study.best_params, study.best_value) == ({"C": 10.0, "kernel": "linear"}, 0.75)
    assert study.trial(2).standard_errors == {} or study.trials[1].standard_errors == {"score": 0.1}
    assert [t.state.value for t in study.trials] == ["COMPLETE", "COMPLETE", "FAILED"]
    assert all(t.designer == "import" for t in study.trials)
    wrong = luthier.study(name + "-b", metric="score", db=session_db)
    with pytest.raises(ValueError, match="goal='maximize'"):
        wrong.import_trials(_Search.cv_results_)


def test_a_real_search(name: str, session_db: str) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    x = [[float(i), float(i % 3)] for i in range(30)]
    search = GridSearchCV(Ridge(), {"alpha": [0.01, 1.0, 100.0]}, cv=3).fit(x, [float(i) for i in range(30)])
    study = luthier.study(name, goal="maximize", db=session_db)
    study.import_trials(search)
    assert study.best_params == search.best_params_
    assert study.best_value == pytest.approx(search.best_score_)


def test_optuna(name: str, session_db: str, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path}/o.db"

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 1e-3, 1, log=True)
        trial.suggest_categorical("c", ["a", 1, None])
        trial.suggest_int("k", 1, 2 + trial.number)  # Its range differs between trials.
        trial.set_user_attr("note", {"a": 1})
        trial.report(x, 1)
        if trial.number == 3:
            raise optuna.TrialPruned
        if trial.number == 4:
            raise ValueError
        return float(x)

    theirs = optuna.create_study(storage=url, study_name="Their Study")
    theirs.optimize(objective, n_trials=8, catch=(ValueError,))
    journal = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(tmp_path / "o.log")))
    optuna.copy_study(from_study_name="Their Study", from_storage=url, to_storage=journal)
    ours = [
        luthier.from_optuna(url, db=session_db),
        luthier.from_optuna(theirs, name, db=session_db),
        luthier.from_optuna(str(tmp_path / "o.log"), name + "-b", study_name="Their Study", db=session_db),
    ]
    assert ours[0].name == "their-study"
    for study in ours:
        assert (study.best_params, study.best_value) == (theirs.best_params, theirs.best_value)
        assert [t.state.value for t in study.trials].count("FAILED") == 1
        assert study.trials[0].user_attrs["note"] == {"a": 1}
        back = luthier.to_optuna(study)
        # A FAILED trial has no value there, and a PRUNED one its last.
        for a, b in zip(theirs.trials, back.trials):
            assert (a.params, a.state, a.intermediate_values) == (
                b.params,
                b.state,
                b.intermediate_values,
            ) or a.state.name == "FAIL"
            assert a.value == b.value or a.state.name != "COMPLETE"
            assert abs((a.datetime_start - b.datetime_start).total_seconds()) < 1e-3
        assert back.best_params == theirs.best_params
    with pytest.raises(ValueError, match="to minimize; .* has {'value': 'maximize'}"):
        luthier.study(name + "-c", goal="maximize", db=session_db).import_trials(theirs)


def test_notebook(name: str, session_db: str) -> None:
    space = {"<i>x": (0.0, 1.0), "c": ["<b>", 1]}
    study = luthier.study(name, space, metric="loss", goal="maximize", description="<script>", db=session_db)
    assert "no trials yet" in study._repr_html_()
    study.optimize(lambda t: t["<i>x"], n_trials=12)
    shown = study._repr_html_()
    assert shown.count("<circle") == 12 and "<svg" in shown and "12 complete" in shown
    assert shown.count("<tr>") == 6 and "&lt;i&gt;x" in shown
    assert "<script" not in shown and "<i>x" not in shown
    # The line of the best so far only rises, where larger is better: up is a smaller y.
    heights = [float(part.split("H")[0]) for part in shown.split('<path d="M')[1].split('"')[0].split("V")[1:]]
    assert heights == sorted(heights, reverse=True)


def test_studies_of_optuna_that_are_unlike_ours(name: str, session_db: str) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tuples = optuna.create_study(sampler=optuna.samplers.RandomSampler(1))
    tuples.optimize(lambda t: float(len(t.suggest_categorical("sizes", [(1,), (2, 3)]))), n_trials=8)
    study = luthier.from_optuna(tuples, name, db=session_db)
    assert [t.params["sizes"] for t in study.trials] == [str(t.params["sizes"]) for t in tuples.trials]
    nine = optuna.create_study(directions=["minimize"] * 9)
    with pytest.raises(ValueError, match="has 9 objectives; a study here has at most 8"):
        luthier.from_optuna(nine, name + "-nine", db=session_db)


def test_settings_that_wait_stay_where_the_space_grows(name: str, session_db: str) -> None:
    pd = pytest.importorskip("pandas")
    study = luthier.study(name, db=session_db)
    study.enqueue({"x": 7.5})
    study.import_trials(pd.DataFrame({"params_x": [1.0, 9.0], "value": [1.0, 2.0]}))
    study.optimize(lambda trial: trial.suggest_float("x", 1, 9), n_trials=1)
    assert [t.params["x"] for t in study.trials] == [7.5, 1.0, 9.0]
    assert study.explain(1)["origin"] == "enqueued"


def test_commas_in_numbers_are_named(
    name: str, session_db: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(text: str, space: Any = None) -> luthier.Study:
        (tmp_path / "f.csv").write_text(text, encoding="utf-8")
        study = luthier.study(f"{name}-{len(luthier.studies(db=session_db))}", space, db=session_db)
        study.import_trials(str(tmp_path / "f.csv"))
        return study

    read('x,value\n"1,5E-3",1.5\n0.7,2.5\n')
    assert "column 'x' has a comma in numbers, as '1,5E-3': they are labels" in caplog.text
    for cell, why in (("1,500", "marks thousands"), ("1.234,5", "is no number"), ("85%", "is no number")):
        with pytest.raises(ValueError, match=f"f.csv:2: '{cell}' .*{why}"):
            read(f'x,value\n1,"{cell}"\n', {"x": (0.0, 2.0)})
