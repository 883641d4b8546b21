"""Pages in Chromium, driven by playwright; tests are skipped in one line where either is missing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)
FLAGS += ("--disable-component-update", "--disable-sync")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (extra browser)"
    )
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


@contextlib.contextmanager
def visited(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page at an address; whatever it complains about fails the test in the end."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(60_000)
    page, wrong = context.new_page(), []
    page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()
    assert wrong == []
