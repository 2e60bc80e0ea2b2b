"""Trials as tables: data frames, and files that go out and come in."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier import _csv, _wire
from luthier._arguments import mapping, number, text, whole
from luthier._frozen import FrozenTrial
from luthier._goals import CONSTRAINT
from luthier._notes import note
from luthier._results import measurement
from luthier.space import Bool, Categorical, Domain, Float, Int, Parameter, decode_label, encode_label

if TYPE_CHECKING:
    from luthier._stored import Stored
    from luthier.study import Study

STATES = {"COMPLETE": "COMPLETE", "PRUNED": "PRUNED", "FAILED": "FAILED", "FAIL": "FAILED"}
_FIELDS = (
    "params",
    "state",
    "value",
    "metrics",
    "standard_errors",
    "gradient",
    "attributes",
    "step",
    "curve",
    "started",
    "ended",
)
# Names of the columns of a table that are no parameters, and prefixes of others. The command line
# has the same (client/cli/commands/trial_csv.h); tests/data/tables/format.json is tested against both.
RESERVED = (
    *("", "number", "state", "step", "value", "started", "ended", "seconds", "duration", "attempts", "origin"),
    *("worker", "designer", "training", "note"),
)
PREFIXES = ("metrics_", "metric.", "attrs_", "user_attrs_", "system_attrs_", "datetime_", "Unnamed: ")
_OPEN = ("PENDING", "RUNNING", "WAITING", "CANCELLED")  # States of trials without a result.
_FORMULA = re.compile(r"[=+\-@\t\r]")  # Beginnings that a spreadsheet takes for a formula.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z|[+-]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+\Z")
_log = logging.getLogger("luthier")
_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_WHOLE_FLOAT = re.compile(r"[+-]?[0-9]{1,15}\.0\Z")
_LARGEST = 2**53  # Largest integer of a parameter.


# --- Results from elsewhere, as the service takes them ---


def to_import(study: Study, given: Union[FrozenTrial, Mapping[str, Any]]) -> Any:
    """Returns a result from elsewhere as the Trial that the service imports. ValueError names what is wrong."""
    example = '{"params": {"x": 0.1}, "value": 3.2}'
    row = _row_of(study, given) if isinstance(given, FrozenTrial) else mapping("a result", given, example)
    unknown = set(row) - set(_FIELDS)
    if unknown:
        raise ValueError(f"a result has no {sorted(unknown)}; it has {', '.join(_FIELDS)}")
    state = str(getattr(row.get("state"), "name", row.get("state") or "COMPLETE")).upper()
    if state not in STATES:
        raise ValueError(f"a result is COMPLETE, PRUNED or FAILED, not {state}")
    out = _wire.message("Trial")(state=_wire.enum("Trial.State")[STATES[state]])
    study._space.encode(row.get("params", {}), out.parameters)
    if row.get("value") is not None or row.get("metrics"):
        m = measurement(
            study._space,
            study.metric,
            row.get("value"),
            metrics=row.get("metrics"),
            gradient=row.get("gradient"),
            standard_errors=row.get("standard_errors"),
            step=whole("step", row.get("step", 0)),
        )
        out.final_measurement.CopyFrom(m)
    curve = mapping("curve", row.get("curve") or {}, "{1: 0.5, 2: 0.4}")
    for step, value in sorted((whole("a step of curve", step), value) for step, value in curve.items()):
        out.measurements.append(measurement(study._space, study.metric, value, step=step))
    for key, word in mapping("attributes", row.get("attributes") or {}, '{"note": "mine"}').items():
        out.attributes[text("a key of attributes", key)] = note(word)
    for name, time in (("started", out.create_time), ("ended", out.end_time)):
        if row.get(name) is not None:
            seconds = number(name, row[name])
            if not abs(seconds) < 1e11:
                raise ValueError(f"{name} is {seconds}: it is in seconds since 1970")
            time.FromNanoseconds(round(seconds * 1e6) * 1000)
    return out


def stored_params(study: Study, trial: FrozenTrial) -> dict[str, Any]:
    """Returns the parameters of a trial as a study gets them: an open one with those that stand for others."""
    stored: dict[str, Any] = trial.__dict__.get("_stored", trial.params)
    return stored if study._open else trial.params


def _row_of(study: Study, trial: FrozenTrial) -> dict[str, Any]:
    state, metrics, goals = trial.state.value, dict(trial.metrics), list(study.goals)
    if trial.number == 0 and metrics:  # It is of create_trial, and its goals have no names of their own.
        if trial.feasible is False and CONSTRAINT not in study.constraints:
            state = "FAILED"
        if len(goals) == len(trial.objectives):
            metrics = {dict(zip(trial.objectives, goals)).get(name, name): x for name, x in metrics.items()}
    return {
        "params": stored_params(study, trial),
        "state": state,
        "metrics": metrics or ({} if trial.value is None else None),
        "value": None if metrics else trial.value,
        "gradient": trial.gradient,
        "standard_errors": trial.standard_errors,
        "attributes": trial.attributes,
        "step": trial.step,
        "curve": trial.intermediate_metrics or trial.intermediate_values if len(goals) > 1 else trial.intermediate_values,
        "started": trial.started,
        "ended": trial.ended,
    }


def declare(study: Study, space: Mapping[str, Any]) -> None:
    """Gives an open space the parameters that it lacks."""
    declare_specs(study, [study._space.spec_of(name, given) for name, given in space.items()])


def declare_specs(study: Study, specs: Iterable[Any]) -> None:
    """The same for ParameterSpecs. A trial of its own names them, and is taken back; one that waited, as a setting that
    a user added, waits again."""
    lacking = [spec for spec in specs if spec.name not in study._space.by_legal]
    if not lacking:
        return
    waited = bool(study._refresh().trials.pending)
    trial = study.ask(timeout=60.0)
    if trial is None:
        raise RuntimeError(f"study {study.name} gives no trials, so its space can't grow")
    for begin in range(0, len(lacking), 100):
        request = _wire.message("DeclareParametersRequest")(trial=trial.name, token=trial._lease.token)
        for spec in lacking[begin : begin + 100]:
            request.parameters.add().CopyFrom(spec)
            request.parameters[-1].ClearField("condition")  # In an open space the objective itself decides.
        study._client.call("WorkerService", "DeclareParameters", request)
    if waited:
        trial._release()
    else:
        study.cancel_trial(trial.number)
        study.delete_trial(trial.number)
    study._refresh()


# --- An open space grows by what a table has ---


def grow(study: Study, records: Iterable[Mapping[str, Any]], names: Iterable[Any], *, texts: bool = False) -> None:
    """Gives an open space what a table has and it lacks: the columns `params_NAME`, or where there are none all that
    mean nothing else. Their ranges are what the values span. `texts`: the cells are those of a file."""
    if not study._open:
        return
    columns = [str(name) for name in names]
    metric = metric_column(columns, study.metric)
    # An export from before parameters were marked: which of its columns are metrics, it does not say.
    older = columns[:2] == ["number", "state"] and columns[-4:] == ["attempts", "origin", "worker", "note"]
    pandas = "datetime_start" in columns or "started" in columns  # pandas writes an integer as 3.0 if some are missing.
    marked = [c for c in columns if c.startswith("params_")]
    reserved = set(RESERVED) - ({"step"} if older else set())
    plain = [c for c in columns if c not in reserved and not c.startswith(PREFIXES)]
    known = {name for p in study._space.parameters for name in (p.name, p.legal)}
    some = list(records)
    space: dict[str, Domain] = {}
    for column in marked or plain:
        name = column[len("params_") :] if column in marked else column
        cells = [record.get(column, record.get(name)) for record in some]
        values = [v for v in (_plain(cell) for cell in cells) if v is not None]
        if pandas and len(values) < len(cells) and all(_WHOLE_FLOAT.match(str(v)) for v in values):
            values = [str(v)[:-2] if texts else int(v) for v in values]
        enough = len({str(v) for v in values}) > (1 if older and not marked else 0)
        if enough and column != metric and name not in known:
            commas = [v for v in values if "," in str(v)]
            if commas and all(_is_number(str(v).replace(",", ".", 1)) for v in values):
                _log.warning(
                    "column %r has a comma in numbers, as %r: they are labels; write points where they are decimals",
                    column, commas[0],
                )  # fmt: skip
            space[name] = guess(values, texts=texts, labels=any(_is_marked(cell) for cell in cells))
    declare(study, space)


def guess(values: list[Any], *, texts: bool = False, labels: bool = False) -> Domain:
    """Returns a domain for values: numbers over the range that they span, in the logarithm where that is more than two
    powers of ten, and labels for all else, for integers beyond 2^53 and where `labels` says so. `texts`: labels are as
    the service has them."""
    numbers = [None if texts and not _NUMBER.match(str(value)) else _number(value) for value in values]
    words = {str(value).lower() for value in values}
    if words <= {"true", "false"} and not labels:
        return Bool()
    whole = all(_WHOLE.match(str(value)) for value in values)
    large = any(_WHOLE.match(str(v)) and abs(int(v)) > _LARGEST for v in values)
    vectors = _vectors(values) if texts and not labels else None
    if vectors is not None:
        scalars = [x for vector in vectors for x in vector]
        low, high = min(scalars), max(scalars)
        return Float(low, high, log=low > 0 and high > 100 * low, count=len(vectors[0]))
    if labels or large or any(number is None for number in numbers):
        kept = dict.fromkeys(decode_label(str(value)) if texts else value for value in values)
        return Categorical(list(kept))
    low, high = min(n for n in numbers if n is not None), max(n for n in numbers if n is not None)
    if whole:
        return Int(int(low), int(high))
    return Float(low, high, log=low > 0 and high > 100 * low)


def _vectors(values: list[Any]) -> Optional[list[list[float]]]:
    """Returns the lists of numbers that texts are, all of a length; None where they are something else."""
    try:
        lists = [json.loads(value) for value in values if value.startswith("[")]
    except ValueError:
        return None
    right = len(lists) == len(values) and all(lists) and len({len(one) for one in lists}) == 1
    return lists if right and all(type(x) in (int, float) for one in lists for x in one) else None


def _number(value: Any) -> Optional[float]:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


# --- Columns ---


def columns(study: Stored, names: Iterable[str] = ()) -> dict[str, Any]:
    """Returns columns of the service's table as numpy arrays, by the service's names; all but attributes by default."""
    import numpy as np

    request = _wire.message("GetTrialTableRequest")(name=study._path, columns=list(names))
    parts: dict[str, list[Any]] = {}
    rows = 0
    while True:
        page = study._call("GetTrialTable", request, seconds=60.0)
        for column in page.columns:
            if column.WhichOneof("values") == "words":
                words = np.array([*column.words.words, None], dtype=object)
                places = np.frombuffer(column.words.indexes, dtype="<u4").astype(np.int64)
                values = words[np.where(places == 0xFFFFFFFF, len(words) - 1, places)]
            else:
                values = np.frombuffer(column.numbers, dtype="<f8")
            # A column that began between two pages has no values on the first.
            absent = np.full(rows, None if values.dtype == object else np.nan, dtype=values.dtype)
            parts.setdefault(column.name, [absent] if rows else []).append(values)
        rows += page.rows
        if not page.next_page_token:
            return {name: np.concatenate(pieces) for name, pieces in parts.items()}
        request.page_token = page.next_page_token


def data_frame(study: Stored, attributes: Iterable[str] = ()) -> Any:
    """Returns the trials as a pandas data frame."""
    import numpy as np
    import pandas as pd

    study._refresh()  # The space may have grown.
    table = columns(study)
    out: dict[str, Any] = {"number": table["number"].astype(np.int64), "state": table["state"]}
    several = len(study.goals) > 1
    for name in study.goals:
        out["metrics_" + name if several else "value"] = table["metrics." + name]
    for p in study._space.parameters:
        out.update(_parameter_columns(p, table))
    for name, values in table.items():
        if name.startswith("metrics.") and name[len("metrics.") :] not in study.goals:
            out["metrics_" + name[len("metrics.") :]] = values
    if "feasible" in table:
        out["feasible"] = [None if word is None else word == "true" for word in table["feasible"].tolist()]
    keys = list(attributes)
    if keys:
        notes = columns(study, ["number", *("attributes." + key for key in keys)])
        places = {number: i for i, number in enumerate(notes["number"].tolist())}
        for key in keys:
            texts = notes["attributes." + key]
            out["attrs_" + key] = [texts[places[n]] if n in places else None for n in out["number"].tolist()]
    for ours, theirs in (("started", "start_time"), ("ended", "end_time")):
        out[ours] = pd.to_datetime(table[theirs], unit="s", utc=True)
    for name in ("seconds", "attempts", "worker", "designer"):
        out[name] = table[name]
    out["attempts"] = out["attempts"].astype(np.int64)
    return pd.DataFrame(out)


def _parameter_columns(p: Parameter, table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the column of a parameter as users know it; of a vector least, median and largest entry."""
    import numpy as np

    values = table.get("params." + p.legal)
    if values is None:
        parts = {part: table.get(f"params.{p.legal}.{part}") for part in ("min", "median", "max")}
        return {f"params_{p.name}.{part}": column for part, column in parts.items() if column is not None}
    if p.labels() is not None or p.kind == "bool":
        known = {text: decode_label(text) for text in set(values.tolist()) if text is not None}
        decoded: Any = np.empty(len(values), dtype=object)
        decoded[:] = [known.get(text) for text in values.tolist()]
        return {"params_" + p.name: decoded}
    if p.kind == "int" and not np.isnan(values).any():
        values = values.astype(np.int64)
    return {"params_" + p.name: values}


