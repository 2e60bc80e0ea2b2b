"""HTTP/2 that is wrong, on plain, TLS and socket listeners, with a token and without: the kept corpus, then random sequences by a seed
that is printed. LUTHIER_ATTACK_SECONDS: for how long; wire_fuzz.py runs it by itself."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import wire
import wire_fuzz

SECONDS = float(os.environ.get("LUTHIER_ATTACK_SECONDS", "3"))


def test_the_corpus_and_random_sequences(tmp_path: Path, rng: random.Random) -> None:
    corpus = [steps for _, steps in wire.read_corpus(wire_fuzz.CORPUS)]
    assert len(corpus) > 100
    fuzzer = wire_fuzz.Fuzzer(tmp_path)
    try:
        wire_fuzz.replay(fuzzer, corpus, whole=SECONDS > 30)
        # Reactions to what is in the corpus: a server that takes or ignores everything shows but a few.
        assert len(fuzzer.signatures) >= 30, sorted(fuzzer.signatures)
        assert wire_fuzz.fuzz(fuzzer, wire_fuzz.Maker(rng.randrange(1 << 32), corpus), SECONDS, 1 << 30) > 0
        fuzzer.stop()
    except wire_fuzz.Found as found:
        pytest.fail(str(found))
    finally:
        fuzzer.kill()
