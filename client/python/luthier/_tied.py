"""Starts a program that ends with the process that started it: `python _tied.py PARENT PROGRAM ARGUMENT...`.

It runs as a file of its own, without the package, and becomes the program. `subprocess` could do the same in a
function between fork and exec; there Python's and gRPC's handlers of forks run beside threads that no longer exist.
"""

import ctypes
import os
import signal
import sys


def main() -> None:
    """Asks the kernel for SIGTERM when the parent dies, and becomes the program."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # It died before.
        sys.exit(128 + signal.SIGTERM)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