# --- Files ---


def export(study: Stored, path: str, *, curves: bool = False) -> None:
    """Writes the trials to a file: .csv, .jsonl or .parquet. ValueError for other names."""
    path = text("the file's name", os.fspath(path))
    if path.endswith(".parquet"):
        frame = data_frame(study)
        for name in [name for name in frame.columns if frame[name].dtype == object and name.startswith("params_")]:
            frame[name] = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in frame[name]]
        frame.to_parquet(path)
    elif path.endswith(".jsonl"):
        _write_jsonl(study, path, curves)
    elif path.endswith(".csv"):
        _write_csv(study, path)
    else:
        raise ValueError(f"{path}: the file's name ends in .csv, .jsonl or .parquet")


def _write_jsonl(study: Stored, path: str, curves: bool) -> None:
    """Writes the form of `luthier study export`: a line for the study, then one for each trial as the API's JSON has
    it."""

    def line(of: dict[str, Any]) -> str:
        return json.dumps(of, ensure_ascii=False, separators=(",", ":")) + "\n"

    with open(path, "w", encoding="utf-8") as file:
        file.write(line({"luthier": 1, "id": study.name, "spec": _wire.plain(study._refresh().spec)}))
        for trial in study._messages():
            if curves or trial.attributes_left_out:
                trial = study._message_of(trial.number)
            file.write(line(_wire.plain(trial)))


