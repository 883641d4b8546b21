"""What the documentation tells a reader to type exists: commands, options, names, files, verbs of make."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

import understudy
from docs.prose import ROOT
from understudy import cli

PAGES = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/studies/*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def typed(page: str) -> list[str]:
    """Every call of the command line in a page's code, its arguments in one string."""
    text = (ROOT / page).read_text()
    lines = re.findall(r"^ {4}(.*)$", text.replace("\\\n", " "), re.M)
    lines += [line for kind, block in BLOCK.findall(text) for line in block.splitlines() if kind != "python"]
    lines += [code for code in re.findall(r"`([^`\n]+)`", text) if "--" in code]
    calls = []
    for line in lines:
        for part in re.split(r"[;&]", re.sub(r"\s#.*", "", line.lstrip("# "))):
            if found := re.match(r"(?:\w+=\S+ )*understudy (.+)", part.strip()):
                calls.append(found.group(1))
    return calls


CALLS = sorted({call for page in PAGES for call in typed(page)} - {"COMMAND --help", "--help", "--version"})


def test_there_are_calls():
    assert len(CALLS) > 20


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_read(call):
    command, rest = cli._find([one for one in shlex.split(call) if one != "…"])
    assert command is not None
    if rest:
        cli._parse(command, rest)


def test_a_call_that_does_not_exist_is_refused():
    """The negative control: the check above can fail."""
    command, rest = cli._find(shlex.split("train Hopper-v5 --learners ftl"))
    assert command is not None
    with pytest.raises(understudy.UserError, match="learners"):
        cli._parse(command, rest)


@pytest.mark.parametrize("page", PAGES)
def test_names_files_and_verbs_exist(page):
    text = (ROOT / page).read_text()
    code = " ".join([*re.findall(r"`([^`\n]+)`", text), *(block for _, block in BLOCK.findall(text))])
    for name in re.findall(r"\bunderstudy\.(\w+)", code):
        known = hasattr(understudy, name) or (ROOT / "src/understudy" / name).exists()
        assert known, f"{page}: understudy.{name}"
    for script in re.findall(r"\b(?:benchmarks|requirements)/\w+\.(?:py|txt)", text):
        assert (ROOT / script).exists(), f"{page}: {script}"
    makefile = (ROOT / "Makefile").read_text()
    for verb in re.findall(r"`make ([a-z][a-z0-9-]*)", text):
        assert re.search(rf"^{verb}:", makefile, re.M), f"{page}: make {verb}"
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def test_blocks_of_toml_are_studies_and_python_compiles():
    for page in PAGES:
        for kind, block in BLOCK.findall((ROOT / page).read_text()):
            if kind == "toml":
                tomllib.loads(block)
            if kind == "python":
                compile(block, page, "exec")


@pytest.mark.parametrize("page", ["docs/index.md", "docs/certificates.md"])
def test_an_example_runs_and_its_numbers_are_in_order(page, capsys):
    (code,) = [block for kind, block in BLOCK.findall((ROOT / page).read_text()) if kind == "python"]
    exec(compile(code, page, "exec"), {})  # noqa: S102
    numbers = [float(one) for one in capsys.readouterr().out.split("≤")]
    assert len(numbers) >= 2 and numbers == sorted(numbers)
