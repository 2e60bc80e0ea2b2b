#!/usr/bin/env python3
"""What strangers do to a coordinator that they can reach, and what others notice of it.

  hostile.py [--programs build/release/bin] [--count 10000] [KIND ...]

Starts luthierd with a memory limit of 512 MiB. A process of workers asks, reports, completes and beats meanwhile, and
measures each call. Every kind of attack comes COUNT times (`--list` describes them; the large ones, as said there, a
part of it). Prints a line for each: seconds, the most resident memory, how long others' calls took, how many of them
failed. Ends with 1 where memory exceeds the limit, others' p99 250 ms, a call of theirs failed, or the server is gone.
--with-token: the attacks come with a valid token. Run it in the root of the checkout, with Debian's Python (/usr/bin/python3).
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Callable

import grpc

MIB = 1 << 20
LIMIT_MIB = 512
P99_MS = 250.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
HEADERS, DATA, RESET = 1, 0, 3
END_STREAM, END_HEADERS = 1, 4
STUDIES, WORKERS = "/luthier.v1.StudyService/", "/luthier.v1.WorkerService/"
STUDY = "projects/default/studies/good"
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0), ("grpc.max_send_message_length", 128 * MIB)]


def stubs(folder: str) -> dict[str, Any]:
    """Modules made from proto/, by name."""
    root = Path("proto")
    files = sorted(str(path.relative_to(root)) for path in root.glob("luthier/v1/*.proto"))
    subprocess.run(["protoc", f"-I{root}", f"--python_out={folder}", f"--grpc_out={folder}",
                    "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin", *files], check=True)
    sys.path.insert(0, folder)
    names = ("study_pb2", "trial_pb2", "study_service_pb2", "worker_service_pb2", "study_service_pb2_grpc",
             "worker_service_pb2_grpc")
    return {name: importlib.import_module(f"luthier.v1.{name}") for name in names}


# --- The others ---------------------------------------------------------------------------------------------------


def work(address: str, folder: str, token: str) -> None:
    """Lines `seconds-since-the-epoch milliseconds error`, one for each call, until standard input ends."""
    m = stubs(folder)
    workers = m["worker_service_pb2"]
    stopping = threading.Event()
    lock = threading.Lock()

    def one(name: str) -> None:
        stub = m["worker_service_pb2_grpc"].WorkerServiceStub(grpc.insecure_channel(address, options=OPTIONS))

        def timed(call: Callable[..., Any], request: Any) -> Any:
            begin, error, answer = time.time(), "", None
            try:
                answer = call(request, timeout=10, metadata=bearer(token))
            except grpc.RpcError as failure:
                error = f"{failure.code().name} {failure.details()}".replace("\n", " ")[:100]
            with lock:
                print(f"{begin} {1e3 * (time.time() - begin)} {error}", flush=True)
            return answer

        asks = 0
        while not stopping.is_set():
            asks += 1
            got = timed(stub.Suggest, workers.SuggestRequest(study=STUDY, worker=name, request_id=f"{name}-{asks}"))
            for lease in got.leases if got else []:
                point = m["trial_pb2"].Measurement(step=1)
                point.metrics["loss"] = random.random()
                timed(stub.Report, workers.ReportRequest(trial=lease.trial.name, token=lease.token, measurements=[point]))
                timed(stub.Heartbeat, workers.HeartbeatRequest(worker=name, tokens=[lease.token]))
                timed(stub.Complete, workers.CompleteRequest(trial=lease.trial.name, token=lease.token, measurement=point))
            stopping.wait(0.02)

    threads = [threading.Thread(target=one, args=(f"w{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


# --- The server ---------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, programs: str, folder: str):
        self.log = Path(folder) / "luthierd.log"
        self.process = subprocess.Popen(
            [f"{programs}/luthierd", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir",
             f"{folder}/data", "--memory-limit", f"{LIMIT_MIB}M"],
            stdout=subprocess.PIPE, stderr=self.log.open("wb"), text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if "serving on " not in said:
            sys.exit(f"luthierd does not start: {self.log.read_text()}")
        self.address = said.rsplit(" ", 1)[1].strip()
        self.port = int(self.address.rsplit(":", 1)[1])
        self.token = Path(f"{folder}/data/admin.token").read_text().strip()
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", self.log.read_text())
        assert found is not None
        self.metrics_port = int(found[1])
        self.most_mib = 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def alive(self) -> bool:
        return self.process.poll() is None

    def watch(self) -> None:
        while self.alive():
            try:
                text = Path(f"/proc/{self.process.pid}/status").read_text()
            except OSError:
                return
            found = re.search(r"VmRSS:\s+(\d+) kB", text)
            if found:
                self.most_mib = max(self.most_mib, int(found[1]) / 1024)
            time.sleep(0.01)

    def connect(self, port: int | None = None) -> socket.socket:
        return connect(port or self.port)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def bearer(token: str | None) -> list[tuple[str, str]]:
    return [] if token is None else [("authorization", f"Bearer {token}")]


# --- The attacks --------------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def head(path: str, extra: tuple[tuple[str, str], ...] = ()) -> bytes:
    """HPACK, nothing indexed: POST, http, the path, what gRPC wants."""
    block = b"\x83\x86\x04" + bytes([len(path)]) + path.encode() + b"\x01\x01a\x0f\x10\x10application/grpc"
    for name, value in (("te", "trailers"), *extra):
        block += b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


class Attack:
    """A server to attack, with a token or without, and connections that are kept open: the oldest makes room beyond 500."""

    def __init__(self, server: Server, modules: dict[str, Any], token: str | None = None):
        self.server, self.m, self.bearer = server, modules, tuple(bearer(token))
        self.kept: list[socket.socket] = []
        self.channel = grpc.insecure_channel(server.address, options=OPTIONS)

    def send(self, *pieces: bytes, keep: bool = False, port: int | None = None) -> None:
        """On a connection of its own. That the server closes it is what it should do."""
        try:
            s = self.server.connect(port)
            for piece in pieces:
                s.sendall(piece)
        except OSError:
            return
        if keep:
            self.kept.append(s)
            if len(self.kept) > 500:
                self.kept.pop(0).close()
        else:
            s.close()

    def call(self, method: str, body: bytes, **options: Any) -> None:
        try:
            options["metadata"] = [*options.get("metadata", []), *self.bearer]
            self.channel.unary_unary(method)(body, timeout=20, **options)
        except grpc.RpcError:
            pass

    def head(self, path: str, extra: tuple[tuple[str, str], ...] = ()) -> bytes:
        return head(path, (*self.bearer, *extra))

    def close(self) -> None:
        for s in self.kept:
            s.close()
        self.channel.close()

    # Each has its description, and what part of the count it does.

    def giant_metadata(self, n: int) -> None:
        """calls with 60,000 bytes of metadata"""
        for _ in range(n):
            self.call(STUDIES + "ListStudies", b"", metadata=[("x-a", "b" * 60_000)])

    def half_requests(self, n: int) -> None:
        """HEADERS of a call and half of its body, then silence; 500 at a time"""
        for _ in range(n):
            self.send(PREFACE + SETTINGS + frame(HEADERS, END_HEADERS, 1, self.head(STUDIES + "GetStudy")),
                      frame(DATA, 0, 1, b"\0\0\0\0\x64half"), keep=True)

    def half_preface(self, n: int) -> None:
        """half of HTTP/2's preface, then silence; 500 at a time"""
        for _ in range(n):
            self.send(PREFACE[:12], keep=True)

    def slow_preface(self, n: int) -> None:
        """the preface byte by byte, and no more; 500 at a time"""
        for _ in range(n):
            self.send(*(PREFACE[i:i + 1] for i in range(len(PREFACE))), keep=True)

    def garbage(self, n: int) -> None:
        """2,000 random bytes, with a preface before every other one"""
        for i in range(n):
            self.send((PREFACE + SETTINGS if i % 2 else b"") + os.urandom(2000))

    def tls_hello(self, n: int) -> None:
        """a ClientHello of TLS"""
        hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + os.urandom(506)
        for _ in range(n):
            self.send(hello, keep=True)

    def compressed_bombs(self, n: int) -> None:
        """requests of 64 KiB that inflate to 64 MiB"""
        body = gzip.compress(bytes(64 * MIB))
        message = b"\1" + struct.pack(">I", len(body)) + body
        block = self.head(STUDIES + "CreateStudy", (("grpc-encoding", "gzip"),))
        pieces = [frame(DATA, 0, 1, message[i:i + 16000]) for i in range(0, min(len(message), 65_000), 16000)]
        for _ in range(n):
            self.send(PREFACE + SETTINGS + frame(HEADERS, END_HEADERS, 1, block), *pieces, keep=True)
        for _ in range(max(1, n // 100)):
            self.call(STUDIES + "CreateStudy", bytes(64 * MIB), compression=grpc.Compression.Gzip)

    def huge_messages(self, n: int) -> None:
        """messages of 64 MiB: declared, and sent whether or not there is room for them"""
        begin = frame(HEADERS, END_HEADERS, 1, self.head(STUDIES + "CreateStudy"))
        begin += frame(DATA, 0, 1, b"\0" + struct.pack(">I", 64 * MIB))
        chunk = frame(DATA, 0, 1, bytes(16_000)) * 64
        for _ in range(n):
            self.send(PREFACE + SETTINGS + begin, *[chunk] * 64)
        for _ in range(max(1, n // 100)):
            self.call(STUDIES + "CreateStudy", bytes(64 * MIB))

    def rapid_resets(self, n: int) -> None:
        """streams that are reset at once, ten times as many, on as few connections as the server allows"""
        left = 10 * n
        block = self.head(STUDIES + "GetStudy")
        ask = frame(DATA, END_STREAM, 0, b"\0\0\0\0\0")
        while left > 0 and self.server.alive():
            try:
                s = self.server.connect()
                s.sendall(PREFACE + SETTINGS)
                threading.Thread(target=drain, args=(s,), daemon=True).start()
                stream = 1
                while left > 0:
                    burst = b""
                    for _ in range(500):
                        body = ask[:5] + struct.pack(">I", stream) + ask[9:]
                        burst += frame(HEADERS, END_HEADERS, stream, block) + body
                        burst += frame(RESET, 0, stream, b"\0\0\0\x08")
                        stream += 2
                    left -= 500
                    s.sendall(burst)
                s.shutdown(socket.SHUT_RDWR)
                s.close()
            except OSError:
                continue

    def empty_streams(self, n: int) -> None:
        """streams without data, 1,000 on each connection, all left open"""
        block = self.head(WORKERS + "Suggest")
        for first in range(0, n, 1000):
            streams = [frame(HEADERS, END_HEADERS, 2 * i + 1, block) for i in range(min(1000, n - first))]
            self.send(PREFACE + SETTINGS, *streams, keep=True)

    def metrics_halves(self, n: int) -> None:
        """half requests for metrics, then silence; 500 at a time"""
        for _ in range(n):
            self.send(b"GET /metrics HTTP/1.1\r\nHost:", keep=True, port=self.server.metrics_port)

    def metrics_giants(self, n: int) -> None:
        """requests for metrics with 60,000 bytes of headers, or of a URL"""
        for i in range(n):
            long = b"a" * 60_000
            line = b"GET /" + long + b" HTTP/1.1\r\n" if i % 2 else b"GET /metrics HTTP/1.1\r\nX: " + long + b"\r\n"
            self.send(line + b"\r\n", port=self.server.metrics_port)

    def spec_bombs(self, n: int) -> None:
        """requests of 2 MiB, a tenth as many: specs nested deeply, with 60,000 parameters or 10,000 labels; trials of nested lists"""
        requests = self.m["study_service_pb2"]
        many = requests.CreateStudyRequest(study_id="bomb")
        for i in range(60_000):
            p = many.spec.space.add(name=f"parameter{i}")
            getattr(p, "float").max = 1
        labels = requests.CreateStudyRequest(study_id="bomb")
        labels.spec.space.add(name="c").categorical.values.extend("x" * 200 + str(i) for i in range(10_000))
        create = STUDIES + "CreateStudy"
        calls = [(create, b"\x0b" * (2 * MIB)), (create, many.SerializeToString()), (create, labels.SerializeToString()),
                 *((STUDIES + "EnqueueTrials", nested_lists(requests, depth)) for depth in (40, 5000))]
        for i in range(max(5, n // 10)):
            self.call(*calls[i % len(calls)])

    def asks_beyond_limits(self, n: int) -> None:
        """calls that want more than they may: trials, points, tokens, names, pages"""
        studies, workers = self.m["study_service_pb2"], self.m["worker_service_pb2"]
        trials = studies.EnqueueTrialsRequest(parent=STUDY)
        for _ in range(5000):
            trials.trials.add().parameters["x0"] = 0.5
        report = workers.ReportRequest(trial=STUDY + "/trials/1", token=b"0" * 16)
        for step in range(20_000):
            report.measurements.add(step=step).metrics["loss"] = 1
        calls = [
            (WORKERS + "Suggest", workers.SuggestRequest(study=STUDY, worker="w", request_id="r", count=1_000_000)),
            (WORKERS + "Suggest", workers.SuggestRequest(study=STUDY, worker="w" * MIB, request_id="\n" * MIB)),
            (WORKERS + "Heartbeat", workers.HeartbeatRequest(worker="w", tokens=[b"0" * 16] * 50_000)),
            (WORKERS + "Report", report),
            (STUDIES + "EnqueueTrials", trials),
            (STUDIES + "ListTrials", studies.ListTrialsRequest(parent=STUDY, page_size=2**31 - 1)),
            (STUDIES + "ListTrials", studies.ListTrialsRequest(parent=STUDY, page_token="x" * MIB)),
        ]
        bodies = [(method, request.SerializeToString()) for method, request in calls]
        for i in range(n):
            self.call(*bodies[i % len(bodies)])


KINDS = ("giant_metadata half_requests half_preface slow_preface garbage tls_hello compressed_bombs huge_messages rapid_resets "
         "empty_streams metrics_halves metrics_giants spec_bombs asks_beyond_limits").split()


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def nested_lists(requests: Any, depth: int) -> bytes:
    """Trials of 2 MiB whose parameter is lists in lists. By hand: the library refuses to write them."""
    value = b""
    for _ in range(depth):
        value = field(6, field(1, value))  # Value.list_value, ListValue.values
    number = requests.EnqueueTrialsRequest.DESCRIPTOR.fields_by_name["trials"].number
    trial = field(number, field(1, field(1, field(1, b"x0") + field(2, value))))
    return requests.EnqueueTrialsRequest(parent=STUDY).SerializeToString() + trial * (2 * MIB // len(trial))


def varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def drain(s: socket.socket) -> None:
    try:
        while s.recv(1 << 16):
            pass
    except OSError:
        pass


# --- The table ----------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/release/bin")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--list", action="store_true", help="describe the kinds")
    parser.add_argument("--work", nargs=3, metavar=("ADDRESS", "FOLDER", "TOKEN"), help=argparse.SUPPRESS)
    parser.add_argument("--with-token", action="store_true", help="the attacks come with a valid token")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    args = parser.parse_args()
    if args.work:
        work(*args.work)
        return 0
    if args.list:
        for kind in KINDS:
            print(f"{kind:20}{getattr(Attack, kind).__doc__}")
        return 0
    unknown = set(args.kinds) - set(KINDS)
    if unknown:
        parser.error(f"no kinds: {', '.join(sorted(unknown))}; --list shows those that there are")
    with tempfile.TemporaryDirectory(prefix="luthier-hostile-") as folder:
        return attack(args, folder)


def attack(args: argparse.Namespace, folder: str) -> int:
    m = stubs(folder)
    server = Server(args.programs, folder)
    try:
        return attack_server(args, folder, m, server)
    finally:
        server.process.kill()


def attack_server(args: argparse.Namespace, folder: str, m: dict[str, Any], server: Server) -> int:
    spec = m["study_pb2"].StudySpec()
    x = getattr(spec.space.add(name="x0"), "float")
    x.min, x.max = 0, 1
    spec.metric.name, spec.metric.goal = "loss", m["study_pb2"].MINIMIZE
    spec.algorithm.random.SetInParent()
    spec.budget.max_trials = 1_000_000
    studies = m["study_service_pb2_grpc"].StudyServiceStub(grpc.insecure_channel(server.address, options=OPTIONS))
    studies.CreateStudy(m["study_service_pb2"].CreateStudyRequest(study_id="good", spec=spec), timeout=10,
                        metadata=bearer(server.token))
    workers_folder = Path(folder) / "workers"
    workers_folder.mkdir()
    others = subprocess.Popen([sys.executable, __file__, "--work", server.address, str(workers_folder), server.token],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert others.stdin is not None and others.stdout is not None
    calls: list[tuple[float, float, str]] = []

    def read() -> None:
        for line in others.stdout:
            begin, took, error = line.rstrip("\n").split(" ", 2)
            calls.append((float(begin), float(took), error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while len(calls) < 50 and others.poll() is None:
        time.sleep(0.01)
    bad = False
    print(f"{'kind':20}{'count':>8}{'seconds':>9}{'MiB':>7}{'p50 ms':>8}{'p99 ms':>8}{'calls':>7}{'failed':>8}", flush=True)
    for kind in ["nobody", *(args.kinds or KINDS)]:
        server.most_mib = 0
        begin = time.time()
        if kind == "nobody":
            time.sleep(2)
        else:
            attacker = Attack(server, m, server.token if args.with_token else None)
            getattr(attacker, kind)(args.count)
            time.sleep(0.5)
            attacker.close()
        seconds = time.time() - begin
        time.sleep(0.5)  # For calls that began meanwhile.
        mine = [call for call in calls if begin <= call[0] <= begin + seconds]
        took = sorted(call[1] for call in mine)
        failed = [call[2] for call in mine if call[2]]
        p99 = took[int(len(took) * 0.99)] if took else float("inf")
        wrong = not server.alive() or server.most_mib > LIMIT_MIB or p99 > P99_MS or bool(failed)
        bad = bad or wrong
        count = 0 if kind == "nobody" else args.count
        print(f"{kind:20}{count:8}{seconds:9.1f}{server.most_mib:7.0f}{statistics.median(took or [0]):8.1f}{p99:8.1f}"
              f"{len(mine):7}{len(failed):8}{'  <-- ' if wrong else ''}{failed[-1] if failed else ''}", flush=True)
        if not server.alive():
            print(f"luthierd has ended with {server.process.returncode}")
            break
    others.stdin.close()
    others.wait()
    reader.join()
    if server.alive():
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=10) as page:
            shed = [line for line in page.read().decode().splitlines() if line.startswith("luthier_shed_total")]
        print("\n".join(shed))
        server.process.terminate()
        print(f"ended with {server.process.wait(30)}; {len(server.log.read_text().splitlines())} lines of log")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
