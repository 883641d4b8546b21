"""`understudy watch`: the report on a page of this machine, while runs go on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Flag, Options


class Watch(Options):
    """Show runs and studies on a page while they go on, to this machine only: the address holds a token."""

    paths: Positional[Annotated[tuple[Path, ...], arg(metavar="FOLDER…")]]
    """Folders of runs or studies, or folders that hold such; new runs in them appear."""
    port: int = 0
    """The port on 127.0.0.1; 0 takes a free one."""
    moments: int = 12
    """How many moments of largest disagreement to show of finished runs."""
    seconds: float = 60.0
    """Time for drawing their clips; 0 draws none."""
    no_browser: Flag = False
    """Only print the address."""


def run(options: Watch) -> int:
    """Serves the page until it is interrupted."""
    from .. import web
    from ..errors import UserError
    from ..report.page import Live

    if not options.paths:
        raise UserError("watch: name at least one folder, such as runs.")
    live = Live(options.paths, moments=options.moments, seconds=options.seconds)
    try:
        with web.Server(live.routes(), port=options.port) as server:
            web.show(server.url, browser=not options.no_browser)
            print(f"watching at {server.url}\nInterrupt (Ctrl-C) to stop.", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    finally:
        live.close()
    return 0
