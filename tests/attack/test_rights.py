"""Who may call what: every call, by every kind of caller, about what is its own and what is another's; and what somebody with a
valid token tries who wants what belongs to another."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import BIN, Caller, Coordinator, descendants_killed, messages_of, spec, wait_for

WRITE, ADMIN = {"user", "both", "maintainer", "several", "admin"}, {"admin"}
SEE, READ, WORK = WRITE | {"viewer", "worker"}, WRITE | {"viewer"}, WRITE | {"worker"}
# As docs/guide/security.md says. A call without a row fails.
MATRIX = {
    "StudyService": {
        "CreateStudy": WRITE, "GetStudy": SEE, "ListStudies": READ, "UpdateStudy": WRITE, "PauseStudy": WRITE, "ResumeStudy": WRITE,
        "StopStudy": WRITE, "CancelStudy": WRITE, "DeleteStudy": WRITE, "UndeleteStudy": WRITE, "GetTrial": SEE, "ListTrials": READ, "EnqueueTrials": WRITE,
        "ImportTrials": WRITE, "RetryTrials": WRITE, "DeleteTrial": WRITE, "SetAttributes": WRITE, "CancelTrial": WRITE,
        "StopTrial": WRITE, "Predict": READ, "ExplainTrial": SEE, "ListWorkers": READ, "GetTrialTable": READ, "ListEvents": READ,
        "GetImportance": READ, "WatchStudy": READ, "CheckStudyFile": READ},
    "WorkerService": {
        "Suggest": WORK, "Heartbeat": WORK, "Report": WORK, "Complete": WORK, "Fail": WORK, "Release": WORK,
        "DeclareParameters": WORK, "GetServerInfo": SEE},
    "AdminService": {
        "CreateToken": ADMIN, "ListTokens": ADMIN, "RotateToken": ADMIN, "RevokeToken": ADMIN, "CreateProject": ADMIN,
        "UpdateProject": ADMIN, "ListProjects": ADMIN, "ListAudit": ADMIN, "OpenPage": ADMIN},
}
STUDY, TRIAL = "projects/vision/studies/s", "projects/vision/studies/s/trials/1"
UNKNOWN = "lut_0123456789abcdef_" + "A" * 43


class People:
    """A coordinator with projects `vision`, `speech` and `other`, and somebody of each kind; `several` are of the first two."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        admin = coordinator.caller(coordinator.admin_token)
        for project in ("vision", "speech", "other"):
            admin.call("AdminService/CreateProject", id=project)
        self.tokens, self.ids = {"admin": coordinator.admin_token}, {}
        admin_service = messages_of("AdminService")
        wanted = {"viewer": ["VIEWER"], "user": ["USER"], "worker": ["WORKER"], "both": ["USER", "WORKER"], "commander": ["USER"],
                  "stranger": ["USER"], "revoked": ["ADMIN"], "maintainer": ["MAINTAINER"], "several": ["USER", "WORKER"], "listener": ["VIEWER"]}
        for name, roles in wanted.items():
            request = admin_service.CreateTokenRequest(name=name, commands=name == "commander")
            request.roles.extend(admin_service.Role.Value(role) for role in roles)
            if name == "several":
                request.projects.extend(["vision", "speech"])
            elif name != "revoked":
                request.project = {"stranger": "other", "listener": "speech"}.get(name, "vision")
            made = admin.call("AdminService/CreateToken", request)
            self.tokens[name], self.ids[name] = made.secret, made.token.id
        admin.call("AdminService/RevokeToken", id=self.ids["revoked"])
        admin.close()
        self.made: dict[str, Caller] = {}
        request = self.create("s")
        self["user"].call("StudyService/CreateStudy", request)
        request = self.create("command")
        request.spec.objective.command.argv.append("/bin/true")
        self["commander"].call("StudyService/CreateStudy", request)

    @staticmethod
    def create(study: str) -> Any:
        return messages_of("StudyService").CreateStudyRequest(study_id=study, spec=spec(max_trials=10))

    def __getitem__(self, who: str) -> Caller:
        if who not in self.made:
            self.made[who] = self.coordinator.caller(self.tokens.get(who, who) or None)
        return self.made[who]

    def dump(self) -> str:
        """All that is kept, but for the record of what was tried."""
        rows = []
        for file, tables in (("luthier.db", None), ("access.db", ("projects", "tokens"))):
            with sqlite3.connect(f"file:{self.coordinator.data / file}?mode=ro", uri=True) as db:
                names = tables or [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
                for name in names:
                    if name.startswith("sqlite_") or name == "counter":
                        continue
                    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{name}")') if "use" not in row[1]]
                    refused = " WHERE type <> 18" if name == "event" else ""  # REPORT_REFUSED
                    wanted = ", ".join(f'"{column}"' for column in columns)
                    rows += [name] + sorted(map(repr, db.execute(f'SELECT {wanted} FROM "{name}"{refused}')))
        return "\n".join(rows)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, messages: None) -> Iterator[People]:
    with Coordinator(tmp_path_factory.mktemp("rights"), "--auth", "required") as coordinator:
        yield People(coordinator)
        coordinator.assert_alive()


