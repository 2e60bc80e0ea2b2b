"""Makes and finds studies."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Optional, Union

from luthier import _wire
from luthier._arguments import count, flag, json_value, mapping, number, options, text, texts, whole
from luthier._client import Client, connect, new_id
from luthier._foreign import optuna_metrics, optuna_study
from luthier._goals import Constraints, Goal, Goals, put_metrics
from luthier._stored import UNCAPPED
from luthier._server import environment, program
from luthier.errors import LuthierError, NotFound
from luthier.space import Space, SpaceLike, to_specs
from luthier.study import Study

_EXAMPLES = {
    "algorithm": '"bo" or {"bo": {"initial_points": 10}}',
    "stopping": '"median" or {"median": {"warmup": 5}}',
    "objective": '{"command": {"argv": ["python3", "train.py"]}}',
}
Named = Union[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Resource:
    """What training one setting may cost, in the steps of its reports: at most `max` ("epochs"), at least `min` to say
    anything."""

    max: int
    min: Optional[int] = None
    unit: str = ""


def study(
    name: str,
    space: SpaceLike = None,
    *,
    metric: str = "value",
    goal: Goal = "minimize",
    goals: Optional[Goals] = None,
    constraints: Optional[Constraints] = None,
    parameter_constraints: Optional[Sequence[Mapping[str, Any]]] = None,
    algorithm: Optional[Named] = None,
    max_trials: Optional[int] = None,
    max_parallel: Optional[int] = None,
    max_failed_trials: Optional[int] = None,
    patience: Optional[int] = None,
    until_answered: Optional[bool] = None,
    target_value: Optional[float] = None,
    seed: int = 0,
    reproducible: bool = False,
    resource: Any = None,
    stopping: Optional[Named] = None,
    weight: Optional[float] = None,
    labels: Optional[Mapping[str, str]] = None,
    display_name: str = "",
    description: str = "",
    lease_ttl: Optional[float] = None,
    max_attempts: Optional[int] = None,
    objective: Optional[Mapping[str, Any]] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> Study:
    """Makes a study, or returns the one of this name if it was made with the same words. "PROJECT/NAME" names one of
    another project than $LUTHIER_PROJECT or the token's.

    Without `space` trials declare their parameters as they run (`trial.suggest_float`). `algorithm` is a name ("bo",
    "fobo", "tpe", ...) or {name: options}; `resource` a luthier.Resource; `stopping` "median", "curve" or {name:
    options}. `max_trials` is a cap; without it `optimize(n_trials=...)` decides. With
    `until_answered` the study ends once its model expects too little to be left to gain. The other options are fields
    of the study file.

    `constraints` bound what trials measure: {"latency_ms": {"at_most": 20}}; the best trial is the best within them.
    `goals`, in place of `metric` and `goal`, are several objectives: {"accuracy": "maximize", "energy": "minimize"}, or
    {"accuracy": {"goal": "maximize", "reference": 0.5}} where what is worse than 0.5 is worth nothing. Objectives then
    return a dictionary with all of these metrics, and `study.front` has the trials that none surpasses in all goals.
    `parameter_constraints` are what settings must keep: {"sum": {"width": 1, "depth": 1}, "at_most": 1024}, or
    {"forbid": {"optimizer": ["sgd"], "rate": {"at_least": 0.1}}}. Labels are those of `space`: 1, "1" and None are
    three. A setting that breaks one is never asked for.

    `server` is HOST:PORT or unix:PATH, `db` a directory whose coordinator is joined, or started as a child of this
    process. Default: $LUTHIER_SERVER, else the directory ./luthier.db.d. With `accept_plaintext` a token may go to
    another machine without TLS.

    Raises StudyExists naming the first field that differs, BadField naming all that is wrong, Unavailable where there
    is no coordinator, ValueError and TypeError for invalid domains.

        study = luthier.study("ridge", {"l2": luthier.Float(1e-8, 1e4, log=True)}, algorithm="fobo")
    """
    if whole("seed", seed) < 0:
        raise ValueError(f"seed is {seed}: it is at least 0")
    spec = _wire.message("StudySpec")(seed=whole("seed", seed), reproducible=flag("reproducible", reproducible))
    spec.display_name, spec.description = text("display_name", display_name), text("description", description)
    put_metrics(spec, metric, goal, goals, constraints)
    if space is None:
        spec.open_space = True
    else:
        spec.space.extend(to_specs(space))
    _put_parameter_constraints(parameter_constraints, spec)
    for field, named in (("algorithm", algorithm), ("stopping", stopping), ("objective", objective)):
        if named is not None:
            _parse(field, options(field, named, _EXAMPLES[field]), getattr(spec, field))
    if resource is not None:
        if not isinstance(resource, Resource):
            raise TypeError(f"resource is {resource!r}: it is a luthier.Resource, as luthier.Resource(max=81)")
        spec.resource.max = whole("resource.max", resource.max)
        spec.resource.unit = text("resource.unit", resource.unit)
        if resource.min is not None:
            spec.resource.min = whole("resource.min", resource.min)
    if weight is not None:
        spec.weight = number("weight", weight)
    budget = {"max_trials": 100 if max_trials is None else max_trials, "max_parallel": max_parallel}
    budget.update(max_failed_trials=max_failed_trials, patience=patience)
    for key, most in budget.items():
        if most is not None:
            setattr(spec.budget, key, count(key, most))
    if until_answered is not None:
        spec.budget.until_answered = flag("until_answered", until_answered)
    if target_value is not None:
        spec.budget.target_value = number("target_value", target_value)
    if lease_ttl is not None:
        spec.lease.ttl.FromTimedelta(_duration("lease_ttl", lease_ttl))
    if max_attempts is not None:
        spec.lease.max_attempts = count("max_attempts", max_attempts)
    for label, word in texts("labels", {} if labels is None else labels, '{"team": "vision"}').items():
        spec.labels[label] = word
    if max_trials is None:
        spec.labels[UNCAPPED] = "open"
    client = connect(server, db, accept_plaintext)
    project, short = _split(name)
    request = _wire.message("CreateStudyRequest")(study_id=short, spec=spec, parent=_parent(project))
    try:
        return Study(client, client.call("StudyService", "CreateStudy", request))
    except NotFound as error:
        message = f"there is no project {project!r} that this program may use, so no study {name!r} can be made"
        raise NotFound(message, reason=error.reason, code=error.code) from None


make = study


def study_id(given: str) -> str:
    """Returns a legal name for a study that is made from any text: a file's name, a function's, another tool's."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", given.lower()).strip("-_")
    return plain[:64] or "study"


