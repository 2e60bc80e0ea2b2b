"""Studies made, found and deleted in Optuna's words."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any, Optional, Union

from luthier import _create
from luthier._arguments import sequence, text
from luthier._create import study_id
from luthier._goals import CONSTRAINT, MOST_METRICS, Goal, names_of_goals
from luthier._optuna_samplers import algorithm_of, stopping_of
from luthier._optuna_study import OptunaStudy, StudyDirection
from luthier.errors import NotFound, StudyExists
from luthier.study import Study

_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63}/)?[a-z0-9][a-z0-9_.-]{0,63}\Z")


def _where(storage: Any, server: Optional[str], db: Optional[str]) -> dict[str, Any]:
    """Returns the coordinator that stands for a storage: of a directory beside a SQLite file, or a server."""
    if storage is None:
        return {"server": server, "db": db}
    if not isinstance(storage, str) or server is not None or db is not None:
        raise ValueError("storage is one of sqlite:///FILE, HOST:PORT, unix:PATH; or give server= or db= instead")
    if storage.startswith("sqlite:///") and not storage.endswith(":memory:"):
        return {"server": None, "db": storage[len("sqlite:///") :] + ".d"}
    if ":" not in storage:
        raise ValueError(f"storage is {storage!r}: it is one of sqlite:///FILE, HOST:PORT, unix:PATH")
    if "://" in storage:
        raise ValueError(
            f"trials are kept by a coordinator, not in {storage.split(':')[0]}: give server='HOST:PORT', or db='DIR'"
        )
    return {"server": storage, "db": None}


def _legal(name: str) -> str:
    """Returns a name that the service takes: any text as it is where it does, else one made from it and its hash."""
    if _NAME.match(text("study_name", name)):
        return name
    return f"{study_id(name)[:54]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: Optional[str] = None,
    direction: Union[Goal, StudyDirection, None] = None,
    load_if_exists: bool = True,
    directions: Any = None,
    algorithm: Any = None,
    seed: Optional[int] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
) -> OptunaStudy:
    """Makes a study in Optuna's words, with an open space: programs need one line changed. Without a name it gets a
    fresh one; a name that the service does not take, as with capitals, is the study's display name. StudyExists where
    it is there already and `load_if_exists` is false. Without a seed each study has one of its own.
    `storage="sqlite:///a.db"` is `db="a.db.d"`.

    With several `directions` objectives return as many values, the metrics `value_0`, `value_1` and so on. With a
    sampler that has a `constraints_func` the study has a metric `constraint` besides, the largest of what that returns,
    which is at most 0 where the constraints are met."""
    if directions is not None and direction is not None:
        raise ValueError("give direction= or directions=, not both")
    goals = [direction] if directions is None else list(sequence("directions", directions))
    bounded = getattr(sampler, "constraints_func", None) is not None
    where = _where(storage, server, db)
    name = _legal(study_name) if study_name else f"study-{uuid.uuid4().hex[:12]}"
    if sampler is not None:
        algorithm, seed = algorithm_of(sampler), sampler.seed
    there: Optional[Study] = None
    if study_name:
        try:
            there = _create.load(name, **where)
        except NotFound:
            pass
    if there is not None and not load_if_exists:
        raise StudyExists(f"study {study_name} exists already; load_if_exists=True goes on with it")
    if seed is None and there is not None:
        seed = int(there._spec.seed)
    elif seed is None:  # As random as the name of a study without one; the same for all who make one of this name.
        seed = int(hashlib.sha256(name.encode()).hexdigest()[:7], 16)
    if there is not None:
        bounded = CONSTRAINT in there.constraints  # It stays what it was when the study was made.
    shown = study_name if study_name and name != study_name else ""
    made = _create.make(
        name, algorithm=algorithm, seed=seed, stopping=stopping_of(pruner), display_name=shown,
        **_metrics(goals, bounded), **where,
    )  # fmt: skip
    return _optuna_study(made, sampler, study_name)


def _metrics(goals: list[Any], bounded: bool) -> dict[str, Any]:
    """Returns what a study with these directions measures, as options of luthier.study. ValueError."""
    if not goals:
        raise ValueError('directions is empty: it is as ["minimize", "maximize"]')
    if len(goals) + bounded > MOST_METRICS:
        besides = ", and the constraints are one more metric" if bounded else ""
        raise ValueError(f"directions has {len(goals)}{besides}: a study has at most {MOST_METRICS} metrics")
    # luthier.study says what is wrong with them.
    words = [str(getattr(goal, "name", goal) or "minimize").lower() for goal in goals]
    options: dict[str, Any] = {"goal": words[0]}
    if len(words) > 1:
        options = {"goals": dict(zip(names_of_goals(len(words)), words))}
    if bounded:
        options["constraints"] = {CONSTRAINT: {"at_most": 0.0}}
    return options


def _optuna_study(made: Study, sampler: Any, name: Optional[str]) -> OptunaStudy:
    study = OptunaStudy(made._client, made._message)
    study._given = name or ""
    study._constraints = getattr(sampler, "constraints_func", None)
    return study


def load_study(
    *, study_name: Optional[str], storage: Any = None, sampler: Any = None, pruner: Any = None, **where: Any
) -> OptunaStudy:
    """Returns a study that is there; None: the only one. A sampler's constraints go on; ValueError where its algorithm,
    or the pruner, is not the study's own: these stay what they were when the study was made. NotFound."""
    place = _where(storage, where.pop("server", None), where.pop("db", None))
    if where:
        raise TypeError(f"load_study has no {sorted(where)}")
    if study_name is None:
        names = _names(place)
        if len(names) != 1:
            raise ValueError(f"there are the studies {names}: say which by study_name=")
        study_name = names[0]
    found = _create.load(_legal(study_name), **place)
    spec = found.spec
    if sampler is not None:
        wanted = algorithm_of(sampler)
        (name,) = [wanted] if isinstance(wanted, str) else wanted
        if name not in spec.get("algorithm", {}):
            raise ValueError(
                f"study {study_name} has the algorithm {', '.join(spec.get('algorithm', {}))} and keeps it: leave "
                "sampler= out, or make another study"
            )
    rule = stopping_of(pruner)
    if rule is not None and not set(rule) <= set(spec.get("stopping", {})):
        raise ValueError(f"study {study_name} keeps the pruner that it was made with: leave pruner= out")
    return _optuna_study(found, sampler, study_name)


def delete_study(*, study_name: str, storage: Any = None) -> None:
    """Removes a study and its trials for ever."""
    Study.delete(load_study(study_name=study_name, storage=storage))


def get_all_study_names(storage: Any = None) -> list[str]:
    """Returns the names of all studies."""
    return _names(_where(storage, None, None))


def _names(where: dict[str, Any]) -> list[str]:
    return [str(study._spec.display_name or study.name) for study in _create.studies(**where)]
