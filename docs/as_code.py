"""For mkdocs: the examples in docstrings are code on the page, not quotations, and say so to Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension  # type: ignore[import-not-found]

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.M)


class AsCode(Extension):
    """Puts a fence around every block that begins with >>> and ends with an empty line."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