def requests_of(service: str, method: str, target: str) -> Any:
    """A request of the method that names `target`, a study or a project, in whatever field it has for it."""
    descriptor = messages_of(service).DESCRIPTOR.services_by_name[service].methods_by_name[method].input_type
    request = getattr(messages_of(service), descriptor.name)()
    named = False
    if service == "AdminService":
        return request, False
    for field in descriptor.fields:
        if field.name in ("name", "parent", "study", "trial") and field.type == field.TYPE_STRING and target:
            project = f"projects/{target}"
            value = {"name": f"{project}/studies/none", "study": f"{project}/studies/none", "trial": f"{project}/studies/none/trials/1",
                     "parent": f"{project}/studies/none"}[field.name]
            if field.name == "parent" and method in ("CreateStudy", "ListStudies", "Suggest"):
                value = project
            setattr(request, field.name, value)
            named = True
    return request, named


def outcome(caller: Caller, service: str, method: str, request: Any) -> tuple[str, str]:
    """Code and reason of a call, "OK" and "" where it is good. Streams are read to their first answer."""
    from luthier.v1 import errors_pb2

    try:
        if method == "WatchStudy":
            next(iter(caller.stream(f"{service}/{method}", request, timeout=5)), None)
        else:
            caller.call(f"{service}/{method}", request, timeout=2 if method == "Suggest" else 10)
        return "OK", ""
    except grpc.RpcError as error:
        detail = errors_pb2.ErrorDetail()
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                detail.ParseFromString(value)
        return error.code().name, detail.reason


def reason(caller: Caller, method: str, request: Any) -> str:
    return outcome(caller, *method.split("/"), request)[1]


def test_every_call_has_a_row(people: People) -> None:
    for service, rows in MATRIX.items():
        assert set(messages_of(service).DESCRIPTOR.services_by_name[service].methods_by_name) == set(rows), service


def test_roles_and_projects(people: People) -> None:
    cells = 0
    everybody = ("viewer", "user", "worker", "both", "maintainer", "several", "admin")
    for who in everybody:
        for service, rows in MATRIX.items():
            for method, roles in rows.items():
                for project in ("vision", "speech", "other", ""):
                    request, named = requests_of(service, method, project)
                    code, why = outcome(people[who], service, method, request)
                    what = f"{method} by {who} in {project!r}: {code} {why}"
                    assert code not in ("UNAUTHENTICATED", "UNIMPLEMENTED", "INTERNAL", "UNKNOWN", "UNAVAILABLE"), what
                    elsewhere = project == "other" or (project == "speech" and who != "several")
                    if elsewhere and named and who != "admin":
                        assert code == "NOT_FOUND", what
                    elif who in roles:
                        assert code != "PERMISSION_DENIED", what
                    else:
                        assert (code, why) == ("PERMISSION_DENIED", "ROLE"), what
                    cells += 1
    assert cells == len(everybody) * 4 * sum(map(len, MATRIX.values()))


def test_without_a_valid_token_nothing_goes(people: People) -> None:
    for who, why in (("revoked", "REVOKED"), (UNKNOWN, "BAD_TOKEN"), ("lut_", "BAD_TOKEN"), ("", "NO_TOKEN")):
        methods = [(service, method) for service, rows in MATRIX.items() for method in rows]
        # Wrong tokens beyond ten a minute are answered late, so that guessing is slow.
        for service, method in methods if who == "" else methods[:2]:
            request, _ = requests_of(service, method, "vision")
            assert outcome(people[who], service, method, request) == ("UNAUTHENTICATED", why), (method, who)


def test_a_revoked_token_ends_at_once(people: People) -> None:
    request = messages_of("AdminService").CreateTokenRequest(name="shortly", project="vision")
    request.roles.append(messages_of("AdminService").Role.Value("VIEWER"))
    made = people["admin"].call("AdminService/CreateToken", request)
    shortly = people.coordinator.caller(made.secret)
    shortly.call("StudyService/GetStudy", name=STUDY)
    people["admin"].call("AdminService/RevokeToken", id=made.token.id)
    begin = time.monotonic()
    assert shortly.error("StudyService/GetStudy", name=STUDY).code() == grpc.StatusCode.UNAUTHENTICATED
    assert time.monotonic() - begin < 3.0


