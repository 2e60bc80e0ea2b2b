"""Keeps rows as compressed tables in the tree (rows/NAME.csv.xz)."""

import csv
import hashlib
import io
import lzma
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "rows"


def read(name, folder=FOLDER):
    """The rows of a table, as dictionaries; none where there is no such file."""
    path = folder / f"{name}.csv.xz"
    if not path.exists():
        return []
    return list(csv.DictReader(io.StringIO(lzma.decompress(path.read_bytes()).decode())))


def write(name, columns, rows, folder=FOLDER):
    """Sorted as text is, so that the same rows give the same file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(sorted([str(value) for value in row] for row in rows))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.csv.xz").write_bytes(
        lzma.compress(text.getvalue().encode(), format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME))


def fingerprint(name, folder=FOLDER):
    """Returns 16 hexadecimal digits of the SHA-256 of the decompressed table, or none without a file."""
    path = folder / f"{name}.csv.xz"
    return hashlib.sha256(lzma.decompress(path.read_bytes())).hexdigest()[:16] if path.exists() else "none"


def sources():
    """The folder of the data sets."""
    return os.environ.get("LUTHIER_DATA_DIR") or sys.exit("run: LUTHIER_DATA_DIR names no folder of data sets")
