#!/usr/bin/env python3
"""Makes the modules for threads from those for event loops: luthier/_X.py from luthier/_aio_X.py.

    client/python/make_sync.py            writes them
    client/python/make_sync.py --check    exits with 1 where one differs from what would be written

What is awaited is called, and what runs in a loop's own threads runs in the caller's. Words are replaced by the table
below, in comments and docstrings, too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "luthier"
MADE = {"_aio_calls.py": "_calls.py", "_aio_asking.py": "_asking.py"}
# Regular expressions and what stands in place of what they match, one after the other.
WORDS = (
    (r"(?s)\n\n\n# --- [^\n]*: not for threads ---\n.*\Z", "\n"),
    (r"`_\w+\.py` is the same for threads, made from this file by client/python/make_sync\.py\.",
     "Made by client/python/make_sync.py from {source}: change that file."),
    (r"import (asyncio|atexit|weakref)\n", ""),
    (r"from luthier\._aio_calls import Calls, calls_of\n", "from luthier._calls import Calls\n"),
    (r"await asyncio\.to_thread\(([\w.]+)(?:, )?", r"\1("),
    (r"await asyncio\.sleep\(", "time.sleep("),
    (r"await to_the_end\((.*)\)\n", r"\1\n"),
    (r"calls_of\(([\w.]+)\)", r"\1.calls"),
    (r", to_the_end\b", ""),
    (r"asyncio\.CancelledError", "BaseException"),
    (r"\b(?:async|await) ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bgrpc\.aio\b", "grpc"),
    (r"\bluthier\.aio\b", "luthier"),
    (r"\bluthier\._tasks\b", "luthier._threads"),
    (r"\bof one event loop\b", "of threads"),
    (r"\bin an event loop\b", "in threads"),
    (r"\bfrom an event loop\b", "from any thread"),
)  # fmt: skip


def to_sync(source: str) -> str:
    """Returns the text of the module for threads that is made from a file of the package."""
    text = (PACKAGE / source).read_text(encoding="utf-8")
    for pattern, word in WORDS:
        text = re.sub(pattern, word.replace("{source}", source), text)
    return text


def main() -> int:
    """Writes the modules, or compares them."""
    check = sys.argv[1:] == ["--check"]
    differ = 0
    for source, made in MADE.items():
        text, path = to_sync(source), PACKAGE / made
        if check and text != path.read_text(encoding="utf-8"):
            print(f"{path} is not what {Path(__file__).name} makes from {source}: run it", file=sys.stderr)
            differ = 1
        elif not check:
            path.write_text(text, encoding="utf-8")
    return differ


if __name__ == "__main__":
    sys.exit(main())