def test_a_lease_a_name_and_a_request_of_another(people: People) -> None:
    workers = messages_of("WorkerService")
    ask = workers.SuggestRequest(study=STUDY, worker="w", request_id="r1")
    lease = people["worker"].call("WorkerService/Suggest", ask).leases[0]
    report = workers.ReportRequest(trial=lease.trial.name, token=lease.token, checkpoint="file:theirs")
    report.measurements.add(step=1).metrics["loss"] = -1e9
    complete = workers.CompleteRequest(trial=lease.trial.name, token=lease.token)
    complete.measurement.metrics["loss"] = -1e9
    fail = workers.FailRequest(trial=lease.trial.name, token=lease.token)
    fail.failure.kind, fail.failure.reason = 1, "NON_FINITE"
    release = workers.ReleaseRequest(trial=lease.trial.name, token=lease.token)
    before = people.dump()
    # "both" is of the same project, "stranger" of another one; both know name and lease.
    for who, refusal in (("both", "LEASE_LOST"), ("stranger", "NOT_FOUND")):
        for method, request in (("Report", report), ("Complete", complete), ("Fail", fail), ("Release", release)):
            if who == "stranger":  # A user may work, in its own project.
                assert reason(people[who], f"WorkerService/{method}", request) == refusal, (who, method)
            else:
                assert reason(people[who], f"WorkerService/{method}", request) == refusal, (who, method)
        assert people.dump() == before, who
    # The names of other people's workers, and what is none.
    for name in ("worker/w", "vision/worker/w", "../worker/w", "w\n", ""):
        ask = workers.SuggestRequest(study=STUDY, worker=name, request_id="r1")
        assert reason(people["both"], "WorkerService/Suggest", ask) == "BAD_FIELD", name
        beat = workers.HeartbeatRequest(worker=name, tokens=[lease.token])
        assert reason(people["both"], "WorkerService/Heartbeat", beat) == "BAD_FIELD", name
    assert people.dump() == before
    # The holder goes on. For somebody else the same request is another one.
    people["worker"].call("WorkerService/Report", report)
    enqueue = messages_of("StudyService").EnqueueTrialsRequest(parent=STUDY, request_id="e1")
    enqueue.trials.add().parameters.update({"x0": 0.5, "x1": 0.5})
    added = {who: people[who].call("StudyService/EnqueueTrials", enqueue).trials[0].name for who in ("user", "admin")}
    assert added["user"] != added["admin"]
    for who, name in added.items():
        assert people[who].call("StudyService/EnqueueTrials", enqueue).trials[0].name == name


def test_studies_commands_and_tokens_of_another(people: People) -> None:
    before = people.dump()
    studies, admins = messages_of("StudyService"), messages_of("AdminService")
    for service in ("StudyService", "WorkerService"):
        for method in MATRIX[service]:
            descriptor = messages_of(service).DESCRIPTOR.services_by_name[service].methods_by_name[method].input_type
            for target in (STUDY, TRIAL):
                request, named = getattr(messages_of(service), descriptor.name)(), False
                for field in descriptor.fields:
                    if field.name in ("name", "parent", "study", "trial") and field.type == field.TYPE_STRING:
                        setattr(request, field.name, target)
                        named = True
                if named:
                    assert outcome(people["stranger"], service, method, request)[0] == "NOT_FOUND", (method, target)
    create = People.create("mine")
    create.spec.objective.command.argv.append("/bin/sh")
    assert reason(people["user"], "StudyService/CreateStudy", create) == "ROLE"
    for name in (STUDY, "projects/vision/studies/command"):
        for path in ("objective", "objective.command", "objective.command.argv", "*"):
            update = studies.UpdateStudyRequest(name=name)
            update.spec.objective.command.argv.append("/bin/sh")
            update.update_mask.paths.append(path)
            assert reason(people["user"], "StudyService/UpdateStudy", update) == "ROLE", (name, path)
    for who in ("commander", "both", "viewer", "worker"):
        made = admins.CreateTokenRequest(name="mine")
        made.roles.append(admins.Role.Value("ADMIN"))
        for method, request in (("CreateToken", made), ("RotateToken", admins.RotateTokenRequest(id=people.ids["user"])),
                                ("RevokeToken", admins.RevokeTokenRequest(id=people.ids["user"]))):
            assert reason(people[who], f"AdminService/{method}", request) == "ROLE", (who, method)
    assert people.dump() == before