def _duration(name: str, seconds: Any) -> timedelta:
    """Returns so many seconds. TypeError, ValueError."""
    try:
        return timedelta(seconds=number(name, seconds))
    except OverflowError:
        raise ValueError(f"{name} is {seconds!r}: so many seconds are too many") from None


def _put_parameter_constraints(given: Any, spec: Any) -> None:
    from google.protobuf.json_format import ParseDict, ParseError

    example = '{"sum": {"width": 1, "depth": 1}, "at_most": 1024}'
    if given is None:
        return
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"parameter_constraints is {given!r}: it is a list of dictionaries, as [{example}]")
    space = Space(spec.space)
    for i, one in enumerate(given):
        where = f"parameter_constraints[{i}]"
        constraint = spec.constraints.add()
        _check_options(where, mapping(where, one, example), constraint.DESCRIPTOR)
        try:
            ParseDict(json_value(_in_the_services_words(space, one)), constraint)
        except (ParseError, AttributeError, TypeError) as error:
            raise ValueError(f"{where}: {error}; it is as {example}") from None
        except ValueError as error:
            raise ValueError(f"{where}.forbid: {error}") from None


def _in_the_services_words(space: Space, given: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns a constraint on parameters with the service's names of parameters and labels. ValueError for a value that
    is no label."""
    out = dict(given)
    for part in ("sum", "forbid"):
        if isinstance(given.get(part), Mapping):
            known = {name: space.by_name.get(name) for name in given[part]}
            out[part] = {
                name if p is None else p.legal: x if p is None or part == "sum" else p.encode_forbidden(x)
                for (name, p), x in zip(known.items(), given[part].values())
            }
    return out


def _parse(field: str, given: Mapping[str, Any], out: Any) -> None:
    from google.protobuf.json_format import ParseDict, ParseError

    for arm, chosen in given.items():
        _check_names(f"{field} is {arm!r}: it is", [arm], out.DESCRIPTOR)
        if isinstance(chosen, Mapping):
            _check_options(f"{field} {arm}", chosen, _field(out.DESCRIPTOR, arm).message_type)
    try:
        ParseDict(dict(given), out)
    except ParseError as error:
        raise ValueError(f"{field}: {error}") from None
    except (AttributeError, TypeError):  # A number in place of options, for example.
        raise ValueError(f"{field} is {given!r}: it is as {_EXAMPLES[field]}") from None


def _check_options(where: str, given: Mapping[str, Any], described: Any) -> None:
    """Raises ValueError for an unknown name among the options and the options inside them."""
    _check_names(f"{where} has no", given, described)
    for name, value in given.items():
        inside = _field(described, name).message_type
        if isinstance(value, Mapping) and inside is not None and not inside.GetOptions().map_entry:
            _check_options(f"{where}.{name}", value, inside)


def _check_names(what: str, given: Iterable[str], described: Any) -> None:
    """Raises ValueError for what is no field of a message, with those that are, or where it went."""
    from google.protobuf.descriptor_pb2 import DescriptorProto

    names = [field.name for field in described.fields]
    for name in given:
        if name in names or name in [field.json_name for field in described.fields]:
            continue
        if "expert" in names and name in described.fields_by_name["expert"].message_type.fields_by_name:
            raise ValueError(f"{what} {name!r}: it moved; write {{'expert': {{{name!r}: ...}}}}")
        proto = DescriptorProto()
        described.CopyToProto(proto)
        if name in proto.reserved_name:
            raise ValueError(f"{what} {name!r} any more; leave it out")
        near = difflib.get_close_matches(str(name), names, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        wrong = "one of" if what.endswith("it is") else f"{name!r}; it has"
        raise ValueError(f"{what} {wrong} {', '.join(sorted(names)) or 'no options'}{meant}")


def _field(described: Any, name: str) -> Any:
    """Returns a message's field by its name, which is one."""
    (found,) = [field for field in described.fields if name in (field.name, field.json_name)]
    return found


def _split(name: str) -> tuple[str, str]:
    """Returns project and id of "PROJECT/NAME"; without a project that of the environment, or none."""
    project, slash, short = text("the study's name", name).rpartition("/")
    return project if slash else os.environ.get("LUTHIER_PROJECT", ""), short


def _parent(project: Optional[str]) -> str:
    project = project and text("project", project)
    return f"projects/{project}" if project else ""


def path_of(client: Client, name: str) -> str:
    """Returns the full name of a study: of "PROJECT/NAME", else of $LUTHIER_PROJECT, else of the token's project."""
    project, short = _split(name)
    if not project and client.has_token:
        info = client.call("WorkerService", "GetServerInfo", _wire.message("GetServerInfoRequest")())
        project = str(info.project)
    return f"projects/{project or 'default'}/studies/{short}"


def load(
    name: str, *, server: Optional[str] = None, db: Optional[str] = None, accept_plaintext: bool = False
) -> Study:
    """Returns the study of this name. Raises NotFound.

    study = luthier.load("ridge", server="host:7790")
    """
    client = connect(server, db, accept_plaintext)
    request = _wire.message("GetStudyRequest")(name=path_of(client, name))
    return Study(client, client.call("StudyService", "GetStudy", request))


def undelete(
    name: str,
    new_name: Optional[str] = None,
    *,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> Study:
    """Brings back a study that was deleted in the last seven days, and returns it. `new_name`: the name that it gets in
    its project, where another study has the name that it had. Raises NotFound and AlreadyExists."""
    client = connect(server, db, accept_plaintext)
    path = path_of(client, name)
    short = text("new_name", new_name) if new_name is not None else ""
    request = _wire.message("UndeleteStudyRequest")(name=path, new_id=short, request_id=new_id())
    return Study(client, client.call("StudyService", "UndeleteStudy", request))


def studies(
    *,
    deleted: bool = False,
    project: Optional[str] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> list[Study]:
    """Returns all studies of a project, in order of name. `project`: default $LUTHIER_PROJECT, else the token's.
    `deleted`: those that were deleted and that `undelete` brings back; of them only what was known of them is there."""
    client = connect(server, db, accept_plaintext)
    parent = _parent(project or os.environ.get("LUTHIER_PROJECT", ""))
    request = _wire.message("ListStudiesRequest")(page_size=1000, parent=parent, deleted=deleted)
    out: list[Study] = []
    while True:
        page = client.call("StudyService", "ListStudies", request)
        out += [Study(client, message) for message in page.studies]
        if not page.next_page_token:
            return out
        request.page_token = page.next_page_token


@dataclass(frozen=True)
class Worker:
    """Who asked for trials, and what became of its attempts since the coordinator first saw it. Times are seconds since
    1970; `leases` counts the trials that it holds now, `rests` says of studies that it gets no trials of for a while why."""

    name: str
    first_seen: float
    last_seen: float
    leases: int
    granted: int
    completed: int
    pruned: int
    paused: int
    failed: int
    released: int
    expired: int
    cancelled: int
    rests: Mapping[str, str] = field(hash=False)


def workers(
    *,
    project: Optional[str] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> list[Worker]:
    """Returns the workers that a coordinator knows in a project, which is that of their tokens; this program's own are
    among them.

        for worker in luthier.workers():
            print(worker.name, worker.leases, worker.failed)
    """
    client = connect(server, db, accept_plaintext)
    request = _wire.message("ListWorkersRequest")(page_size=1000, parent=_parent(project))
    columns = [column.name for column in fields(Worker) if column.name not in ("name", "first_seen", "last_seen", "rests")]
    out: list[Worker] = []
    while True:
        page = client.call("StudyService", "ListWorkers", request)
        for w in page.workers:
            first, last = (t.seconds + 1e-9 * t.nanos for t in (w.first_seen, w.last_seen))
            rests = {rest.study.rpartition("/")[2]: str(rest.failure) for rest in w.rests}
            out.append(Worker(w.name, first, last, **{name: int(getattr(w, name)) for name in columns}, rests=rests))
        if not page.next_page_token:
            return out
        request.page_token = page.next_page_token


def from_file(
    path: str,
    name: Optional[str] = None,
    *,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> Study:
    """Makes the study of a study file (YAML or JSON), or returns it; its name is the file's unless it is given.

    The file is read by the program `luthier`. Raises LuthierError with what it says about the file.

        study = luthier.from_file("examples/branin.yaml")
    """
    path = text("the path of the study file", os.fspath(path))
    if name is None:
        name = study_id(os.path.splitext(os.path.basename(path))[0])
    client = connect(server, db, accept_plaintext)
    project, short = _split(name)
    command = [program("luthier"), "--server", client.target(), "study", "create", "-f", path, "--name", short]
    command += ["--project", project] if project else []
    command += ["--accept-plaintext"] if client.accept_plaintext else []
    own: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": environment(client.local)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **own)
    if done.returncode != 0:
        raise LuthierError(done.stderr.strip() or f"luthier ended with {done.returncode}", code="INVALID_ARGUMENT")
    return load(name, server=server, db=db, accept_plaintext=accept_plaintext)


def from_optuna(given: Any, name: Optional[str] = None, *, study_name: Optional[str] = None, **options: Any) -> Study:
    """Makes a study of an Optuna study, with all of its trials that have ended.

    `given` is an Optuna study, or a storage: an object, a URL or a journal's file, of which `study_name` names a study.
    `name` and `options` are as for luthier.study; the name and goals default to those of the Optuna study, and its
    constraints are bounds, `constraint_0` and so on at most 0. Goals whose names are no metric's, or a parameter's, are
    `value_0` and so on. A study that can't be filled is not made. Needs optuna.

        study = luthier.from_optuna("sqlite:///example.db", study_name="mnist")
    """
    source = given if hasattr(given, "get_trials") else optuna_study(given, study_name)
    measured = optuna_metrics(source)
    if {"metric", "goal", "goals"} & set(options):
        kept = ("constraints",) if {"goal", "goals"} & set(options) else ("constraints", "goal")
        measured = {key: given for key, given in measured.items() if key in kept}
    where = {key: options[key] for key in ("server", "db", "accept_plaintext") if key in options}
    called = name or study_id(source.study_name)
    try:
        load(called, **where)
        there = True
    except NotFound:
        there = False
    study = make(called, **{**measured, **options})
    try:
        study.import_trials(source)
    except Exception:
        if not there:  # Nobody has seen it: without its trials it would be in the way of another try.
            study.delete()
        raise
    return study
