"""Drives the built programs from outside: coordinators that can be killed, callers with and without tokens, raw HTTP/2.

Programs are those of LUTHIER_BIN_DIR. Everything here listens on loopback, on ports that the system chooses, and keeps
its files in the folder that it is given.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("LUTHIER_BIN_DIR", ROOT / "build/release/bin"))
PATIENCE = 60.0  # Seconds to wait for other processes; long enough for a sanitizer's build on a busy machine.


def generate_messages(folder: Path) -> None:
    """Compiles the protocol into `folder` and makes luthier.v1.*_pb2 importable; for the Python package, too."""
    made = ROOT / "client/python/luthier/luthier.pb"
    if not made.is_file() or made.stat().st_mtime < max(p.stat().st_mtime for p in (ROOT / "proto").rglob("*.proto")):
        subprocess.run([str(ROOT / "client/python/make_descriptors.sh")], check=True)
    protos = sorted((ROOT / "proto/luthier/v1").glob("*.proto"))
    subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}", *map(str, protos)], check=True)
    sys.path.insert(0, str(folder))


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Returns the first true value of `condition()`; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def run(*argv: Any, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs one of our programs to its end: run("luthier", "study", "list")."""
    command = [str(BIN / str(argv[0])), *map(str, argv[1:])]
    options.setdefault("timeout", PATIENCE)
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    assert not check or result.returncode == 0, f"{command} ended with {result.returncode}:\n{result.stderr}"
    return result


class Coordinator:
    """`luthierd` on a port (or socket) and a data directory of its own. start() again after kill() goes on with its data.

    `tls`: a folder made by make_certificates(); `mtls`: clients need a certificate, too.
    """

    def __init__(self, folder: Path, *flags: Any, listen: str = "127.0.0.1:0", tls: Path | None = None,
                 mtls: bool = False, environment: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> None:
        self.data = folder / "data"
        self.log_file = folder / "luthierd.log"
        self.flags = list(map(str, flags))
        self.listen, self.tls, self.mtls = listen, tls, mtls
        self.environment, self.prefix = environment or {}, prefix
        if tls is not None:
            self.flags += ["--tls-cert", str(tls / "server.pem"), "--tls-key", str(tls / "server.key")]
        if mtls:
            self.flags += ["--tls-client-ca", str(tls / "ca.pem")]
        self.process: subprocess.Popen[str] | None = None
        self.address = ""
        self.start()

    def start(self) -> None:
        """Returns once the coordinator serves; fails with its log where it does not."""
        command = [*self.prefix, str(BIN / "luthierd"), "--listen", self.listen, "--data-dir", str(self.data), *self.flags]
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            text=True, env={**os.environ, **self.environment})
        said = self.process.stdout.readline()
        match = re.match(r"luthierd: serving on (\S+)", said)
        assert match, f"luthierd does not serve, exit {self.process.wait()}:\n{self.log()[-4000:]}"
        self.address = match[1]

    def log(self) -> str:
        """All that it has logged, over all starts."""
        return self.log_file.read_text(errors="replace")

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def assert_alive(self) -> None:
        """Fails with the log where the process has ended."""
        assert self.alive(), f"luthierd ended with {self.process.returncode}:\n{self.log()[-4000:]}"

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = PATIENCE) -> int:
        """Ends it by SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def resident_bytes(self) -> int:
        """Memory that it holds now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def descriptors(self) -> int:
        """How many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Of a listener on a port."""
        host, port = self.address.rsplit(":", 1)
        return host, int(port)

    @property
    def own_socket(self) -> str:
        """The socket in the data directory, which asks this user for no token."""
        return f"unix:{self.data}/socket"

    @property
    def admin_token(self) -> str:
        """The first token, which the coordinator made itself."""
        return (self.data / "admin.token").read_text().strip()

    def make_token(self, name: str, *roles: str, flags: tuple[str, ...] = ()) -> str:
        """A token's text, made through the data directory's socket."""
        asked = [word for role in roles for word in ("--role", role)]
        return run("luthier", "admin", "token", "create", "--name", name, *asked, *flags, "--server",
                   self.own_socket).stdout.strip()

    def caller(self, token: str | None = None, address: str | None = None, identity: str = "alice") -> Caller:
        """Somebody who calls it; of a coordinator with mTLS with the certificate of `identity`."""
        return Caller(address or self.address, token, self.tls, identity if self.mtls else None)

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process is not None and self.alive():
            self.kill()
        if self.process is not None:
            self.process.stdout.close()


def make_certificates(folder: Path) -> Path:
    """A private authority with a server's certificate for 127.0.0.1 and one of a client named alice."""
    run("luthier", "admin", "pki", "init", "--out", folder)
    run("luthier", "admin", "pki", "issue", "--out", folder, "--server", "localhost", "--server", "127.0.0.1")
    run("luthier", "admin", "pki", "issue", "--out", folder, "--client", "alice")
    return folder


