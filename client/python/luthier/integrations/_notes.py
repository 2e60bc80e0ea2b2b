"""Attributes in Optuna's way: any JSON value goes in and comes back, though the service keeps texts."""

from __future__ import annotations

import json
from typing import Any

from luthier._results import note


def to_note(value: Any) -> str:
    """Returns the text of an attribute: a text as it is unless it reads as JSON, everything else as JSON."""
    if isinstance(value, str):
        return value if from_note(value) == value else json.dumps(value)
    return note(value)


def from_note(text: str) -> Any:
    """Returns what `to_note` was given; a text that is no JSON as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
