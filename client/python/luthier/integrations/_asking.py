"""Asks for trials on behalf of another package's search, which ends by that package's rules and no others."""

from __future__ import annotations

import uuid
from typing import Any, Optional

import luthier


def ask(study: luthier.Study, n: Optional[int] = None) -> Any:
    """Returns the next trial (None at the end), or with `n` a list, as `study.ask`.

    A study that the service paused as its trials fail is resumed, and where one worker holds as many trials as it may,
    others go to another name.
    """
    worker: Optional[str] = None
    while True:
        try:
            return study.ask(n, worker=worker)
        except luthier.StudyPaused:
            study.resume()
        except luthier.LimitExceeded:
            if worker is not None:
                raise
            worker = f"py-{uuid.uuid4().hex[:20]}"
