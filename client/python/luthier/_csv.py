"""The records of CSV files, as the command line has them (client/cli/csv.cc): a field in quotes keeps the blanks at its
ends, others lose them."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable

_BLANKS = " \t\v\f"
_QUOTED = re.compile(r'[ \t\v\f]*"([^"]*(?:""[^"]*)*)"([^,\r\n]*)')
_PLAIN = re.compile(r"[^,\r\n]*")


def line(fields: Iterable[str]) -> str:
    """Returns a record with its end."""
    return ",".join(map(_written, fields)) + "\n"


def _written(field: str) -> str:
    if field == field.strip() and not any(c in field for c in ',"\r\n'):
        return field
    return '"' + field.replace('"', '""') + '"'


def read(path: str) -> list[tuple[int, list[str]]]:
    """Returns the records of a file, each with the line that it ends in; empty ones are left out. ValueError names the
    line and what is wrong."""
    source = os.path.basename(path)
    with open(path, "rb") as file:
        raw = file.read()
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{source}:1: is in UTF-16; save it as UTF-8")
    try:
        return records(raw.decode("utf-8-sig"), source)
    except UnicodeDecodeError as error:
        at = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{source}:{at}: is not in UTF-8; save it as UTF-8") from None


def records(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Returns the records of a text, as `read` does."""
    out: list[tuple[int, list[str]]] = []
    record: list[str] = []
    at, number = 0, 1
    while at < len(text) or record:
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            record.append(quoted[1].replace('""', '"') + quoted[2])
            number += quoted[1].count("\n")
            at = quoted.end()
        else:
            plain = _PLAIN.match(text, at)
            assert plain is not None  # It matches nothing, too.
            if plain[0].lstrip(_BLANKS).startswith('"'):
                raise ValueError(f"{source}:{number}: a quoted field is not closed")
            record.append(plain[0].strip(_BLANKS))
            at = plain.end()
        if text[at : at + 1] == ",":
            at += 1
            continue
        if record != [""]:
            out.append((number, record))
        record = []
        if text[at : at + 2] == "\r\n":
            at += 1
        number += text[at : at + 1] == "\n"
        at += 1
    return out
