"""Fills a database of a past program whose designers stored their state as text, half of each study's trials, and writes
down what that program suggested for the other half.

    make.py LUTHIERD PROTO_DIR OUT

LUTHIERD is the coordinator built from that commit, PROTO_DIR the folder `proto` of that commit. OUT/luthier.db.xz is
the database in the middle; OUT/studies.json.xz has the studies and the suggestions that followed. ORIGIN.md says which
commit this was.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))
from make import Api, load  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from loss import outcome  # noqa: E402


def floats(count: int) -> list[dict[str, Any]]:
    return [{"name": f"x{i}", "float": {"min": -1.0, "max": 2.0 + i}} for i in range(count)]


def switches(count: int) -> list[dict[str, Any]]:
    return [{"name": f"b{i}", "bool": {}} for i in range(count)]


LABELS = [{"name": "kernel", "categorical": {"values": ["linear", "rbf", "poly"]}},
          {"name": "size", "int": {"min": 1, "max": 9}}]
SMALL_HARMONICA = {"samples": 20, "stages": 2, "degree": 2, "terms": 3, "restrictions": 2}
# Name: space, algorithm, trials before and after, and more of the spec.
STUDIES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], int, int, dict[str, Any]]] = {
    "bo": (floats(2), {"bo": {}}, 22, 8, {}),
    "basins": (floats(1), {"bo": {"initial_points": 4}}, 30, 14, {}),
    "labels": (floats(2) + LABELS, {"bo": {}}, 18, 8, {}),
    "failures": (floats(2), {"bo": {}}, 14, 8, {}),
    "mcmc": (floats(2), {"bo": {"hyperparameters": "MCMC", "trust_region": "TRUST_REGION_OFF"}}, 10, 5, {}),
    "box": (floats(3), {"bo": {"trust_box": "TRUST_BOX_ON", "trust_region": "TRUST_REGION_OFF"}}, 16, 6, {}),
    "noisy": (floats(2), {"bo": {"noisy": True}}, 12, 5, {}),
    "hbo": (floats(2), {"hbo": {}}, 16, 8, {}),
    "lbo": (floats(2), {"lbo": {}}, 16, 8, {}),
    "fobo": (floats(3), {"fobo": {}}, 10, 6, {}),
    "directional": (floats(3), {"fobo": {"gradients": "DIRECTIONAL"}}, 10, 6, {}),
    "set-aside": (floats(2), {"hbo": {"gradients": "FULL"}}, 20, 6, {}),
    "quasi-newton": (floats(24), {"fobo": {}}, 10, 6, {}),
    "cma-es": (floats(3), {"cma_es": {}}, 24, 12, {}),
    "hoag": (floats(2), {"hoag": {"chains": 3}}, 12, 8, {}),
    "projected-gradient": (floats(2), {"projected_gradient": {}}, 6, 6, {}),
    "harmonica": (switches(10) + floats(1), {"harmonica": {**SMALL_HARMONICA, "base": {"random": {}}}}, 30, 16, {}),
    "harmonica-bo": (switches(9) + floats(2), {"harmonica": {**SMALL_HARMONICA, "base": {"bo": {}}}}, 44, 6, {}),
    "harmonica-asha": (switches(12), {"harmonica": {**SMALL_HARMONICA, "base": {"asha": {}}}}, 46, 8,
                       {"resource": {"max": 9}}),
    "asha-bo": (floats(2), {"asha": {"sampler": {"bo": {}}}}, 30, 12, {"resource": {"max": 9}}),
    "hyperband": (floats(2), {"hyperband": {}}, 16, 10, {"resource": {"max": 9}}),
    "successive-halving": (floats(2), {"successive_halving": {}}, 12, 8, {"resource": {"max": 9}}),
    "tpe": (floats(2) + LABELS, {"tpe": {}}, 16, 6, {}),
    "sobol": (floats(2), {"sobol": {}}, 4, 4, {}),
}


@contextmanager
def serving(luthierd: Path, data: Path) -> Any:
    """The API of a coordinator on the data directory."""
    command = [luthierd, "--listen", f"unix:{data.parent}/s", "--data-dir", data, "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert re.match("luthierd: serving on ", server.stdout.readline())
            yield Api(f"unix:{data.parent}/s")
        finally:
            server.send_signal(signal.SIGTERM)
    assert server.returncode == 0, server.returncode


def create(api: Api, study: str) -> None:
    from google.protobuf import json_format
    from luthier.v1 import study_pb2
    space, algorithm, before, after, more = STUDIES[study]
    spec = {"space": space, "algorithm": algorithm, "metric": {"name": "loss", "goal": "MINIMIZE"}, "seed": 5,
            "budget": {"max_trials": str(before + after + 20), "max_parallel": "1"}, **more}
    api.call("StudyService/CreateStudy", study_id=study, spec=json_format.ParseDict(spec, study_pb2.StudySpec()))


def go_on(api: Api, study: str, first: int, count: int) -> list[Any]:
    """Asks and tells; what was asked for."""
    from google.protobuf import json_format
    from luthier.v1 import trial_pb2
    asked = []
    for i in range(first, first + count):
        request = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{study} {i}"))
        lease = api.call("WorkerService/Suggest", study=f"projects/default/studies/{study}", worker=f"worker-{i % 2}",
                         count=1, request_id=request).leases[0]
        parameters = json_format.MessageToDict(lease.trial.parameters)
        number = int(lease.trial.name.rsplit("/", 1)[1])
        asked.append([number, parameters, lease.target_step])
        answer = outcome(study, number, parameters, list(lease.trial.provenance.direction), lease.target_step)
        mine = {"trial": lease.trial.name, "token": lease.token}
        if answer is None:
            failure = trial_pb2.Failure(kind=trial_pb2.Failure.CONFIG, reason="DIVERGED")
            api.call("WorkerService/Fail", **mine, failure=failure)
            continue
        measurement = json_format.ParseDict(answer, trial_pb2.Measurement())
        paused = 0 < lease.target_step < 9
        api.call("WorkerService/Complete", **mine, measurement=measurement, paused=paused,
                 checkpoint="file:end" if paused else "")
    return asked


def each(do: Callable[[str, int, int], Any]) -> dict[str, Any]:
    return {study: do(study, before, after) for study, (_, _, before, after, _) in STUDIES.items()}


def main() -> None:
    luthierd, protos, out = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "proto").mkdir()
        load(protos, scratch / "proto")
        with serving(luthierd, scratch / "data") as api:
            for study in STUDIES:
                create(api, study)
            each(lambda study, before, after: go_on(api, study, 0, before))
        database = sqlite3.connect(scratch / "data/luthier.db", isolation_level=None)
        version = database.execute("PRAGMA user_version").fetchone()[0]
        database.close()
        half_way = (scratch / "data/luthier.db").read_bytes()
        (scratch / "again").mkdir()
        shutil.copytree(scratch / "data", scratch / "again/data")
        with serving(luthierd, scratch / "again/data") as api:
            followed = each(lambda study, before, after: {"done": before, "asked": go_on(api, study, before, after)})
        out.mkdir(parents=True, exist_ok=True)
        for file, data in {"luthier.db.xz": half_way,
                           "followed.json.xz": json.dumps(followed, sort_keys=True).encode()}.items():
            (out / file).write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
            print(f"{file}: {len(data)} bytes, {(out / file).stat().st_size} compressed")
        print(f"schema {version}, {len(followed)} studies")


if __name__ == "__main__":
    main()
