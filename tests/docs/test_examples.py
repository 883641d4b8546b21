"""What the documentation tells a reader to type exists: commands, options, names, files, verbs of make."""

from __future__ import annotations

import functools
import importlib.util
import math
import re
import runpy
import shlex
import sys
import tomllib

import pytest

import paper.__main__
import understudy
from docs.prose import ROOT
from quick import SIZE
from understudy import cli
from understudy.spec import registries

PAGES = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "paper/README.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/studies/*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def typed(page: str, command: str = "understudy") -> list[str]:
    """Every call of a command in a page's code, its arguments in one string."""
    text = (ROOT / page).read_text()
    lines = re.findall(r"^ {4}(.*)$", text.replace("\\\n", " "), re.M)
    lines += [line for kind, block in BLOCK.findall(text) for line in block.splitlines() if kind != "python"]
    lines += [code for code in re.findall(r"`([^`\n]+)`", text) if "--" in code]
    calls = []
    for line in lines:
        for part in re.split(r"[;&]", re.sub(r"\s#.*", "", line.lstrip("# "))):
            if found := re.match(rf"(?:\w+=\S+ )*{command} (.+)", part.strip()):
                calls.append(found.group(1))
    return calls


STUDIES = sorted({call for page in PAGES for call in typed(page, "python -m paper")} - {"--help"})
CALLS = sorted({call for page in PAGES for call in typed(page)} - {"COMMAND --help", "--help", "--version"})


def test_there_are_calls():
    assert len(CALLS) > 20 and len(STUDIES) > 15


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_read(call):
    command, rest = cli._find([one for one in shlex.split(call.partition(" | ")[0]) if one != "…"])
    assert command is not None
    if rest:
        cli.parse(command, rest)


@pytest.mark.parametrize("call", STUDIES)
def test_a_study_is_read(call):
    paper.__main__.parse(shlex.split(call))


def test_a_call_that_does_not_exist_is_refused():
    """The negative control: the checks above can fail."""
    with pytest.raises(understudy.UserError, match="did you mean '--scale'"):
        paper.__main__.parse(shlex.split("mujoco --scales full"))
    command, rest = cli._find(shlex.split("train Hopper-v5 --learners ftl"))
    assert command is not None
    with pytest.raises(understudy.UserError, match="learners"):
        cli.parse(command, rest)


@pytest.mark.parametrize("page", PAGES)
def test_names_files_and_verbs_exist(page):
    text = (ROOT / page).read_text()
    code = " ".join([*re.findall(r"`([^`\n]+)`", text), *(block for _, block in BLOCK.findall(text))])
    for name in re.findall(r"\bunderstudy\.(\w+)", code):
        there = ROOT / "src/understudy" / name
        known = hasattr(understudy, name) or there.exists() or there.with_suffix(".py").exists()
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


# Many programs to compile: a dozen runs, the absolute loss, networks.
LONG = ("docs/certificates.md", "docs/choose.md")
RECIPES = "docs/recipes.md"
RUN = [
    pytest.param(page, marks=pytest.mark.slow) if page in LONG else page
    for page in PAGES
    if page != RECIPES and "\n```python" in (ROOT / page).read_text()
]
PARTS = ("expert", "environment", "policy", "loss", "learner", "solver", "ask rule", "sink")
SUITES = {
    "expert": lambda names: understudy.checks.expert(names["steer"], "CartPole-v1"),
    "environment": lambda names: understudy.checks.env(names["Docking"]),
    "policy": lambda names: understudy.checks.policy(names["Bumps"]()),
    "loss": lambda names: understudy.checks.loss(names["LogCosh"]()),
    "ask rule": lambda names: understudy.checks.ask(names["Unsure"]()),
}
"""Of the other parts the suites are slow, and have tests of their own."""
MOST = SIZE
"""A run in a page's examples is no longer than this while they are tested."""
imitate, play = understudy.imitate, understudy.Study.run


def smaller(env, /, **settings):
    """`understudy.imitate`, shorter, with a linear policy where none is named, and without an account of the
    regret, which takes long to compile.
    """
    if isinstance(env, understudy.RunSpec):
        settings = env.changes()
        env = settings.pop("env")
    if settings.get("expert") == "person":
        settings |= {"expert": None}  # nobody is there to answer; the shipped expert does
    given = {"policy": "linear", "episodes": 1, "expert_episodes": 1, "comparator": "none"} | settings
    return imitate(env, **given | {name: min(given.get(name, most), most) for name, most in MOST.items()})


def fewer(study, out=None, **options):
    """`Study.run` of the first two runs, short, in this process."""
    first = study.with_settings(**MOST, episodes=0)
    names = [entry.id for entry in first.runs[:2]]
    return play(first.only(lambda entry: entry.id in names), out, engine="inline")


@pytest.mark.parametrize("page", RUN)
def test_every_block_of_python_runs_and_numbers_are_in_order(page, capsys, tmp_path, monkeypatch):
    """One after the other, as a reader would type them, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    judged = functools.partial(smaller, comparator="last") if "run.certificate" in text else smaller
    monkeypatch.setattr(understudy, "imitate", judged)
    monkeypatch.setattr(understudy.Study, "run", fewer)
    monkeypatch.setattr(sys, "path", [*sys.path])
    names: dict = {"__name__": "page", "understudy": understudy}
    for kind, block in BLOCK.findall((ROOT / page).read_text()):
        if kind == "python":
            exec(compile(block, page, "exec"), names)  # noqa: S102
    monkeypatch.delitem(sys.modules, "understudy_policy", raising=False)
    for line in capsys.readouterr().out.splitlines():
        if "≤" in line:
            numbers = [float(one.split()[-1]) for one in line.split("≤")]
            assert len(numbers) >= 2 and numbers == sorted(numbers), line
            assert math.isfinite(numbers[-1]), line


def recipes() -> dict[str, str]:
    """The program of every recipe that has one, by its heading."""
    parts = re.split(r"^## (.*)$", (ROOT / RECIPES).read_text(), flags=re.M)[1:]
    found = {title: BLOCK.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}
    programs = {
        title: [block for kind, block in blocks if kind == "python"] for title, blocks in found.items()
    }
    assert all(len(blocks) <= 1 for blocks in programs.values()), "a recipe is one block"
    return {title.removeprefix("An ").removeprefix("A "): one[0] for title, one in programs.items() if one}


def test_every_kind_of_part_has_a_recipe():
    assert set(PARTS) <= recipes().keys()


@pytest.mark.parametrize(
    "title", [title if title in PARTS else pytest.param(title, marks=pytest.mark.slow) for title in recipes()]
)
def test_a_recipe_runs_by_itself(title, capsys, tmp_path, monkeypatch):
    """Copied out of the page into an empty folder, as a program of its own; its part passes its suite."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(understudy, "imitate", smaller)
    monkeypatch.setattr(understudy.Study, "run", fewer)
    for registry in registries().values():
        monkeypatch.setattr(registry, "makers", dict(registry.makers))
    (tmp_path / "recipe.py").write_text(recipes()[title])
    names = runpy.run_path("recipe.py")
    assert capsys.readouterr().out
    if title in SUITES:
        assert SUITES[title](names).passed


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(script, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(understudy, "imitate", smaller)
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    assert len(capsys.readouterr().out.splitlines()) >= 3
