"""What training may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Resource:
    """What training one setting may cost, in the steps of its reports: at most `max` ("epochs"), at least `min` to say
    anything."""

    max: int
    min: Optional[int] = None
    unit: str = ""
