"""Fills a database of a past program through its API, and writes down what that program says of it.

    make.py LUTHIERD PROTO_DIR OUT

LUTHIERD is the coordinator built from a past commit, PROTO_DIR the folder `proto` of that commit. OUT/luthier.db.xz
is the database as that program left it at its end, with free pages removed; OUT/answers.json.xz is what it answered
about each study and trial. ORIGIN.md says which commits these were. What a program does not have yet is left out: an
algorithm, a field, a call.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import grpc

TRIALS = 6
SWITCHES = 8  # Of a study of switches alone, as Harmonica wants it.
# Algorithms with unusual options, by the name of their study.
ODD = {
    "auto-noisy": "auto { noisy: true rules: 0 }",
    "bo-kernel": "bo { initial_points: 3 kernel: SE warp: WARP_NONE prior: THESIS trust_region: TRUST_REGION_OFF }",
    "bo-direct": "bo { initial_points: 3 acquisition: EI maximizer: DIRECT hyperparameters: MCMC count_history: false }",
    "bo-ucb": "bo { initial_points: 3 acquisition: UCB beta_schedule: BETA_CONSTANT beta: 4 pending: BELIEVER }",
    "bo-pi": "hbo { initial_points: 3 acquisition: PI improvement: 0.05 explore_every: 3 exploration: FARTHEST }",
    "bo-ts": "bo { initial_points: 3 acquisition: TS sampler: FOURIER kernel: ADDITIVE warp: LOG }",
    "lbo-known": "lbo { initial_points: 3 growth: KNOWN lipschitz_constant: 40 }",
    "lbo-cap": "lbo { initial_points: 3 acquisition: UCB lipschitz: ACCEPT_REJECT beta_schedule: DRAGONFLY }",
    "fobo-slopes": "fobo { initial_points: 3 gradients: DIRECTIONAL kernel: PAIRWISE trust_region: TRUST_REGION_OFF }",
    "tpe-one": "tpe { startup_trials: 2 candidates: 7 multivariate: false }",
    "cma-es-few": "cma_es { population: 5 initial_sigma: 0.1 }",
    "grid-cells": "grid { levels: 3 centres: true shuffle: false }",
    "hoag-steps": "hoag { sequence: CUBIC step_rule: BACKTRACKING first_tolerance: 0.01 chains: 2 stop: 0.001 }",
    "harmonica-one": "harmonica { samples: 20 stages: 1 degree: 2 terms: 3 restrictions: 2 base { bo { kernel: SE } } }",
    "asha-bo": "asha { eta: 2 variant: STOP sampler { bo { initial_points: 3 kernel: MATERN52 } } }",
    # Those with options that later programs lack.
    "gone-bo": "bo { initial_points: 3 kernel: MATERN32 criterion: LEAVE_ONE_OUT feasibility: FEASIBILITY_OFF }",
    "gone-lbo": "lbo { initial_points: 3 growth: FITTED pending: LIAR_MIN }",
    "gone-ts": "bo { initial_points: 3 acquisition: TS sampler: FINITE trust_box: TRUST_BOX_ON }",
    "gone-tpe": "tpe { startup_trials: 2 gamma: SQRT bandwidth: FIXED }",
    "gone-asha": "asha { first_go_on: true variant: STOP sampler { tpe { startup_trials: 2 gamma: SQRT } } }",
    "gone-hyperband": "hyperband { sizes: FLOOR quorum: 0.5 overlap: false }",
    "gone-harmonica": "harmonica { samples: 20 gray: true lambda: LAMBDA_CV base { cma_es { restarts: false } } }",
    "gone-hoag": "hoag { step_rule: LITERAL reject_guard: false max_step: 1 }",
}


def load(protos: Path, out: Path) -> None:
    """Compiles the protocol of that commit, for this process."""
    files = sorted((protos / "luthier/v1").glob("*.proto"))
    subprocess.run(["protoc", f"-I{protos}", f"--python_out={out}", *map(str, files)], check=True)
    sys.path.insert(0, str(out))


class Api:
    """Calls by name; a study at a time."""

    def __init__(self, address: str) -> None:
        from luthier.v1 import study_service_pb2, worker_service_pb2
        self.modules = {"StudyService": study_service_pb2, "WorkerService": worker_service_pb2}
        self.channel = grpc.insecure_channel(address)

    def message(self, service: str, kind: str, /, **fields: object) -> object:
        """A message of a service's file. Fields that it does not have are left out."""
        made = getattr(self.modules[service], kind)()
        for field, value in fields.items():
            if field not in made.DESCRIPTOR.fields_by_name:
                continue
            if hasattr(value, "DESCRIPTOR"):
                getattr(made, field).CopyFrom(value)
            elif isinstance(value, list):
                getattr(made, field).extend(value)
            else:
                setattr(made, field, value)
        return made

    def has(self, service: str, method: str) -> bool:
        """Whether that commit's service has the method."""
        return method in self.modules[service].DESCRIPTOR.services_by_name[service].methods_by_name

    def call(self, method: str, /, **fields: object) -> object:
        """A call with one answer."""
        service, name = method.split("/")
        described = self.modules[service].DESCRIPTOR.services_by_name[service].methods_by_name[name]
        import importlib
        file = described.output_type.file.name.replace("/", ".").removesuffix(".proto") + "_pb2"
        answer = getattr(importlib.import_module(file), described.output_type.name)
        request = self.message(service, described.input_type.name, **fields)
        return self.channel.unary_unary(f"/luthier.v1.{method}", request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=answer.FromString)(request, timeout=60)


