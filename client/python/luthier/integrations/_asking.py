"""Asks for trials on behalf of another package's search, which ends by that package's rules and no others."""

from __future__ import annotations

import uuid
from typing import Any, Optional

import luthier
from luthier.study import PAUSED_BY_USER


def ask(study: luthier.Study, n: Optional[int] = None) -> Any:
    """Returns the next trial (None at the end), or with `n` a list, as `study.ask`.

    A study that the service paused as its trials fail is resumed, one that somebody paused is not, and where one worker holds as many trials as it may,
    others go to another name.
    """
    worker: Optional[str] = None
    while True:
        try:
            return study.ask(n, worker=worker)
        except luthier.StudyPaused:
            if study.state_reason == PAUSED_BY_USER:
                raise
            study.resume()
        except luthier.LimitExceeded:
            if worker is not None:
                raise
            worker = f"py-{uuid.uuid4().hex[:20]}"