def messages_of(service: str) -> Any:
    """The module with a service's messages: "StudyService" is in luthier.v1.study_service_pb2."""
    import importlib

    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", service).lower()
    return importlib.import_module(f"luthier.v1.{snake}_pb2")


class Caller:
    """A channel without retries, so that every error is seen. Calls are named as in the protocol:

        caller.call("StudyService/GetStudy", name="projects/default/studies/s")
    """

    def __init__(self, address: str, token: str | None = None, tls: Path | None = None,
                 identity: str | None = None) -> None:
        options = [("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 64 << 20),
                   ("grpc.max_send_message_length", 64 << 20), ("grpc.use_local_subchannel_pool", 1),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        if tls is None or address.startswith("unix:"):
            self.channel = grpc.insecure_channel(address, options=options)
        else:
            own = {} if identity is None else {"private_key": (tls / f"{identity}.key").read_bytes(),
                                               "certificate_chain": (tls / f"{identity}.pem").read_bytes()}
            credentials = grpc.ssl_channel_credentials((tls / "ca.pem").read_bytes(), **own)
            self.channel = grpc.secure_channel(address, credentials, options=options)
        self.metadata = [] if token is None else [("authorization", f"Bearer {token}")]

    def close(self) -> None:
        """Ends the connection."""
        self.channel.close()

    def raw(self, path: str, body: bytes = b"", timeout: float = 10.0, **options: Any) -> bytes:
        """Calls any path with any bytes. Raises grpc.RpcError."""
        options.setdefault("metadata", self.metadata)
        return self.channel.unary_unary(path)(body, timeout=timeout, **options)

    def call(self, method: str, request: Any = None, timeout: float = 10.0, **fields: Any) -> Any:
        """Makes a call with one answer. Raises grpc.RpcError."""
        return self._stub(method, "unary_unary")(self._request(method, request, fields), timeout=timeout,
                                                 metadata=self.metadata)

    def future(self, method: str, request: Any = None, timeout: float = 60.0, **fields: Any) -> Any:
        """Begins a call with one answer: a grpc.Future."""
        return self._stub(method, "unary_unary").future(self._request(method, request, fields), timeout=timeout,
                                                        metadata=self.metadata)

    def stream(self, method: str, request: Any = None, timeout: float | None = None, **fields: Any) -> Any:
        """Begins a call with many answers: iterate over it."""
        return self._stub(method, "unary_stream")(self._request(method, request, fields), timeout=timeout,
                                                  metadata=self.metadata)

    def error(self, method: str, request: Any = None, timeout: float = 10.0, **fields: Any) -> grpc.RpcError:
        """The error that a call has to end with."""
        try:
            answer = self.call(method, request, timeout, **fields)
        except grpc.RpcError as error:
            return error
        raise AssertionError(f"{method} succeeded: {answer}")

    # What nearly every attack needs.
    def create_study(self, study: str, **changes: Any) -> Any:
        """A study of two floats in [0, 1] and a metric `loss`, told by whoever asks. `changes` are fields of its spec."""
        return self.call("StudyService/CreateStudy", study_id=study, spec=spec(**changes))

    def suggest(self, study: str, count: int = 1, request_id: str | None = None, worker: str = "w",
                timeout: float = 10.0) -> list[Any]:
        """Leases. The same request_id asks again for the same ones."""
        return list(self.call("WorkerService/Suggest", study=name_of(study), worker=worker, count=count,
                              request_id=request_id or str(uuid.uuid4()), timeout=timeout).leases)

    def complete(self, lease: Any, loss: float) -> Any:
        """Tells the result of a lease."""
        return self.call("WorkerService/Complete", trial=lease.trial.name, token=lease.token,
                         measurement={"metrics": {"loss": loss}})

    def trials(self, study: str) -> list[Any]:
        """All trials, page by page."""
        rows: list[Any] = []
        token = ""
        while True:
            page = self.call("StudyService/ListTrials", parent=name_of(study), page_size=1000, page_token=token)
            rows += page.trials
            token = page.next_page_token
            if not token:
                return rows

    def _stub(self, method: str, kind: str) -> Any:
        service, name = method.split("/")
        descriptor = messages_of(service).DESCRIPTOR.services_by_name[service].methods_by_name[name]
        answer = getattr(_module_of(descriptor.output_type), descriptor.output_type.name)
        return getattr(self.channel, kind)(f"/luthier.v1.{method}", request_serializer=lambda m: m.SerializeToString(),
                                           response_deserializer=answer.FromString)

    @staticmethod
    def _request(method: str, request: Any, fields: dict[str, Any]) -> Any:
        if request is not None:
            return request
        service, name = method.split("/")
        descriptor = messages_of(service).DESCRIPTOR.services_by_name[service].methods_by_name[name].input_type
        from google.protobuf import json_format

        message = getattr(_module_of(descriptor), descriptor.name)()
        for field, value in fields.items():
            if isinstance(value, dict):
                json_format.ParseDict(value, getattr(message, field))
            elif isinstance(value, list):
                getattr(message, field).extend(value)
            elif hasattr(value, "DESCRIPTOR"):
                getattr(message, field).CopyFrom(value)
            else:
                setattr(message, field, value)
        return message


def _module_of(descriptor: Any) -> Any:
    import importlib

    return importlib.import_module(descriptor.file.name[: -len(".proto")].replace("/", ".") + "_pb2")


def name_of(study: str, project: str = "default") -> str:
    """A study's whole name."""
    return f"projects/{project}/studies/{study}"


def spec(parameters: int = 2, max_trials: int = 100, algorithm: str = "random") -> Any:
    """A study of floats x0, x1, … in [0, 1] that minimizes `loss`."""
    from luthier.v1 import study_pb2

    made = study_pb2.StudySpec()
    for i in range(parameters):
        parameter = made.space.add(name=f"x{i}")
        getattr(parameter, "float").min, getattr(parameter, "float").max = 0, 1
    made.metric.name, made.metric.goal = "loss", study_pb2.MINIMIZE
    getattr(made.algorithm, algorithm).SetInParent()
    made.budget.max_trials = max_trials
    return made


class Http2:
    """An HTTP/2 connection that checks nothing of what it sends: for requests that no gRPC library makes."""

    def __init__(self, coordinator: Coordinator, identity: str | None = None) -> None:
        if coordinator.address.startswith("unix:"):
            self.socket: Any = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(coordinator.address[len("unix:"):])
        else:
            self.socket = socket.create_connection(coordinator.host_and_port, timeout=PATIENCE)
        if coordinator.tls is not None and not coordinator.address.startswith("unix:"):
            context = ssl.create_default_context(cafile=str(coordinator.tls / "ca.pem"))
            context.set_alpn_protocols(["h2"])
            if coordinator.mtls:
                who = identity or "alice"
                context.load_cert_chain(coordinator.tls / f"{who}.pem", coordinator.tls / f"{who}.key")
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False,
            validate_inbound_headers=False, normalize_inbound_headers=False))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """Sends what h2 has to send."""
        self.socket.sendall(self.h2.data_to_send())

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are, past h2."""
        self.socket.sendall(data)

    def request(self, path: str | bytes, headers: list[tuple[str, str]] | None = None, body: bytes | None = b"\0\0\0\0\0",
                **pseudo: str) -> int:
        """Sends one POST of gRPC; its stream. `body` None: the stream is left open."""
        stream = self.h2.get_next_available_stream_id()
        named = {":method": "POST", ":scheme": "http", ":authority": "localhost", **{f":{k}": v for k, v in pseudo.items()}}
        fields: list[tuple[Any, Any]] = [*named.items(), (":path", path)]
        fields += headers if headers is not None else [("content-type", "application/grpc"), ("te", "trailers")]
        self.h2.send_headers(stream, fields, end_stream=False)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def answer(self, stream: int, seconds: float = 10.0) -> dict[str, str]:
        """Headers and trailers of the answer to `stream`; ":reset" or ":closed" where it ended without one."""
        found: dict[str, str] = {}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in self.events(end - time.monotonic()):
                if isinstance(event, h2.events.ConnectionTerminated):
                    found[":closed"] = str(event.error_code)
                    return found
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    found.update((k.decode(errors="replace"), v.decode(errors="replace")) for k, v in event.headers)
                if isinstance(event, h2.events.StreamReset):
                    found[":reset"] = str(event.error_code)
                    return found
                if isinstance(event, h2.events.StreamEnded):
                    return found
        raise AssertionError(f"no answer within {seconds} s; so far: {found}")

    def events(self, seconds: float) -> list[Any]:
        """What arrives next; nothing if nothing arrives in time; a ConnectionTerminated where the peer has closed."""
        pending = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()
        if not pending and not select.select([self.socket], [], [], max(0.0, seconds))[0]:
            return []
        with contextlib.suppress(ConnectionError):
            data = self.socket.recv(65536)
            if data:
                try:
                    events = self.h2.receive_data(data)
                except h2.exceptions.StreamClosedError as late:  # The server went on after its own reset.
                    events = [h2.events.StreamReset()]
                    events[0].stream_id, events[0].error_code = late.stream_id, h2.errors.ErrorCodes.STREAM_CLOSED
                with contextlib.suppress(ConnectionError):
                    self.flush()
                return events
        ended = h2.events.ConnectionTerminated()
        ended.error_code = h2.errors.ErrorCodes.NO_ERROR
        return [ended]

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@contextlib.contextmanager
def descendants_killed(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Kills `process` at the end of the block, whatever happened in it."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
