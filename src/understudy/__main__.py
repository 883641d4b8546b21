"""`python -m understudy` is the command `understudy`."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