def _write_csv(study: Stored, path: str) -> None:
    trials = study.trials
    bounded = any(m.HasField("at_least") or m.HasField("at_most") for m in study._spec.metrics)
    reserved = (*RESERVED, "feasible") if bounded else RESERVED
    taken = (study.metric in reserved and study.metric != "value") or study.metric.startswith((*PREFIXES, "params_"))
    names = [p.name for p in study._space.parameters]
    others = sorted({name for trial in trials for name in trial.metrics} - {study.metric})
    notes = sorted({key for trial in trials for key in trial.attributes})
    head = ["number", "state", f"metrics_{study.metric}" if taken else study.metric]
    head += [f"params_{name}" for name in names] + [f"metrics_{m}" for m in others]
    head += ["feasible"] * bounded + ["step"] + [f"attrs_{key}" for key in notes]
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write(_csv.line(map(_cell, head)))
        for t in trials:
            row: list[Any] = [t.number, t.state.value, t.value]
            row += [_text(study._space.by_name[name], t.params[name]) if name in t.params else None for name in names]
            row += [t.metrics.get(m) for m in others]
            row += [None if t.feasible is None else json.dumps(t.feasible)] * bounded
            row += [t.step or None] + [t.attributes.get(key) for key in notes]
            file.write(_csv.line(value if isinstance(value, _Marked) else _cell(value) for value in row))


