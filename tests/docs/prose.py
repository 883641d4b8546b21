"""Pages of the documentation as plain text, and the numbers in them that somebody measured."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Lines without prose: blocks of code, rules of tables, headings, references to the source.
LINES = re.compile(r"^```.*?^```$|^ {4}.*?$|^\|[-|: ]+\|$|^#+ .*?$|^:::.*?$", re.M | re.S)
SECTION = re.compile(r"^(?=## )", re.M)
SPEED = ("## Speed", "## How fast")
BENCHMARK = re.compile(r"`[^`]*(?:benchmarks/\w+\.py|make bench|paper \w+ --scale)[^`]*`")
# Within a line, what is no measurement: code, addresses (a link keeps its words), names with digits.
SILENT = re.compile(
    r"`[^`]*`|!?\[(?P<text>[^\]]*)\]\([^)]*\)|\w+-v\d+|Walker2d|Stable-Baselines3|H200|L2\b|b?float\d+"
)
# A number in digits (1,000; 0.62; 10⁻⁵; 3·10¹¹), or a quantity in words.
WORDS = r"(?:half|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth)s?"
COUNTS = r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred)"
NUMBER = re.compile(
    rf"\d[\d,]*(?:\.\d+)?(?:[·e][⁻\-−]?[\d⁰¹²³⁴⁵⁶⁷⁸⁹]+)?[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*"
    rf"|\b(?:an?|one|two|three) {WORDS}\b|\btwice\b|\b{COUNTS} times\b|[½¼¾]",
    re.I,
)


def source(page: str) -> str:
    """A page's prose and tables, without code."""
    return LINES.sub("", (ROOT / page).read_text())


def without_benchmarks(page: str) -> str:
    """As `source`, without the paragraphs that name the command of their numbers, and a table after one.

    A section that is called "Speed" or "How fast" names one and holds nothing else.
    """
    parts = SECTION.split((ROOT / page).read_text())
    for part in parts:
        assert not part.startswith(SPEED) or BENCHMARK.search(part), f"{page}: {part[:20]!r} names no command"
    kept = "\n".join(part for part in parts if not part.startswith(SPEED))
    prose, dropped = [], False
    for part in kept.split("\n\n"):
        dropped = bool(BENCHMARK.search(part)) or (dropped and part.startswith("|"))
        prose += [] if dropped else [part]
    return LINES.sub("", "\n\n".join(prose))


def flat(text: str) -> str:
    """One line, single spaces, no marks of emphasis: what a reader reads."""
    return re.sub(r"\s+", " ", re.sub(r"(?<![\w*])\*{1,2}|\*{1,2}(?![\w*])", "", text))


def silent(text: str) -> str:
    """The text without what cannot hold a measurement; a link's own words stay."""
    for _ in range(2):  # the second time for names within links
        text = SILENT.sub(lambda found: found.group("text") or " ", text)
    return text


def unchecked(text: str, checked: list[str], stated: list[str]) -> list[str]:
    """The numbers of a page that neither a checked sentence nor a stated pattern covers, with some context.

    `checked` are texts as they stand in the page, `stated` regular expressions of what is no measurement of a
    study (settings, benchmarks that name their command).
    """
    line = flat(text)
    # A gap instead of nothing keeps two neighbours from forming a new number.
    for part in sorted({flat(one) for one in checked}, key=len, reverse=True):
        line = line.replace(part, " ∎ ")
    line = flat(silent(line))
    for pattern in stated:
        line = re.sub(pattern, " ∎ ", line)
    return [line[max(0, found.start() - 40) : found.end() + 30] for found in NUMBER.finditer(line)]
