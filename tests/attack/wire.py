"""HTTP/2 as a hostile client writes it: sequences of steps, each on a connection of its own.

A sequence is a list of steps, each a list whose first element says what it is; SEQUENCE_STEPS describes them. They are
what JSON can hold, so that a sequence that was found can be kept in a file and played again.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
NAMES = "data headers priority reset settings push ping goaway window continuation".split()
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 32

SEQUENCE_STEPS = """
  ["preface"]                                 the preface of HTTP/2 and empty SETTINGS
  ["bytes", HEX]                              these bytes
  ["fill", COUNT, BYTE]                       one byte over and over
  ["frame", TYPE, FLAGS, STREAM, HEX, LENGTH] a frame; LENGTH is what its head says, null for the truth
  ["settings", {ID: VALUE, ...}]              SETTINGS
  ["headers", STREAM, PATH, [[NAME, VALUE], ...], FLAGS]   HEADERS of a call
  ["call", STREAM, METHOD]                    HEADERS and one whole message, as a good client sends it
  ["message", STREAM, HEX, FLAGS]             DATA with a message of gRPC
  ["trailers", STREAM, [[NAME, VALUE], ...]]  HEADERS with END_STREAM
  ["bomb", STREAM, TIMES, BYTES]              HEADERS whose few bytes stand for TIMES headers of BYTES
  ["reset", STREAM, CODE]
  ["window", STREAM, INCREMENT]
  ["ping", HEX, FLAGS]
  ["goaway", LAST, CODE, HEX]
  ["half"]                                    nothing more will be sent; the connection is read on
  ["abort"]                                   the connection is reset
  ["wait", MILLISECONDS]                      reads until something arrives
  ["repeat", COUNT, STRIDE, [STEP, ...]]      steps again and again, each time on streams STRIDE higher
"""
MOST_BYTES = 4 << 20  # A sequence sends no more.
MOST_REPEATS = 20_000


def varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def text(number: int, content: str | bytes) -> bytes:
    """A field of a message of protobuf."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def message(body: bytes) -> bytes:
    """A message as gRPC frames it."""
    return b"\0" + struct.pack(">I", len(body)) + body


def frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">I", size & 0xFFFFFF)[1:] + bytes([kind & 255, flags & 255]) + struct.pack(">I", stream & 0xFFFFFFFF) + payload


def methods(source: Path) -> list[str]:
    """The paths of all calls that the API has."""
    found = []
    for file in sorted((source / "proto/luthier/v1").glob("*_service.proto")):
        proto = file.read_text()
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", proto, re.M | re.S):
            found += [f"/luthier.v1.{service}/{name}" for name in re.findall(r"^  rpc (\w+)\(", body, re.M)]
    return found


def body_of(method: str, study: str) -> bytes:
    """A request that the method takes, as far as that goes without what only a good client knows, and without an end of the study,
    which others need."""
    name = method.rsplit("/", 1)[-1]
    if name in ("DeleteStudy", "StopStudy", "CancelStudy", "ResumeStudy"):
        return text(1, study + "-of-nobody")
    trial = f"{study}/trials/1"
    if name == "Suggest":
        return text(1, study) + text(2, "fuzz") + text(4, "a-request-of-the-fuzzer")
    if name in ("Report", "Complete", "Fail", "Release", "DeclareParameters"):
        return text(1, trial) + text(2, bytes(16))
    if name == "Heartbeat":
        return text(1, "fuzz") + text(2, bytes(16))
    if name in ("GetTrial", "CancelTrial", "StopTrial", "DeleteTrial", "SetAttributes", "ExplainTrial"):
        return text(1, trial)
    if name in ("GetServerInfo", "ListStudies", "ListProjects", "ListTokens", "ListAudit", "CreateToken", "Check"):
        return b""
    return text(1, study)


@dataclass
class Reaction:
    """What a server did about a sequence."""

    frames: list[str] = field(default_factory=list)  # Kinds of frames, with codes of errors.
    end: str = "open"  # open, closed, reset: how the connection stands in the end.
    answers: dict[int, str] = field(default_factory=dict)  # grpc-status or ":status" by stream.

    def signature(self) -> str:
        """Tells reactions apart: which things happened, not how often."""
        return " ".join(sorted(set(self.frames))) + " | " + " ".join(sorted(set(self.answers.values()))) + " | " + self.end