def odd(plain: dict[str, object]) -> dict[str, object]:
    """The studies of ODD that the commit's protocol can say, on the spaces of `plain`, which has one an algorithm."""
    from google.protobuf import text_format
    from luthier.v1 import study_pb2
    made = {}
    for name, text in ODD.items():
        try:
            algorithm = text_format.Parse(text, study_pb2.Algorithm())
        except text_format.ParseError:
            continue
        spec = study_pb2.StudySpec()
        spec.CopyFrom(plain[algorithm.WhichOneof("kind").replace("_", "-")])
        spec.algorithm.CopyFrom(algorithm)
        made[name] = spec
    return made


def specs() -> dict[str, object]:
    """A study for each algorithm that the commit knows, and some more."""
    from luthier.v1 import study_pb2
    made = {}
    for field in study_pb2.Algorithm.DESCRIPTOR.oneofs_by_name["kind"].fields:
        spec = study_pb2.StudySpec(display_name=f"with {field.name}", seed=7)
        getattr(spec.algorithm, field.name).SetInParent()
        spec.metric.name, spec.metric.goal = "loss", study_pb2.MINIMIZE
        spec.budget.max_trials = 40
        spec.labels["made"] = "by a past program"
        if field.name == "harmonica":
            for i in range(SWITCHES):
                getattr(spec.space.add(name=f"s{i}"), "bool").SetInParent()
        else:
            rate = getattr(spec.space.add(name="rate"), "float")
            rate.min, rate.max, rate.scale = 1e-4, 1.0, study_pb2.LOG
            size = spec.space.add(name="size")
            getattr(size, "int").min, getattr(size, "int").max = 1, 16
            if field.name not in ("cma_es", "fobo", "hoag", "projected_gradient", "iterdiff"):
                spec.space.add(name="kernel").categorical.values.extend(["linear", "rbf", "Ü — 日本語"])
        if field.name in ("successive_halving", "hyperband", "asha"):
            spec.resource.max, spec.resource.unit = 9, "epochs"
        if field.name == "grid":
            spec.space[0].float.step, spec.space[0].float.scale = 0.1, study_pb2.LINEAR
            spec.space[0].float.min = 0.1
        made[field.name.replace("_", "-")] = spec
    made.update(odd(made))
    for state in ("paused", "stopped", "cancelled", "deleted"):
        made[state] = made["random"]
    return made


def measurement(api: Api, rng: random.Random, step: int, lease: object) -> object:
    """One with a value, a second metric, and a gradient where the study wants one."""
    from luthier.v1 import trial_pb2
    made = trial_pb2.Measurement(step=step, elapsed_seconds=step * 0.25)
    made.metrics["loss"] = rng.uniform(0, 1)
    made.metrics["accuracy"] = rng.uniform(0, 1)
    if lease.spec.algorithm.WhichOneof("kind") == "fobo":
        if lease.trial.provenance.direction:
            made.gradient.directional.direction.extend(lease.trial.provenance.direction)
            made.gradient.directional.slope = rng.uniform(-1, 1)
        else:
            floats = [parameter for parameter in lease.spec.space if parameter.WhichOneof("kind") == "float"]
            made.gradient.full.values.extend([rng.uniform(-1, 1) for _ in floats])
    return made