def test_a_worker_of_several_projects_is_seen_in_each_which_tells_of_no_other(people: People) -> None:
    workers = messages_of("WorkerService")
    several, speech = people["several"], "projects/speech/studies/heard"
    create = People.create("heard")
    create.parent = "projects/speech"
    several.call("StudyService/CreateStudy", create)
    leases = [several.call("WorkerService/Suggest", workers.SuggestRequest(study=study, worker="w", instance="i", request_id=study)).leases[0]
              for study in (STUDY, speech)]
    several.call("WorkerService/Complete", trial=leases[1].trial.name, token=leases[1].token, measurement={"metrics": {"loss": 1.0}})

    def seen(who: str, project: str) -> dict[str, Any]:
        return {worker.name: worker for worker in people[who].call("StudyService/ListWorkers", parent=f"projects/{project}").workers}

    for who in ("viewer", "several", "admin"):
        mine = seen(who, "vision")["vision/several/w"]
        assert (mine.granted, mine.completed, mine.leases) == (1, 0, 1)
        assert not [name for name in seen(who, "vision") if name.startswith("speech/")]
    for who in ("listener", "several", "admin"):
        theirs = seen(who, "speech")
        assert list(theirs) == ["speech/several/w"]
        assert (theirs["speech/several/w"].granted, theirs["speech/several/w"].completed, theirs["speech/several/w"].leases) == (1, 1, 0)
    # A heartbeat is heard in both, whatever it holds.
    before = {project: seen("several", project)[f"{project}/several/w"].last_seen.ToNanoseconds() for project in ("vision", "speech")}
    several.call("WorkerService/Heartbeat", workers.HeartbeatRequest(worker="w", tokens=[leases[0].token]))
    for project, at in before.items():
        assert seen("several", project)[f"{project}/several/w"].last_seen.ToNanoseconds() > at
    # What a viewer of one project reads of it has no word of the other: neither of a study that it is busy with.
    create.study_id = "waits"
    create.spec.objective.builtin.model = "logistic"
    create.spec.objective.builtin.data = "synth:logistic?rows=50&cols=3"
    create.spec.space[0].name = "l2"
    getattr(create.spec.space[0], "float").min = 0.1
    del create.spec.space[1:]
    create.spec.metric.name = "validation_loss"
    several.call("StudyService/CreateStudy", create)
    several.call("WorkerService/Suggest", workers.SuggestRequest(parent="projects/speech", study=speech, worker="w", instance="i", request_id="r2"))
    listener = people["listener"]
    said = "".join(map(str, [*listener.call("StudyService/ListStudies", parent="projects/speech").studies,
                             *listener.call("StudyService/ListTrials", parent=speech).trials,
                             *listener.call("StudyService/ListEvents", name=speech).events, *seen("listener", "speech").values()]))
    assert "speech/several/w" in said and "vision" not in said
    several.call("WorkerService/Release", trial=leases[0].trial.name, token=leases[0].token)


def test_what_is_elsewhere_and_what_is_nowhere_look_alike(people: People) -> None:
    people["stranger"].call("StudyService/CreateStudy", People.create("secret"))
    texts = {people["user"].error("StudyService/GetStudy", name=f"projects/other/studies/{name}").details().replace(name, "…")
             for name in ("secret", "nosuch")}
    assert len(texts) == 1, texts


def test_data_outside_of_the_root(tmp_path: Path) -> None:
    """What a study may name is below the worker's data root, whoever made the study."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "secret.csv").write_text("12345678,0\n2,1\n" * 20)
    (root / "link.csv").symlink_to(outside / "secret.csv")
    (root / "folder").symlink_to(outside)
    paths = [str(outside / "secret.csv"), "link.csv", "folder/secret.csv", "../outside/secret.csv", "/etc/shadow", "/proc/self/environ"]
    with Coordinator(tmp_path) as coordinator:
        caller = coordinator.caller(address=coordinator.own_socket)
        for i, path in enumerate(paths):
            wanted = spec(parameters=1, max_trials=1)
            wanted.space[0].name = "l2"
            getattr(wanted.space[0], "float").min = 0.1
            wanted.metric.name = "validation_loss"
            wanted.objective.builtin.model, wanted.objective.builtin.data = "logistic", path
            if path.startswith("/"):
                assert "absolute path" in caller.error("StudyService/CreateStudy", study_id=f"d{i}", spec=wanted).details()
                wanted.objective.builtin.data = "../" * 30 + path[1:]
            caller.call("StudyService/CreateStudy", study_id=f"d{i}", spec=wanted)
        command = [BIN / "luthier-worker", "--server", coordinator.own_socket, "--data-root", root, "--spool", tmp_path / "spool"]
        with open(tmp_path / "worker.log", "wb") as log, descendants_killed(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=root)) as worker:
            def ended() -> list[Any]:
                trials = [trial for i in range(len(paths)) for trial in caller.trials(f"d{i}")]
                assert worker.poll() is None, (tmp_path / "worker.log").read_text()
                return trials if len(trials) == len(paths) and all(trial.HasField("failure") for trial in trials) else []

            trials = wait_for(ended, "the end of all trials")
        said = "".join(map(str, trials)) + (tmp_path / "worker.log").read_text(errors="replace")
        assert "12345678" not in said and "root:" not in said, said
        assert not any(trial.HasField("final_measurement") for trial in trials), said
