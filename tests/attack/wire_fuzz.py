#!/usr/bin/env python3
"""Fuzzes the listeners of luthierd with HTTP/2 that is wrong in every way that we could think of, and in random ones.

  wire_fuzz.py [--programs build/release/bin] [--seed N] [--seconds S | --batches N] [--keep FOLDER] [SEQUENCE.json ...]

Starts two coordinators that ask for tokens: one in plain text, one with TLS. Each has a Unix socket besides, so that there
are three kinds of listeners. Plays the corpus (tests/attack/corpus/wire, or the named files), each sequence with and without
a token; then batches of sequences that are made from it and from nothing, by a seed that is printed. After each batch both
coordinators must live, answer good calls on every listener, and hold no more calls, descriptors and memory than before. A
batch that ends one is played again, a sequence at a time, until the one is found that does it, and it is written to a file.
With --keep, sequences with a reaction that none had before are written to FOLDER. wire.py describes sequences.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Sequence

import attack
import wire

CORPUS = Path(__file__).resolve().parent / "corpus/wire"
STUDY = "projects/default/studies/fuzz"
PAUSED = """
space: [{name: x, float: {min: 0, max: 1}}]
metric: {name: loss, goal: minimize}
algorithm: {random: {}}
budget: {max_trials: 1}
objective: {external: {}}
"""
BATCH = 25
# What connections and calls leave behind at most: descriptors that are about to close, and memory that the heap keeps. The heap grows
# by some 140 MiB, over 500 batches, until every thread has met the worst that there is, and then no more.
SPARE_DESCRIPTORS = 4
SANITIZED = "LUTHIER_ATTACK_SANITIZED" in os.environ  # Sanitizers take memory and time of their own.
SPARE_MIB, MOST_MIB = (160.0, 400.0) if not SANITIZED else (float("inf"), float("inf"))
MOST_SECONDS_TO_STOP = 4.5 if not SANITIZED else 20.0
# Calls of these are refused with a delay once too many tokens of an address were wrong, so some are still open for so long.
PATIENCE = attack.PATIENCE


class Found(Exception):
    """A coordinator did what it must not do."""


# --- The coordinators ---------------------------------------------------------------------------------------------


class Edge:
    """A coordinator that asks everybody for a token, on a port and on the socket of its folder."""

    def __init__(self, folder: Path, tls: Path | None):
        folder.mkdir(parents=True)
        self.coordinator = attack.Coordinator(folder, "--metrics-listen", "127.0.0.1:0", "--auth", "required", tls=tls)
        self.process, self.token = self.coordinator.process, self.coordinator.admin_token
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", self.coordinator.log())
        assert found is not None
        self.metrics_port = int(found[1])
        study, data = folder / "study.yaml", self.coordinator.data
        study.write_text(PAUSED)
        where = ["--server", self.coordinator.own_socket, "--token-file", data / "admin.token"]
        attack.run("luthier", "study", "create", "-f", study, "--name", "fuzz", *where)
        attack.run("luthier", "study", "pause", "fuzz", *where)
        self.targets = [wire.Target("plain" if tls is None else "tls", port=self.coordinator.host_and_port[1], ca=str(tls and tls / "ca.pem")),
                        wire.Target("socket", path=str(data / "socket"))]

    def check_alive(self) -> None:
        if not self.coordinator.alive():
            tail = "\n".join(self.coordinator.log().splitlines()[-30:])
            raise Found(f"luthierd ended with {self.process.returncode}:\n{tail}")

    def check_answers(self) -> None:
        """Good calls on both listeners, one that needs nothing and one that reads the database."""
        self.check_alive()
        for target in self.targets:
            for method, body in (("WorkerService/GetServerInfo", b""), ("StudyService/GetStudy", wire.text(1, STUDY))):
                try:
                    status, answer = wire.call(target, f"/luthier.v1.{method}", body, self.token, attack.PATIENCE)
                except wire.CallFailed as error:
                    self.check_alive()
                    raise Found(f"{method} on {target.kind}: {error}") from error
                if status != "0" or not answer:
                    raise Found(f"{method} on {target.kind} answered {status} with {len(answer)} bytes")

    def holds(self) -> tuple[int, float]:
        """Descriptors, and MiB of memory."""
        try:
            return self.coordinator.descriptors(), self.coordinator.resident_bytes() / (1 << 20)
        except OSError:
            self.check_alive()
            raise

    def waiting_asks(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            found = re.search(r"^luthier_waiting_asks (\d+)", page.read().decode(), re.M)
        return int(found[1]) if found else 0

    def stop(self) -> float:
        """Seconds from SIGTERM to the end. Open calls that nobody ends would hold it up."""
        self.check_alive()
        begin = time.monotonic()
        try:
            code = self.coordinator.stop(30)
        except subprocess.TimeoutExpired:
            raise Found("luthierd did not end within 30 s of SIGTERM") from None
        if code != 0:
            raise Found(f"luthierd ended with {code} after SIGTERM:\n{self.coordinator.log()[-4000:]}")
        return time.monotonic() - begin


# --- Sequences ----------------------------------------------------------------------------------------------------

Sequence_ = list[list[Any]]
EDGES = [0, 1, 2, 7, 8, 9, 255, 256, 16383, 16384, 16385, 65535, 65536, 2**24 - 1, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1]


class Maker:
    """Makes sequences by a stream of random numbers."""

    def __init__(self, seed: int, corpus: list[Sequence_]):
        self.random = random.Random(seed)
        self.corpus = list(corpus)
        self.paths = wire.methods(attack.ROOT) + ["/AWS.ALB/healthcheck", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                                             "/luthier.v1.StudyService/None", "/", ""]

    def number(self) -> int:
        return self.random.choice(EDGES) if self.random.random() < 0.5 else self.random.randrange(1 << self.random.randrange(1, 33))

    def hex(self, most: int = 64) -> str:
        return self.random.randbytes(self.random.randrange(most)).hex()

    def stream(self) -> int:
        return self.random.choice([0, 1, 1, 1, 3, 3, 5, 7, 9, 2, 2**31 - 1, 101])

    def headers(self) -> list[list[str]]:
        pairs = [["grpc-timeout", "1n"], ["grpc-timeout", "20S"], ["grpc-encoding", "gzip"], ["authorization", "Bearer lut_x"],
                 ["x-bin", "AAAA"], ["x", "y" * self.random.randrange(9000)], ["content-length", "3"], ["te", ""],
                 [":path", "/"], ["connection", "close"], ["grpc-accept-encoding", "identity,deflate,gzip"], ["host", ""]]
        return self.random.sample(pairs, self.random.choice([0, 0, 0, 1, 2]))

    def step(self) -> list[Any]:
        r = self.random
        kind = r.choice(["call", "call", "call", "headers", "headers", "message", "message", "reset", "reset", "window", "settings", "ping",
                         "frame", "frame", "trailers", "goaway", "bytes", "wait", "half", "abort", "repeat", "bomb", "fill"])
        if kind == "call":
            return [kind, self.stream() | 1, r.choice(self.paths)]
        if kind == "headers":
            return [kind, self.stream(), r.choice(self.paths), self.headers(), r.choice([4, 4, 4, 5, 5, 0, 1, 12, 36, 255])]
        if kind == "message":
            return [kind, self.stream(), self.hex(), r.choice([0, 1, 1, 8, 9])]
        if kind == "reset":
            return [kind, self.stream(), r.choice([0, 1, 2, 8, 13, self.number()])]
        if kind == "window":
            return [kind, self.stream(), self.number()]
        if kind == "settings":
            return [kind, {str(r.choice([1, 2, 3, 4, 5, 6, 0xfe03, r.randrange(65536)])): self.number() for _ in range(r.randrange(4))}]
        if kind == "ping":
            return [kind, self.hex(9) if r.random() < 0.3 else "0011223344556677", r.choice([0, 0, 1, 255])]
        if kind == "frame":
            length = None if r.random() < 0.7 else self.number() & 0xFFFFFF
            return [kind, r.choice([*range(10), r.randrange(256)]), r.randrange(256), self.stream(), self.hex(), length]
        if kind == "trailers":
            return [kind, self.stream(), self.headers()]
        if kind == "goaway":
            return [kind, self.stream(), r.randrange(14), self.hex()]
        if kind == "bytes":
            return [kind, self.hex(400)]
        if kind == "wait":
            return [kind, r.randrange(30)]
        if kind == "bomb":
            return [kind, self.stream() | 1, r.randrange(16_000), r.randrange(4000)]
        if kind == "fill":
            return [kind, r.randrange(70_000), r.randrange(256)]
        if kind == "repeat":
            inner = [step for step in (self.step() for _ in range(r.randrange(1, 4))) if step[0] not in ("repeat", "bomb", "fill")]
            return [kind, r.choice([2, 10, 100, 1000]), r.choice([0, 2, 2, 1]), inner]
        return [kind]

    def change(self, steps: Sequence_) -> None:
        """One change somewhere."""
        r = self.random
        how = r.randrange(6)
        at = r.randrange(len(steps)) if steps else 0
        if how == 0 or not steps:
            steps.insert(r.randrange(len(steps) + 1), self.step())
        elif how == 1:
            del steps[at]
        elif how == 2:
            steps.insert(r.randrange(len(steps) + 1), json.loads(json.dumps(steps[at])))
        elif how == 3:
            other = r.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        elif how == 4:
            steps[at] = self.changed_step(steps[at])
        else:
            other = json.loads(json.dumps(r.choice(self.corpus)))
            steps[at:] = other[r.randrange(len(other)):]

    def changed_step(self, step: list[Any]) -> list[Any]:
        r = self.random
        places = [i for i, value in enumerate(step) if i > 0 and isinstance(value, (int, str))]
        if step[0] in ("repeat", "settings") or not places:
            return self.step()
        at = r.choice(places)
        if isinstance(step[at], int):
            bounded = step[0] in ("fill", "bomb", "wait")
            step[at] = self.number() % 60_000 if bounded else self.number()
        elif (step[0], at) in (("headers", 2), ("call", 2)):
            step[at] = r.choice(self.paths)
        else:
            raw = bytearray(bytes.fromhex(step[at]))
            if raw and r.random() < 0.7:
                raw[r.randrange(len(raw))] ^= 1 << r.randrange(8)
            else:
                raw[r.randrange(len(raw) + 1):] = r.randbytes(r.randrange(20))
            step[at] = bytes(raw).hex()
        return step

    def sequence(self) -> Sequence_:
        if self.random.random() < 0.35:
            steps = [["preface"]] if self.random.random() < 0.95 else []
            return steps + [self.step() for _ in range(self.random.randrange(1, 12))]
        steps = json.loads(json.dumps(self.random.choice(self.corpus)))
        for _ in range(self.random.choice([1, 1, 2, 3, 5])):
            self.change(steps)
        return steps


# --- Playing ------------------------------------------------------------------------------------------------------

# What is played: a sequence, on the listener with this number, with a token or without.
Play = tuple[Sequence_, int, bool]


class Fuzzer:
    def __init__(self, folder: Path, keep: Path | None = None):
        self.folder, self.keep = folder, keep
        self.certificates = attack.make_certificates(folder / "pki")
        self.edges: list[Edge] = []
        self.held: list[tuple[int, float]] = []  # By edge: descriptors and MiB that are its own.
        self.signatures: set[str] = set()
        self.played = self.kept = self.starts = 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        for name, tls in (("plain", None), ("tls", self.certificates)):
            self.edges.append(Edge(self.folder / f"{name}{self.starts}", tls))
        for edge in self.edges:
            edge.check_answers()
        self.measure()

    def measure(self) -> None:
        """What the coordinators hold is theirs from now on. Threads, arenas and caches are there after the first load."""
        self.held = [edge.holds() for edge in self.edges]

    def listeners(self) -> list[tuple[Edge, wire.Target]]:
        """Plain text, its socket, TLS, its socket."""
        return [(edge, target) for edge in self.edges for target in edge.targets]

    def play(self, steps: Sequence_, edge: Edge, target: wire.Target, with_token: bool) -> wire.Connection:
        """The connection afterwards, for the caller to close."""
        self.played += 1
        try:
            sock = target.connect()
        except OSError as error:
            edge.check_alive()
            raise Found(f"{target.kind} takes no connection: {error}") from error
        connection = wire.Connection(sock, STUDY, edge.token if with_token else None)
        connection.play(steps)
        if connection.reaction.end == "open":
            connection.settle(0.5 if steps and steps[0] == ["preface"] else 0.02)
        return connection

    def batch(self, plays: Sequence[Play], rand: random.Random) -> None:
        """Plays sequences, each on the listener with the given number, some connections beside others, and judges."""
        kept_open: list[wire.Connection] = []
        listeners = self.listeners()
        for steps, listener, with_token in plays:
            connection = self.play(steps, *listeners[listener], with_token)
            signature = connection.reaction.signature()
            if signature not in self.signatures:
                self.signatures.add(signature)
                self.keep_sequence(steps)
            if rand.random() < 0.3 and len(kept_open) < 20:
                kept_open.append(connection)
            else:
                connection.close()
        for connection in kept_open:
            connection.close()
        self.judge()

    def keep_sequence(self, steps: Sequence_) -> None:
        if self.keep is None:
            return
        self.kept += 1
        self.keep.mkdir(parents=True, exist_ok=True)
        (self.keep / f"found_{self.kept:04}.json").write_text(json.dumps({"about": "Found.", "steps": steps}) + "\n")

    def judge(self) -> None:
        for edge, (descriptors, mib) in zip(self.edges, self.held):
            edge.check_answers()
            deadline = time.monotonic() + PATIENCE
            # Connections end, and calls with them, as soon as gRPC reads that their clients are gone.
            while True:
                (now, now_mib), asks = edge.holds(), edge.waiting_asks()
                if now <= descriptors + SPARE_DESCRIPTORS and asks == 0:
                    break
                if time.monotonic() > deadline:
                    raise Found(f"{now} descriptors where {descriptors} were before; {asks} asks wait, of no client that is there")
                time.sleep(0.02)
            if now_mib > mib + SPARE_MIB:
                raise Found(f"{now_mib:.0f} MiB where {mib:.0f} were before")

    def find_culprit(self, plays: Sequence[Play]) -> str:
        """Plays the batch again, one at a time, on fresh coordinators. Returns what does it."""
        file = Path(tempfile.gettempdir()) / f"wire_fuzz_failure_{os.getpid()}.json"
        file.write_text(json.dumps(plays))
        self.kill()
        self.start()
        for steps, listener, with_token in plays:
            edge, target = self.listeners()[listener]
            try:
                self.play(steps, edge, target, with_token).close()
                self.judge()
            except Found as found:
                return f"{found}\nby this sequence, {'with' if with_token else 'without'} a token, on {target.kind}:\n{json.dumps(steps)}"
        return f"by the whole batch, none of its sequences alone; it is in {file}"

    def stop(self) -> float:
        longest = max(edge.stop() for edge in self.edges)
        if longest > MOST_SECONDS_TO_STOP:
            raise Found(f"SIGTERM took {longest:.1f} s: calls are still held, of clients that are gone")
        return longest

    def kill(self) -> None:
        for edge in self.edges:
            if edge.coordinator.alive():
                edge.coordinator.kill()
        self.edges = []


def replay(fuzzer: Fuzzer, corpus: list[Sequence_], whole: bool) -> None:
    """Every sequence on plain text, TLS and a socket, by turns with and without a token; `whole`: on both sockets, and both ways."""
    rand = random.Random(1)
    if whole:
        plays = [(steps, listener, token) for steps in corpus for listener in range(4) for token in (True, False)]
    else:
        plays = [(steps, listener, (i + listener) % 2 == 0) for i, steps in enumerate(corpus) for listener in (0, 1, 2)]
    rand.shuffle(plays)
    # What the first load leaves behind is no leak: threads, arenas, tables.
    for turn in range(2 if whole else 1):
        for begin in range(0, len(plays), 4 * BATCH):
            run_batch(fuzzer, plays[begin:begin + 4 * BATCH], rand, judge_memory=turn > 0)
        if turn == 0:
            fuzzer.measure()


def run_batch(fuzzer: Fuzzer, plays: list[Play], rand: random.Random, judge_memory: bool = True) -> None:
    if not judge_memory:
        fuzzer.held = [(descriptors, MOST_MIB) for descriptors, _ in fuzzer.held]
    try:
        fuzzer.batch(plays, rand)
    except Found as found:
        raise Found(f"{found}\n{fuzzer.find_culprit(plays)}") from found


def fuzz(fuzzer: Fuzzer, maker: Maker, seconds: float, batches: int) -> int:
    """Random batches until the time or the number is used up. Returns how many."""
    deadline, done = time.monotonic() + seconds, 0
    while done < batches and time.monotonic() < deadline:
        plays = [(maker.sequence(), maker.random.randrange(4), maker.random.random() < 0.6) for _ in range(BATCH)]
        try:
            run_batch(fuzzer, plays, maker.random)
        except Found as found:
            raise Found(f"batch {done}: {found}") from found
        done += 1
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=attack.BIN)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--batches", type=int, default=1 << 30)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("sequences", nargs="*", type=Path)
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    attack.BIN = args.programs
    print(f"seed {seed}", flush=True)
    corpus = [json.loads(file.read_text())["steps"] for file in args.sequences] or [steps for _, steps in wire.read_corpus(CORPUS)]
    with tempfile.TemporaryDirectory(prefix="luthier-wire-") as folder:
        fuzzer = Fuzzer(Path(folder), args.keep)
        try:
            begin = time.monotonic()
            replay(fuzzer, corpus, whole=True)
            print(f"{fuzzer.played} connections of {len(corpus)} sequences in {time.monotonic() - begin:.1f} s, {len(fuzzer.signatures)} "
                  f"different reactions", flush=True)
            batches = fuzz(fuzzer, Maker(seed, corpus), args.seconds, args.batches)
            mib = ", ".join(f"{before:.0f} -> {edge.holds()[1]:.0f} MiB" for edge, (_, before) in zip(fuzzer.edges, fuzzer.held))
            print(f"{batches} batches, {fuzzer.played} connections, {len(fuzzer.signatures)} different reactions; {mib}; "
                  f"ended in {fuzzer.stop():.1f} s: passed")
        except Found as found:
            print(f"seed {seed}: FAILED: {found}")
            return 1
        finally:
            fuzzer.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