class _Marked(str):
    """A cell that is as it has to be."""


def _text(p: Parameter, value: Any) -> Any:
    if p.labels() is not None:
        label = encode_label(value)
        return _Marked("'" + label if _like_value(label) else _cell(label))
    return json.dumps(value) if isinstance(value, (bool, list)) else value


def _like_formula(text: str) -> bool:
    if not _FORMULA.match(text):
        return False
    return not (set(text) <= set("0123456789.eE+-") and _is_number(text))


def _like_value(text: str) -> bool:
    """Tells if a text looks like a number, a switch or a list."""
    return bool(_NUMBER.match(text)) or text.startswith("[") or text.lower() in ("true", "false", "nan")


def _cell(value: Any) -> str:
    """Returns a cell that no spreadsheet takes for a formula, and no number changes: a text that is like one has a '
    before it, as spreadsheets mark texts, and so has one that begins with such a mark."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    rest = text.lstrip("'")
    mark = isinstance(value, str) and (_like_formula(rest) or (rest != text and _like_value(rest)))
    return "'" + text if mark else text


def _is_marked(value: Any) -> bool:
    """Tells if a cell has the mark of a text."""
    if not isinstance(value, str):
        return False
    rest = value.lstrip("'")
    return rest != value and (_like_formula(rest) or _like_value(rest))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read(study: Study, path: str) -> list[Any]:
    """Returns the results in a .jsonl or .csv file as the service imports them. ValueError names line and reason."""
    if path.endswith(".jsonl"):
        return _read_jsonl(study, path)
    if path.endswith(".csv"):
        records = _read_csv(path)
        grow(study, records, records[0] if records else (), texts=True)
        return read_records(study, records, os.path.basename(path), texts=True)
    raise ValueError(f"{path}: the file's name ends in .csv or .jsonl")


def _read_csv(path: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file by the names of their columns. ValueError names line and reason."""
    source = os.path.basename(path)
    lines = _csv.read(path)
    if not lines:
        return []
    head = [name[1:] if _is_marked(name) else name for name in lines[0][1]]
    for separator, words in ((";", "semicolons"), ("\t", "tabs")):
        if len(head) == 1 and separator in head[0]:
            raise ValueError(
                f"{source}:1: its fields are separated by {words}; save it as CSV with commas between the fields, and "
                "with points in the numbers"
            )
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{source}:1: column {twice!r} is there twice")
    for line, row in lines[1:]:
        if len(row) != len(head):
            raise ValueError(f"{source}:{line}: has {len(row)} fields, and the header has {len(head)}")
    return [dict(zip(head, row)) for _, row in lines[1:]]