class Connection:
    """Plays one sequence."""

    def __init__(self, sock: socket.socket, study: str, token: str | None):
        self.socket, self.study, self.token = sock, study, token
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.sent, self.received = 0, b""
        self.reaction = Reaction()
        self.block = b""  # Of headers, until it is whole.

    # --- Sending ---

    def write(self, data: bytes) -> bool:
        """Whether the connection still takes bytes."""
        if self.reaction.end != "open" or self.sent + len(data) > MOST_BYTES:
            return False
        view, deadline = memoryview(data), time.monotonic() + 2
        self.sent += len(data)
        while view:
            try:
                view = view[self.socket.send(view):]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if time.monotonic() > deadline:
                    return False  # The server does not read on, which is its right.
                self.read(0.01)
                if self.reaction.end != "open":
                    return False
            except (OSError, ssl.SSLError):
                self.reaction.end = "reset"
                return False
        return True

    def header_block(self, path: str, extra: list[list[str]]) -> bytes:
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a"), ("te", "trailers"),
                   ("content-type", "application/grpc")]
        if self.token is not None and not any(name == "authorization" for name, _ in extra):
            headers.append(("authorization", f"Bearer {self.token}"))
        return self.encoder.encode(headers + [(name, value) for name, value in extra], huffman=False)

    def bytes_of(self, step: list[Any], shift: int) -> bytes:
        """Of a step that sends, on streams `shift` higher than it says."""
        kind, *rest = step
        if kind == "preface":
            return PREFACE + frame(SETTINGS, 0, 0, b"")
        if kind == "bytes":
            return bytes.fromhex(rest[0])
        if kind == "fill":
            return bytes([rest[1] & 255]) * min(rest[0], MOST_BYTES)
        if kind == "frame":
            stream = rest[2] + shift if rest[2] else 0
            return frame(rest[0], rest[1], stream, bytes.fromhex(rest[3]), rest[4])
        if kind == "settings":
            pairs = [struct.pack(">HI", int(key) & 0xFFFF, value & 0xFFFFFFFF) for key, value in rest[0].items()]
            return frame(SETTINGS, 0, 0, b"".join(pairs))
        if kind == "headers":
            return frame(HEADERS, rest[3], rest[0] + shift, self.header_block(rest[1], rest[2]))
        if kind == "call":
            stream, method = rest[0] + shift, rest[1]
            head = frame(HEADERS, END_HEADERS, stream, self.header_block(method, []))
            return head + frame(DATA, END_STREAM, stream, message(body_of(method, self.study)))
        if kind == "message":
            return frame(DATA, rest[2], rest[0] + shift, message(bytes.fromhex(rest[1])))
        if kind == "trailers":
            block = self.encoder.encode([(name, value) for name, value in rest[1]], huffman=False)
            return frame(HEADERS, END_HEADERS | END_STREAM, rest[0] + shift, block)
        if kind == "bomb":
            # One header that goes into the table, and then a byte for each time that it comes again.
            size = min(rest[2], 4000)
            block = self.header_block("/luthier.v1.StudyService/GetStudy", [])
            block += b"\x40\x01x" + encode_length(size) + b"y" * size + b"\xbe" * min(rest[1], 16_000)
            return frame(HEADERS, END_HEADERS | END_STREAM, rest[0] + shift, block)
        if kind == "reset":
            return frame(RESET, 0, rest[0] + shift, struct.pack(">I", rest[1] & 0xFFFFFFFF))
        if kind == "window":
            stream = rest[0] + shift if rest[0] else 0
            return frame(WINDOW, 0, stream, struct.pack(">I", rest[1] & 0xFFFFFFFF))
        if kind == "ping":
            return frame(PING, rest[1], 0, bytes.fromhex(rest[0]))
        if kind == "goaway":
            return frame(GOAWAY, 0, 0, struct.pack(">II", rest[0] & 0xFFFFFFFF, rest[1] & 0xFFFFFFFF) + bytes.fromhex(rest[2]))
        raise ValueError(f"no such step: {step}")

    def play(self, steps: list[list[Any]], shift: int = 0) -> None:
        for step in steps:
            if self.reaction.end != "open":
                return
            if step[0] == "repeat":
                buffered = b""
                for turn in range(min(step[1], MOST_REPEATS)):
                    turn_shift = shift + turn * step[2]
                    if any(inner[0] in ("wait", "half", "abort", "repeat") for inner in step[3]):
                        self.play(step[3], turn_shift)
                    else:
                        buffered += b"".join(self.bytes_of(inner, turn_shift) for inner in step[3])
                    if len(buffered) > 1 << 16:
                        if not self.write(buffered):
                            return
                        buffered = b""
                        self.read(0)
                if buffered:
                    self.write(buffered)
            elif step[0] == "wait":
                self.read(min(step[1], 500) / 1000)
            elif step[0] == "half":
                half_close(self.socket)
            elif step[0] == "abort":
                self.abort()
            else:
                self.write(self.bytes_of(step, shift))

    # --- Reading ---

    def read(self, seconds: float) -> bool:
        """Reads what is there, waiting for it at most so long. Whether anything came."""
        if self.reaction.end != "open":
            return False
        deadline = time.monotonic() + seconds
        came = False
        while True:
            try:
                got = self.socket.recv(1 << 16)
                if not got:
                    self.reaction.end = "closed"
                    break
                came = True
                self.received += got
                self.take_frames()
                deadline = time.monotonic()  # The rest that is there, and no more waiting.
                continue
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, 0.001))
            except (OSError, ssl.SSLError):
                self.reaction.end = "reset"
                break
        return came

    def take_frames(self) -> None:
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                return
            kind, flags = self.received[3], self.received[4]
            stream = int.from_bytes(self.received[5:9], "big") & 0x7FFFFFFF
            payload, self.received = self.received[9:9 + size], self.received[9 + size:]
            self.take(kind, flags, stream, payload)

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        name = NAMES[kind] if kind < len(NAMES) else f"kind{kind}"
        if kind == RESET and len(payload) == 4:
            name += f":{int.from_bytes(payload, 'big')}"
        elif kind == GOAWAY and len(payload) >= 8:
            name += f":{int.from_bytes(payload[4:8], 'big')}"
        elif kind in (SETTINGS, PING) and flags & ACK:
            name += ":ack"
        self.reaction.frames.append(name)
        if kind not in (HEADERS, CONTINUATION):
            return
        self.block += payload
        if not flags & END_HEADERS:
            return
        block, self.block = self.block, b""
        try:
            for key, value in self.decoder.decode(block):
                if key == "grpc-status" or (key == ":status" and value != "200"):
                    self.reaction.answers[stream] = f"{key}={value}"
        except hpack.HPACKError:
            self.reaction.frames.append("unreadable headers")

    def settle(self, seconds: float) -> None:
        """Waits until the server has seen all: it answers a ping, or ends the connection. One that has been broken off in
        a frame does neither, and costs all of the time."""
        mark = self.reaction.frames.count("ping:ack")
        self.write(frame(PING, 0, 0, b"the end!"))
        deadline = time.monotonic() + seconds
        while self.reaction.end == "open" and self.reaction.frames.count("ping:ack") <= mark:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.read(left)

    def abort(self) -> None:
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.close()
        self.reaction.end = "reset"

    def close(self) -> None:
        try:
            self.socket.close()
        except OSError:
            pass


