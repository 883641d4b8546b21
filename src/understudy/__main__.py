"""The command `understudy`, which is `python -m understudy` too."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs one command; Ctrl-C while the command line itself is imported is one line too."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