def _read_jsonl(study: Study, path: str) -> list[Any]:
    from google.protobuf.json_format import ParseDict, ParseError

    trials: list[Any] = []
    with open(path, encoding="utf-8") as file:
        for row, line_text in enumerate(file, 1):
            if not line_text.strip():
                continue
            try:
                line = json.loads(line_text)
                if "luthier" in line:
                    spec = ParseDict(line["spec"], _wire.message("StudySpec")(), ignore_unknown_fields=True)
                    if study._open:
                        declare_specs(study, spec.space)
                    continue
                trial = ParseDict(line, _wire.message("Trial")(), ignore_unknown_fields=True)
            except (ValueError, ParseError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{row}: {error}") from None
            if _wire.enum_names("Trial.State")[trial.state] in STATES and not trial.retried_by:
                trials.append(trial)
    return trials


def metric_column(names: Iterable[str], metric: str) -> Optional[str]:
    """Returns the column with the results of a metric, or None."""
    there = set(names)
    return next((n for n in (f"metrics_{metric}", metric, "value") if n in there), None)


def read_records(study: Study, records: Iterable[Mapping[str, Any]], source: str, *, texts: bool = False) -> list[Any]:
    """Returns the rows of a table as results: columns for parameters (`params_NAME`, else NAME), the metric (also
    `metrics_NAME`, `value`), other metrics (`metrics_NAME`), `state`, `step` and attributes (`attrs_NAME`,
    `user_attrs_NAME`). Rows of trials without a result are left out. `texts`: labels are as the service has them, 1 for
    a number and "1" in quotes for a text."""
    out: list[Any] = []
    for line, record in enumerate(records, 2):
        cells = {str(name): _plain(value) for name, value in record.items() if name is not None}
        metric = metric_column(cells, study.metric)
        if metric is None:
            raise ValueError(f"{source}: no column has the metric {study.metric!r}; it has {', '.join(cells)}")
        where = _columns_of(study, cells, metric)
        named = set(where.values())
        given = "" if "state" in named else str(cells.get("state") or "")
        state = given.upper().rpartition(".")[2] or "COMPLETE"
        if state in _OPEN:
            continue
        try:
            if state not in STATES:
                raise ValueError(f"{given!r} is no state: COMPLETE, PRUNED or FAILED")
            row: dict[str, Any] = {"params": _params(study, cells, where, texts), "state": state}
            row["attributes"] = _starting(cells, "attrs_", "user_attrs_")
            others = {k: v for k, v in _starting(cells, "metrics_").items() if f"metrics_{k}" not in named}
            row["metrics"] = {name: _result(value) for name, value in others.items() if name != study.metric}
            if cells[metric] is not None and STATES[state] != "FAILED":
                row["metrics"][study.metric] = _result(cells[metric])
            elif state == "COMPLETE":
                raise ValueError(f"there is no value of {study.metric}; a state FAILED or PRUNED says why")
            else:
                row["metrics"] = {}
            step = float(0 if "step" in named else cells.get("step") or 0)
            if not (0 <= step <= 1e15 and step.is_integer()):
                raise ValueError(f"{cells['step']!r} is no step")
            row["step"] = int(step) if row["metrics"] else 0
            out.append(to_import(study, row))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source}:{line}: {error}") from None
    return out


