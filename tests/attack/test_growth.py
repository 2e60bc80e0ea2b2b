"""Mixed load for some seconds: what it took is given back. For half an hour it is tools/release_check.sh soak."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import attack
import soak

SECONDS = float(os.environ.get("LUTHIER_ATTACK_SOAK_SECONDS", "3"))
MIB = 1 << 20


@pytest.mark.skipif(bool(os.environ.get("LUTHIER_ATTACK_SANITIZED")), reason="a sanitizer keeps what is freed")
def test_studies_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    """Callers of every kind; afterwards memory and descriptors are near what they were."""
    with attack.Coordinator(tmp_path, "--memory-limit", "512M") as server:
        load = soak.Load(server, seed=1, workers=2, grow_to=300)
        load.grow(200)
        begin = server.resident_bytes()
        descriptors = server.descriptors()
        soak.run(load, SECONDS, 1, soak.tell)
        assert not load.wrong, load.wrong[:10]
        for what in ("complete", "order", "filter", "table", "importance", "study"):
            assert load.counts.get(what, 0) > 0, load.counts
        attack.wait_for(lambda: server.descriptors() <= descriptors, "descriptors of callers that are gone", 10)
        # Caches of the database and of threads fill up, once.
        attack.wait_for(lambda: server.resident_bytes() < begin + 48 * MIB, "memory to be given back", 20)
