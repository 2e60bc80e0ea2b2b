#!/usr/bin/env python3
"""Mixed load on a coordinator for a long time, and what it holds and costs meanwhile.

  soak.py [--seconds 1800] [--every 30] [--seed 1] [--prefill 0] [--grow-to 5000] [--workers 4] [--memory-limit 512M]

A study grows by workers that ask and report, until it has as many trials as `--grow-to` says and another one takes its
place (0: for ever). Others read it with filters, in order, as a table and with importance, watch it, and make and
delete studies of their own. Prints a line for every `--every` seconds. Ends with 1 where the coordinator's memory or
descriptors are more than 5 % higher in the last third of the time than in the third before, where a call has failed
otherwise than by a refusal that passes, or the coordinator has ended. Run it with Debian's Python; LUTHIER_BIN_DIR has
the programs. `tools/release_check.sh soak` runs it for half an hour, `test_growth.py` for some seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

import attack

MIB = 1 << 20
FLAT = 1.05
PASSING = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
# What becomes of calls on a study that is deleted meanwhile.
GONE = {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED}


@dataclass
class Sample:
    """What the coordinator holds at a moment, and what was done until then."""

    seconds: float
    resident: int
    descriptors: int
    processor: float  # Seconds of processor time.
    counts: dict[str, int]


@dataclass
class Load:
    """Threads of callers, and what they count."""

    server: attack.Coordinator
    seed: int
    workers: int = 4
    grow_to: int = 5000
    growing: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: dict[str, int] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def timed(self, what: str, call: Callable[[], Any]) -> Any:
        """Makes a call, counts it and notes what it took."""
        begin = time.monotonic()
        answer = call()
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            self.took.setdefault(what, []).append(time.monotonic() - begin)
        return answer

    def grow(self, rows: int = 0) -> None:
        """Makes a study that grows, with so many results, and deletes the one before."""
        caller = self.server.caller(self.server.admin_token)
        before = self.growing
        study = f"growing-{uuid.UUID(int=random.Random(f'{self.seed} {before}').getrandbits(128)).hex}"
        caller.create_study(study, parameters=4, max_trials=500_000)
        choose = random.Random(f"{self.seed} rows")
        for begin in range(0, rows, 1000):
            trials = [self.result(choose) for _ in range(min(1000, rows - begin))]
            caller.call("StudyService/ImportTrials", parent=attack.name_of(study), trials=trials, timeout=60)
        self.growing = study
        if before:
            caller.call("StudyService/CancelStudy", name=attack.name_of(before), timeout=60)  # Some of its trials run.
            caller.call("StudyService/DeleteStudy", name=attack.name_of(before), timeout=60)
        caller.close()

    @staticmethod
    def result(choose: random.Random) -> Any:
        """A result to import."""
        from luthier.v1 import trial_pb2

        trial = trial_pb2.Trial(state=trial_pb2.Trial.COMPLETE)
        for i in range(4):
            trial.parameters[f"x{i}"] = choose.random()
        trial.final_measurement.metrics["loss"] = choose.random()
        return trial

    def begin(self, what: Callable[[attack.Caller, random.Random], None], name: str) -> None:
        """Calls `what` over and over on a thread and a connection of its own."""

        def loop() -> None:
            choose = random.Random(f"{self.seed} {name}")
            caller = self.server.caller(self.server.admin_token)
            while not self.stopping.is_set():
                growing = self.growing
                try:
                    what(caller, choose)
                except grpc.RpcError as error:
                    self.refused(name, error, growing != self.growing)
            caller.close()

        self.threads.append(threading.Thread(target=loop, name=name, daemon=True))
        self.threads[-1].start()

    def refused(self, name: str, error: grpc.RpcError, changed: bool) -> None:
        """Counts a refusal; notes an error that is none."""
        time.sleep(0.1)
        if self.stopping.is_set() or (error.code() in GONE and (changed or not self.growing)):
            return
        with self.lock:
            what = f"{name} {error.code().name}"
            self.counts[what] = self.counts.get(what, 0) + 1
            if error.code() not in PASSING:
                self.wrong.append(f"{what}: {error.details()}")

    def work(self, caller: attack.Caller, choose: random.Random) -> None:
        """Asks and reports. A report is repeated until it is taken."""
        me = threading.current_thread().name
        study = self.growing
        for lease in self.timed("suggest", lambda: caller.suggest(study, 4, worker=me, timeout=20)):
            loss = choose.random()
            while not self.stopping.is_set():
                try:
                    self.timed("complete", lambda: caller.complete(lease, loss))
                    break
                except grpc.RpcError as error:
                    if error.code() not in PASSING:
                        raise
                    self.refused("complete", error, False)
            if me == "worker0" and 0 < self.grow_to <= lease.trial.number and study == self.growing:
                self.grow()

    def read(self, caller: attack.Caller, choose: random.Random) -> None:
        """Reads the growing study as people do, one way after another."""
        name = attack.name_of(self.growing)
        kind = choose.randrange(3)
        if kind == 0:
            self.timed("order", lambda: caller.call("StudyService/ListTrials", parent=name, page_size=20,
                                                    order_by="metrics.loss"))
        elif kind == 1:
            wanted = f"metrics.loss < {choose.random():.3f} AND params.x0 > 0.5"
            self.timed("filter", lambda: caller.call("StudyService/ListTrials", parent=name, page_size=20, filter=wanted,
                                                     order_by="number desc"))
        else:
            study = self.timed("get", lambda: caller.call("StudyService/GetStudy", name=name))
            since = max(1, study.update_seq - 200)
            self.timed("table", lambda: caller.call("StudyService/GetTrialTable", name=name, after_seq=since))

    def explain(self, caller: attack.Caller, choose: random.Random) -> None:
        """Asks which parameters matter."""
        self.stopping.wait(choose.uniform(0.5, 1.5))
        try:
            self.timed("importance", lambda: caller.call("StudyService/GetImportance", name=attack.name_of(self.growing),
                                                         timeout=60))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:  # Too few results.
                raise

    def come_and_go(self, caller: attack.Caller, choose: random.Random) -> None:
        """Makes a study, works on it, looks at it and deletes it."""
        study = f"s{uuid.UUID(int=choose.getrandbits(128)).hex}"
        caller.create_study(study, parameters=choose.randrange(1, 9),
                            algorithm=choose.choice(["random", "sobol", "tpe", "bo"]))
        for _ in range(3):
            for lease in caller.suggest(study, 2):
                caller.complete(lease, choose.random())
        name = attack.name_of(study)
        caller.call("StudyService/ListTrials", parent=name, order_by="metrics.loss desc")
        caller.call("StudyService/GetTrialTable", name=name)
        caller.call("StudyService/ListEvents", name=name)
        self.timed("study", lambda: caller.call("StudyService/DeleteStudy", name=name))

    def watch(self, caller: attack.Caller, choose: random.Random) -> None:
        """Follows the growing study for some seconds."""
        stream = caller.stream("StudyService/WatchStudy", name=attack.name_of(self.growing), timeout=choose.uniform(1, 5))
        with contextlib.suppress(grpc.RpcError):
            for _ in stream:
                pass

    def start(self) -> None:
        """Begins all of it."""
        for i in range(self.workers):
            self.begin(self.work, f"worker{i}")
        for i in range(2):
            self.begin(self.read, f"reader{i}")
        self.begin(self.explain, "explainer")
        self.begin(self.come_and_go, "visitor")
        self.begin(self.watch, "watcher")

    def stop(self) -> None:
        """Ends all of it."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(90)


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def run(load: Load, seconds: float, every: float, tell: Callable[[Sample, Sample], None]) -> list[Sample]:
    """Runs the load and looks at the coordinator every so often."""
    samples: list[Sample] = []
    begin = time.monotonic()
    load.start()
    while not samples or samples[-1].seconds < seconds:
        if samples:
            time.sleep(max(0.0, min(every, begin + seconds - time.monotonic()) + 0.001))
        load.server.assert_alive()
        with load.lock:
            counts = dict(load.counts)
        samples.append(Sample(time.monotonic() - begin, load.server.resident_bytes(), load.server.descriptors(),
                              processor_seconds(load.server.process.pid), counts))
        tell(samples[max(0, len(samples) - 2)], samples[-1])
    load.stop()
    load.server.assert_alive()
    return samples