def end(api: Api, rng: random.Random, lease: object, i: int) -> None:
    """One of the ways in which an attempt ends; the last stays open."""
    from luthier.v1 import trial_pb2
    mine = {"trial": lease.trial.name, "token": lease.token}
    target = getattr(lease, "target_step", 0)
    if i == TRIALS - 1:
        return
    if i == 1:
        failure = trial_pb2.Failure(kind=trial_pb2.Failure.CONFIG, reason="DIVERGED", message="nan \u202e at step 3")
        api.call("WorkerService/Fail", **mine, failure=failure, output_tail="Traceback …\n")
    elif i == 2:
        api.call("WorkerService/Release", **mine, checkpoint="file:half-way")
    else:
        api.call("WorkerService/Report", **mine, measurements=[measurement(api, rng, 1, lease)], checkpoint="file:one")
        last = measurement(api, rng, target or 2, lease)
        try:
            api.call("WorkerService/Complete", **mine, measurement=last, pruned=i == 3 and not target,
                     paused=bool(target), checkpoint="file:end", output_tail="done\n")
        except grpc.RpcError as error:
            if "is PRUNED already" not in error.details():  # The report ended it.
                raise


def fill(api: Api, rng: random.Random) -> list[str]:
    """Makes the studies; the names of those that are left."""
    from google.protobuf import struct_pb2

    def request_id() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))

    made = []
    for study, spec in specs().items():
        try:
            api.call("StudyService/CreateStudy", study_id=study, spec=spec)
        except grpc.RpcError as error:
            print(f"left out: {study}: {error.details()}")
            continue
        name = f"projects/default/studies/{study}"
        if spec.algorithm.WhichOneof("kind") == "random":
            parameters = struct_pb2.Struct()
            parameters.update({"rate": 0.5, "size": 3, "kernel": "rbf"})
            new = api.modules["StudyService"].EnqueueTrialsRequest.NewTrial
            api.call("StudyService/EnqueueTrials", parent=name, request_id=request_id(),
                     trials=[new(parameters=parameters, attributes={"who": "a person"})] * 2)
        for i in range(TRIALS):
            leases = api.call("WorkerService/Suggest", study=name, worker=f"worker-{i % 2}", count=1,
                              request_id=request_id()).leases
            for lease in leases:
                end(api, rng, lease, i)
        if study == "cancelled" or study == "random":
            trials = api.call("StudyService/ListTrials", parent=name).trials
            running = [trial for trial in trials if not trial.HasField("end_time")]
            api.call("StudyService/CancelTrial", name=running[0].name)
        controls = {"paused": ["PauseStudy"], "stopped": ["StopStudy"], "cancelled": ["CancelStudy"],
                    "deleted": ["CancelStudy", "DeleteStudy"]}
        for control in controls.get(study, []):
            api.call(f"StudyService/{control}", name=name, request_id=request_id())
        if study != "deleted":
            made.append(name)
    return made


def answers(api: Api, studies: list[str]) -> dict[str, object]:
    """What the program says of its studies and trials."""
    from google.protobuf import json_format

    def plain(message: object) -> object:
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    found: dict[str, object] = {}
    for name in studies:
        trials = []
        for trial in api.call("StudyService/ListTrials", parent=name, page_size=1000).trials:
            trials.append(plain(api.call("StudyService/GetTrial", name=trial.name, with_measurements=True)))
        found[name] = {"study": plain(api.call("StudyService/GetStudy", name=name)), "trials": trials}
    return found


def main() -> None:
    luthierd, protos, out = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "proto").mkdir()
        load(protos, scratch / "proto")
        command = [luthierd, "--listen", f"unix:{scratch}/s", "--data-dir", scratch / "data", "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert re.match("luthierd: serving on ", server.stdout.readline())
                api = Api(f"unix:{scratch}/s")
                studies = fill(api, random.Random(11))
                said = answers(api, studies)
            finally:
                server.send_signal(signal.SIGTERM)
        assert server.returncode == 0, server.returncode
        database = sqlite3.connect(scratch / "data/luthier.db", isolation_level=None)
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version < 13:  # Later databases have sums of their pages, which only their programs can write.
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("VACUUM")
        database.close()
        out.mkdir(parents=True, exist_ok=True)
        for file, data in {"luthier.db.xz": (scratch / "data/luthier.db").read_bytes(),
                           "answers.json.xz": json.dumps(said, indent=0, sort_keys=True).encode()}.items():
            (out / file).write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
            print(f"{file}: {len(data)} bytes, {(out / file).stat().st_size} compressed")
        print(f"schema {version}, {len(said)} studies, {sum(len(s['trials']) for s in said.values())} trials")


if __name__ == "__main__":
    main()