def half_close(sock: socket.socket) -> None:
    """TLS has no half of its own that Python offers: the end comes below it, as when a cable is cut."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_WR)
    except OSError:
        pass


def encode_length(size: int) -> bytes:
    """HPACK's length of a text, RFC 7541, 5.1."""
    if size < 127:
        return bytes([size])
    return b"\x7f" + varint(size - 127)


# --- Where to connect ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A listener: "plain" or "tls" with a port of 127.0.0.1, or "socket" with a path."""

    kind: str
    port: int = 0
    path: str = ""
    ca: str = ""

    def connect(self, timeout: float = 60.0) -> socket.socket:
        """A connection that does not block."""
        if self.kind == "socket":
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(self.path)
        else:
            sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.kind == "tls":
            context = ssl.create_default_context(cafile=self.ca)
            context.check_hostname = False
            context.set_alpn_protocols(["h2"])
            sock = context.wrap_socket(sock, server_hostname="localhost")
        sock.setblocking(False)
        return sock


class CallFailed(Exception):
    pass


def call(target: Target, method: str, body: bytes, token: str | None, seconds: float = 60.0) -> tuple[str, bytes]:
    """A call as a good client makes it. Returns grpc-status and the answer; raises CallFailed where there is none in time."""
    deadline = time.monotonic() + seconds
    try:
        sock = target.connect(seconds)
    except OSError as error:
        raise CallFailed(f"{target.kind}: {error}") from error
    sock.settimeout(0.5)
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    client.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "https" if target.kind == "tls" else "http"), (":path", method),
               (":authority", "localhost"), ("te", "trailers"), ("content-type", "application/grpc")]
    if token is not None:
        headers.append(("authorization", f"Bearer {token}"))
    stream = client.get_next_available_stream_id()
    client.send_headers(stream, headers)
    client.send_data(stream, message(body), end_stream=True)
    answer, status = b"", None
    try:
        sock.sendall(client.data_to_send())
        while time.monotonic() < deadline:
            try:
                got = sock.recv(1 << 16)
            except TimeoutError:
                continue
            if not got:
                break
            for event in client.receive_data(got):
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    status = dict(event.headers).get("grpc-status", status)
                elif isinstance(event, h2.events.DataReceived):
                    answer += event.data
                    client.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.StreamEnded):
                    return status or "none", answer[5:]
                elif isinstance(event, h2.events.StreamReset):
                    raise CallFailed(f"{target.kind}: the call was reset with {event.error_code}")
            sock.sendall(client.data_to_send())
    except (OSError, h2.exceptions.ProtocolError) as error:
        raise CallFailed(f"{target.kind}: {error}") from error
    finally:
        sock.close()
    raise CallFailed(f"{target.kind}: no answer to {method} within {seconds} s")


def read_corpus(folder: Path) -> Iterator[tuple[str, list[list[Any]]]]:
    import json

    for file in sorted(folder.glob("*.json")):
        yield file.stem, json.loads(file.read_text())["steps"]
