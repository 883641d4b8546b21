"""Programs kept between processes: same bytes, fewer compilations, and no folder that breaks a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from understudy import machine
from understudy.cli import main

PROGRAM = """
import json, sys, types
from jax import monitoring

nothing = lambda *_, **__: None
sys.modules["understudy.report.plots"] = types.SimpleNamespace(regret=nothing, save=nothing)  # takes a second

counts = {"compiled": 0, "found": 0}
def count(name, **_):
    counts["found"] += name == "/jax/compilation_cache/cache_hits"
    counts["compiled"] += name == "/jax/compilation_cache/cache_misses"
monitoring.register_event_listener(count)
import jax
from understudy.cli import main

out, place, *arguments = sys.argv[1:]
if not place:  # first without a cache, which neither importing nor replaying sets up
    import numpy, understudy
    given = numpy.load(arguments[1])
    understudy.replay(list(zip(given["X"], given["Y"])), learner=understudy.ogd(eta=0.1))
    assert main([*arguments, "--no-cache", "--out", out + "-without"]) == 0
    assert jax.config.jax_compilation_cache_dir is None and not any(counts.values())
    jax.clear_caches()
code = main([*arguments, "--out", out])
print(json.dumps(counts | {"code": code}), file=sys.stderr)
if place:  # once more, with every file of the cache cut in half
    from pathlib import Path
    for file in Path(place).iterdir():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    jax.clear_caches()
    assert main([*arguments, "--out", out + "-broken"]) == 0
"""


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("cache") / "stream.npz"
    np.savez(path, X=rng.normal(size=(3, 4, 2)), Y=rng.normal(size=(3, 4, 1)))
    return path


ARGUMENTS = ["--learner", "ogd", "--eta", "0.1"]


def run(stream: Path, out: Path, cut: Path | str = "", **environment: str) -> dict:
    """`understudy replay` in a process of its own: what it counted, and its ledger. Without `cut` it replays
    without a cache before; with `cut`, a folder of programs, it damages them afterwards and replays again.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "UNDERSTUDY_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out), str(cut), "replay", str(stream), *ARGUMENTS],
        env=kept | {"JAX_PLATFORMS": "cpu"} | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    last = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))
    assert last["code"] == 0 and "Warning" not in done.stderr
    return last | {"ledger": (out / "ledger.csv").read_text()}


@pytest.mark.slow
def test_the_second_run_compiles_nothing_and_a_broken_cache_changes_nothing(stream, tmp_path):
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    first = run(stream, tmp_path / "1", **home)
    (place,) = (tmp_path / "xdg" / "understudy").glob("programs-*")
    assert first["compiled"] > 0 and any(place.iterdir())
    second = run(stream, tmp_path / "2", cut=place, **home)
    assert second["compiled"] == 0 and second["found"] > 0
    broken = (tmp_path / "2-broken" / "ledger.csv").read_text()
    without = (tmp_path / "1-without" / "ledger.csv").read_text()
    assert first["ledger"] == second["ledger"] == broken == without


def test_a_folder_that_is_none_means_no_cache(stream, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(file))
    place = jax.config.jax_compilation_cache_dir
    assert main(["replay", str(stream), *ARGUMENTS, "--out", str(tmp_path / "1")]) == 0
    before = dict(os.environ)
    assert machine.use_cache(file) is None and machine.use_cache() is None
    assert jax.config.jax_compilation_cache_dir == place
    for word in ("off", "0", "", " None "):
        monkeypatch.setenv("UNDERSTUDY_CACHE", word)
        assert machine.use_cache() is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "mine"))
    assert machine.use_cache() == tmp_path / "mine"  # JAX's own variable is the user's
    assert {k: v for k, v in os.environ.items() if "CACHE" not in k} == {
        k: v for k, v in before.items() if "CACHE" not in k
    }


def test_the_oldest_programs_go_first(tmp_path):
    for i in range(8):
        (tmp_path / str(i)).write_bytes(bytes(100))
        os.utime(tmp_path / str(i), (i, i))
    machine._prune(tmp_path, 800)
    assert len(list(tmp_path.iterdir())) == 8
    machine._prune(tmp_path, 700)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3", "4", "5", "6", "7"]


@pytest.mark.parametrize(
    ("system", "variables", "wanted"),
    [
        ("linux", {}, "~/.cache/understudy"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/understudy"),
        ("darwin", {}, "~/Library/Caches/understudy"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/understudy"),
    ],
)
def test_where_the_platform_keeps_such_things(system, variables, wanted, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert machine._platform_folder() == Path(wanted)


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", machine.VARIABLE, "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert machine.use_cache() is None
