"""Attributes of trials and studies: texts in the service, and any JSON value in Optuna's way, which comes back."""

from __future__ import annotations

import json
from typing import Any

from luthier._arguments import json_value, shown, text


def note(value: Any) -> str:
    """Returns an attribute's text: texts as they are, other values as JSON."""
    if isinstance(value, str):
        return text("an attribute", value)
    try:
        return json.dumps(json_value(value))
    except (TypeError, ValueError, RecursionError):
        raise TypeError(f"an attribute is {shown(value)}: it is a text, or what JSON can say") from None


def to_note(value: Any) -> str:
    """Returns the text of an attribute: a text as it is unless it reads as JSON, everything else as JSON."""
    if isinstance(value, str):
        return value if from_note(value) == value else json.dumps(value)
    return note(value)


def from_note(written: str) -> Any:
    """Returns what `to_note` was given; a text that is no JSON as it is."""
    try:
        return json.loads(written)
    except ValueError:
        return written
