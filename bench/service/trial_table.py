#!/usr/bin/env python3
"""How long tables and lists of a large study take.

  trial_table.py [--programs build/release/bin] [--trials 100000]

Starts luthierd on a new database, imports the trials, then reads GetTrialTable with 8 columns, and ListTrials with a
filter and with an order, 15 times each after a first time. Run it in the root of the checkout, with a Python that has
grpcio, and with protoc.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAME = "projects/default/studies/table"
COLUMNS = ["number", "state", "metrics.loss", "params.a", "params.b", "params.c", "params.d", "update_seq"]


class Service:
    """StudyService by the names of its calls."""

    def __init__(self, folder: str, address: str) -> None:
        protos = [f"luthier/v1/{n}.proto" for n in ("errors", "trial", "study", "study_service")]
        subprocess.run(["protoc", "-Iproto", f"--python_out={folder}", *protos], check=True)
        sys.path.insert(0, folder)
        self.api = importlib.import_module("luthier.v1.study_service_pb2")
        self.study = importlib.import_module("luthier.v1.study_pb2")
        self.trial = importlib.import_module("luthier.v1.trial_pb2")
        self.channel = importlib.import_module("grpc").insecure_channel(address)

    def call(self, method: str, request, reply):
        send = self.channel.unary_unary(f"/luthier.v1.StudyService/{method}",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=reply.FromString)
        return send(request, timeout=60, wait_for_ready=True)


def make_study(service: Service, trials: int) -> None:
    spec = service.study.StudySpec()
    spec.metric.name, spec.metric.goal = "loss", service.study.MINIMIZE
    for name in "abcd":
        parameter = spec.space.add(name=name)
        parameter.float.min, parameter.float.max = 0, 1
    spec.algorithm.random.SetInParent()
    service.call("CreateStudy", service.api.CreateStudyRequest(study_id="table", spec=spec), service.study.Study)
    begin = time.perf_counter()
    for first in range(0, trials, 1000):
        request = service.api.ImportTrialsRequest(parent=NAME)
        for n in range(first, min(first + 1000, trials)):
            trial = request.trials.add(state=service.trial.Trial.COMPLETE)
            for k, name in enumerate("abcd"):
                trial.parameters.fields[name].number_value = n * (k + 7) % 9973 / 9973
            trial.final_measurement.metrics["loss"] = n * 31 % 99991 / 99991
        service.call("ImportTrials", request, service.api.ImportTrialsResponse)
    print(f"imported {trials} trials in {time.perf_counter() - begin:.1f} s")


def table(service: Service) -> str:
    rows = pages = size = 0
    token = ""
    while pages == 0 or token:
        reply = service.call("GetTrialTable",
                             service.api.GetTrialTableRequest(name=NAME, columns=COLUMNS, page_token=token),
                             service.api.GetTrialTableResponse)
        rows, pages, size, token = rows + reply.rows, pages + 1, size + reply.ByteSize(), reply.next_page_token
    return f"{rows} rows, {pages} pages, {size} bytes"


def listed(service: Service, **which: str) -> str:
    request = service.api.ListTrialsRequest(parent=NAME, page_size=100, **which)
    return f"{len(service.call('ListTrials', request, service.api.ListTrialsResponse).trials)} trials"


def measure(what: str, read) -> None:
    times = []
    for _ in range(16):
        begin = time.perf_counter()
        result = read()
        times.append(1e3 * (time.perf_counter() - begin))
    print(f"{what}: {result}; first {times[0]:.0f} ms, then median {statistics.median(times[1:]):.0f} ms, "
          f"most {max(times[1:]):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--trials", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        with subprocess.Popen([options.programs / "luthierd", "--data-dir", f"{folder}/db", "--listen", address],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                service = Service(folder, address)
                make_study(service, options.trials)
                measure("GetTrialTable, 8 columns", lambda: table(service))
                measure("ListTrials, filter", lambda: listed(service, filter="metrics.loss < .01 AND params.a > .5"))
                measure("ListTrials, order_by", lambda: listed(service, order_by="metrics.loss desc"))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