def rises(samples: list[Sample]) -> list[str]:
    """What is higher by more than 5 % in the last third than in the one before."""
    third = samples[-1].seconds / 3
    before = [s for s in samples if third <= s.seconds < 2 * third]
    last = [s for s in samples if s.seconds >= 2 * third]
    found = []
    for what, of in (("resident bytes", lambda s: s.resident), ("descriptors", lambda s: s.descriptors)):
        most, then = max(map(of, last)), max(map(of, before))
        if most > FLAT * then:
            found.append(f"{what} rose from {then} to {most}")
    return found


def tell(before: Sample, now: Sample) -> None:
    """A line of what happened since."""
    took = max(1e-9, now.seconds - before.seconds)

    def rate(*whats: str) -> float:
        return sum(now.counts.get(what, 0) - before.counts.get(what, 0) for what in whats) / took

    results = rate("complete")
    busy = (now.processor - before.processor) / took
    print(f"{now.seconds:7.0f} s {now.resident / MIB:7.1f} MiB {now.descriptors:4d} descriptors {results:7.1f} results/s "
          f"{rate('order', 'filter', 'get', 'table'):6.1f} reads/s {rate('importance'):5.2f} importances/s "
          f"{rate('study'):5.1f} studies/s {busy:5.2f} processors {1000 * busy / max(results, 1e-9):7.1f} ms/result",
          flush=True)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefill", type=int, default=0, help="results that the growing study begins with")
    parser.add_argument("--grow-to", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--memory-limit", default="512M")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        attack.generate_messages(Path(folder))
        with attack.Coordinator(Path(folder), "--memory-limit", arguments.memory_limit) as server:
            print(f"empty {server.resident_bytes() / MIB:.1f} MiB")
            load = Load(server, arguments.seed, arguments.workers, arguments.grow_to)
            load.grow(arguments.prefill)
            samples = run(load, arguments.seconds, arguments.every, tell)
            for what, took in sorted(load.took.items()):
                took.sort()
                print(f"{what:10} {len(took):8d} calls, median {1e3 * took[len(took) // 2]:8.1f} ms, "
                      f"99 % {1e3 * took[len(took) * 99 // 100]:8.1f} ms")
            print({what: count for what, count in load.counts.items() if " " in what})
            problems = rises(samples) + load.wrong[:10]
            server.stop()
            server.start()
            time.sleep(1)
            print(f"started again {server.resident_bytes() / MIB:.1f} MiB")
    for problem in problems:
        print(f"soak: {problem}", file=sys.stderr)
    print(f"soak: {'failed' if problems else 'passed'}, {samples[-1].counts.get('complete', 0)} results, "
          f"{samples[-1].counts.get('study', 0)} studies made and deleted, {samples[-1].resident / MIB:.0f} MiB")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
