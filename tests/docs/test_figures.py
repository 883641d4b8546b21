"""Every measured number in README and docs is the one in the committed tables, or names what it is."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

import pytest

from docs import (
    on_aggregation,
    on_arena,
    on_atari,
    on_atari_now,
    on_front,
    on_mujoco,
    on_networks,
    on_queries,
    on_questions,
    on_toy,
    prose,
)

Sentences = Callable[[], Iterator[str]]


def mujoco() -> Iterator[str]:
    yield from on_mujoco.sentences()
    yield from on_networks.networks()
    yield on_front.scores_in_mujoco()


def atari() -> Iterator[str]:
    yield from on_atari.sentences()
    yield from on_atari_now.sentences()


# A page, the sentences that its tables give, and patterns of numbers that are settings or versions.
PAGES: dict[str, tuple[Sentences, list[str]]] = {
    "README.md": (on_front.readme, on_front.STATED_README),
    "docs/benchmarks.md": (on_front.benchmarks, on_front.STATED_BENCHMARKS),
    "docs/findings.md": (on_front.findings, on_front.STATED_FINDINGS),
    "docs/imitate.md": (on_front.imitate, on_front.STATED_IMITATE),
    on_mujoco.PAGE: (mujoco, on_mujoco.STATED),
    on_toy.PAGE: (on_toy.sentences, on_toy.STATED),
    on_questions.PAGE: (on_questions.sentences, on_questions.STATED),
    on_atari.PAGE: (atari, on_atari.STATED),
    on_aggregation.PAGE: (on_aggregation.sentences, on_aggregation.STATED),
    on_arena.PAGE: (on_arena.sentences, on_arena.STATED),
}
# A page that tells of trials beside its tables, which alone are checked.
TABLED: dict[str, Sentences] = {on_queries.PAGE: on_queries.sentences}
# Pages without results: how commands, options and files work. Their numbers are settings and formats.
MANUALS = [
    "docs/choose.md",
    "docs/coming-from.md",
    "docs/faq.md",
    "docs/concepts.md",
    "docs/export.md",
    "docs/gallery.md",
    "docs/recipes.md",
    "docs/report.md",
    "docs/rsl_rl.md",
    "docs/theory.md",
    "docs/worst-day.md",
    "docs/asking.md",
    "docs/until.md",
    "docs/memory.md",
    "docs/person.md",
    "docs/pure.md",
    "docs/certificates.md",
    "docs/commands.md",
    "docs/sweep.md",
    "docs/index.md",
    "docs/reference.md",
]
INCLUDED = ["docs/changes.md", "docs/contributing.md"]


@functools.cache
def given(page: str) -> list[str]:
    return list(TABLED[page]() if page in TABLED else PAGES[page][0]())


@pytest.mark.parametrize("page", [*PAGES, *TABLED])
def test_every_sentence_is_what_the_tables_give(page):
    text = prose.flat(prose.source(page))
    missing = [one for one in given(page) if prose.flat(one) not in text]
    assert not missing, f"{page} does not say what its tables give:\n" + "\n".join(missing)


@pytest.mark.parametrize("page", PAGES)
def test_every_number_is_checked_or_named(page):
    left = prose.unchecked(prose.without_benchmarks(page), given(page), PAGES[page][1])
    assert not left, f"{page} has numbers that nothing checks:\n" + "\n".join(left)


def test_every_page_is_known():
    found = {path.relative_to(prose.ROOT).as_posix() for path in (prose.ROOT / "docs").rglob("*.md")}
    found = {one for one in found if not one.startswith("docs/figures/")}
    assert found | {"README.md"} == {*PAGES, *TABLED, *MANUALS, *INCLUDED}


def test_every_page_is_in_the_navigation_once():
    """By its lines, since nothing that reads YAML is installed: a page, or a title with pages below it."""
    lines = (prose.ROOT / "mkdocs.yml").read_text().partition("nav:\n")[2].splitlines()
    found, inside = [], False
    for line in lines:
        page = re.fullmatch(r"(  |      )- [^:]+:(?: (\S+\.md))?", line)
        assert page, line
        assert (page[1] == "  ") or (inside and page[2]), line
        inside = not page[2] if page[1] == "  " else inside
        found += [f"docs/{page[2]}"] if page[2] else []
    assert sorted(found) == sorted({*PAGES, *TABLED, *MANUALS, *INCLUDED} - {"README.md"})


def test_a_wrong_digit_and_a_number_that_nobody_checks_are_found():
    """The two checks can fail."""
    right = next(one for one in given(on_mujoco.PAGE) if "mean returns of" in one)
    text = prose.source(on_mujoco.PAGE)
    assert prose.flat(right) in prose.flat(text)
    wrong = prose.flat(text).replace("mean returns of 46", "mean returns of 200")
    assert prose.flat(right) not in wrong
    left = prose.unchecked(wrong, given(on_mujoco.PAGE), on_mujoco.STATED)
    assert any("200 to 754" in one for one in left)
    for new in (
        "It is 3.7 times faster.",
        "It needs a tenth of the labels.",
        "| FTL | 0.91 |",
        "It takes twice as long.",
    ):
        assert len(prose.unchecked(new, [], [])) == 1
    for old in ("See `--eta 0.1` and [page 3](a.md#4) of Walker2d.", "An H200 on Hopper-v5."):
        assert len(prose.unchecked(old, [], [])) == old.count("page 3")


def test_a_benchmark_without_its_command_is_no_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(
        "# P\n\n`python benchmarks/bench_a.py`: 3 s.\n\n| 4 |\n\nIt takes 5 s.\n"
    )
    assert prose.flat(prose.without_benchmarks("page.md")).strip() == "It takes 5 s."
    (tmp_path / "page.md").write_text("# P\n\n## Speed\n\nIt takes 5 s.\n")
    with pytest.raises(AssertionError, match="names no command"):
        prose.without_benchmarks("page.md")