def _result(value: Any) -> float:
    if isinstance(value, str) and not _is_number(value) and _is_number(value.replace(",", ".", 1)):
        thousands = ", or nothing, where it marks thousands" if _THOUSANDS.match(value) else ""
        raise ValueError(f"{value!r} is written with a decimal comma; write a point{thousands}")
    if isinstance(value, str) and "_" in value:  # Python itself would take 1_000.
        raise ValueError(f"could not convert {value!r} to a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is no number: digits, with a point and without a unit, are") from None


def _plain(value: Any) -> Any:
    """Returns a cell without the mark of a text; None for an empty one."""
    if isinstance(value, str):
        text = value[1:] if _is_marked(value) else value
        return text if text else None
    return None if value is None or value != value else value


def _columns_of(study: Study, cells: Iterable[str], metric: str) -> dict[str, str]:
    """Returns the column of each parameter that has one: what is marked goes first."""
    there = set(cells) - {metric}
    out: dict[str, str] = {}
    for p in study._space.parameters:
        for name in (f"params_{p.name}", f"params_{p.legal}", p.name, p.legal):
            if name in there:
                out[p.name] = name
                there.remove(name)
                break
    return out


def _starting(cells: Mapping[str, Any], *starts: str) -> dict[str, Any]:
    return {
        name[len(start) :]: value
        for name, value in cells.items()
        for start in starts
        if name.startswith(start) and value is not None
    }


def _params(study: Study, cells: Mapping[str, Any], where: Mapping[str, str], texts: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for p in study._space.parameters:
        if p.name not in where:
            continue
        value = cells[where[p.name]]
        always = not study._open and not p.spec.HasField("condition")
        if value is not None:
            out[p.name] = _parameter_value(p, value, texts)
        elif always and None in (p.labels() or ()):
            out[p.name] = None  # In a data frame that is a label.
    return out


def _parameter_value(p: Parameter, value: Any, texts: bool) -> Any:
    labels: Optional[list[Any]] = p.labels()
    if labels is not None:
        same = [] if texts else [label for label in labels if label == value and type(label) is type(value)]
        by_text = {str(label): label for label in labels}
        by_text.update((encode_label(label), label) for label in labels)
        return same[0] if same else by_text.get(str(value), value)
    if not isinstance(value, str):
        return value
    if p.kind == "bool":
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if value.startswith("["):
        return json.loads(value)
    if p.kind == "int" and _WHOLE.match(value):
        if abs(int(value)) > _LARGEST:
            raise ValueError(f"{value}, of {p.name}, is beyond ±2^53, the largest integers of a parameter")
        return int(value)
    return _result(value)
