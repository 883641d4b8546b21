"""The command `understudy`, which is `python -m understudy` too."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import TextIO


def main() -> int:
    """Runs one command; Ctrl-C while the command line itself is imported is one line too."""
    sys.stdout, sys.stderr = _written(sys.stdout), _written(sys.stderr)
    try:
        from .cli import main as run

        code = run()
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        code = 130
    if code == 130:
        _leave(code)
    return code


def _written(stream: TextIO | None) -> TextIO:
    """A stream that takes every text: one that was closed goes nowhere, and characters that a terminal does
    not know are replaced.
    """
    if stream is None:
        return open(os.devnull, "w")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # type: ignore[attr-defined]
    return stream


def _leave(code: int) -> None:
    """Ends the process without Python's own clean-up: where an interrupt left a program half compiled by JAX,
    that is a segmentation fault.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # Ctrl-C ends the reader of a pipe too
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
