"""The book of samples: in memory, in files and mapped it says the same."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from compiled import PLAIN
from quick import SIZE
from runs.pieces import resumed
from understudy import RunSpec, UserError, imitate
from understudy.parts import make_parts
from understudy.runs import spaces_of
from understudy.samples import log as samples

NETWORK = SIZE | {"widths": (8,), "episodes": 1, "expert_episodes": 0, "comparator_steps": 20}
SHORT = {"solver_options": {"max_iterations": 30}}


@pytest.mark.bits
@pytest.mark.parametrize("env", ["Hopper-v5", "CartPole-v1"])
def test_mapped_samples_give_the_same_run_as_samples_in_memory(env, tmp_path):
    if PLAIN and env == "Hopper-v5":
        pytest.skip("the last bits of two programs, which Hopper magnifies: make test-slow")
    inside = imitate(env, **NETWORK, **SHORT)
    outside = imitate(env, memory_limit=0, **NETWORK, **SHORT)
    kept = imitate(env, memory_limit=0, out=tmp_path / "run", **NETWORK, **SHORT)
    assert inside.ledger.to_csv() == outside.ledger.to_csv() == kept.ledger.to_csv()
    for name in ("inputs", "targets", "executed", "rewards", "flags", "slots"):
        column = inside.samples(name)
        assert len(column) == 120
        assert column.tobytes() == outside.samples(name).tobytes() == kept.samples(name).tobytes()
    assert isinstance(outside.samples("inputs"), np.memmap)


def test_on_an_accelerator_samples_stay_in_its_memory(monkeypatch):
    """Up to a quarter of it, where nobody says otherwise: here it has 64 GiB, and the machine 40."""
    assert samples.room(2 << 30) == 2 << 30
    device = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 64 << 30})
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(samples, "total_memory", lambda: 40 << 30)
    assert (samples.room(2 << 30), samples.room(1 << 30)) == (10 << 30, 1 << 30)


def test_samples_beside_a_limited_memory_are_in_files_where_they_are_many():
    spec = RunSpec(env="CartPole-v1", memory="window:2", **NETWORK)
    for limit, files in ((0, True), (1 << 20, False)):
        made = make_parts(spaces_of(spec), spec.replace(memory_limit=limit))
        log = samples.storage(made)
        assert log.mapped and (log.folder is not None) == files


def test_a_mapped_run_is_resumed(tmp_path):
    options = NETWORK | {"comparator": "none"} | SHORT
    resumed(partial(imitate, "CartPole-v1", memory_limit=0, **options), tmp_path, 2)


def test_statistics_do_not_care_how_many_samples_there_are():
    options = SIZE | {"policy": "linear", "episodes": 1, "expert_episodes": 0}
    assert (
        imitate("Pendulum-v1", memory_limit=0, **options).ledger.to_csv()
        == imitate("Pendulum-v1", **options).ledger.to_csv()
    )


def test_a_solver_that_reads_everything_is_not_given_files():
    with pytest.raises(UserError, match=r"memory_limit: .* reads them all at once"):
        imitate("CartPole-v1", policy="linear", memory_limit=0, **SIZE)


def test_samples_follow_the_round_that_made_them():
    run = imitate("Pendulum-v1", policy="linear", budget=105, episodes=0, expert_episodes=0, **SIZE)
    assert run.ledger["samples"].tolist() == [40, 40, 25]
    assert run.ledger["labels"].tolist() == [40, 80, 105]
    assert run.samples("inputs").shape == (105, 3) and run.samples("executed").shape == (105, 1)
    with pytest.raises(UserError, match=r"samples column: unknown value 'labels'"):
        run.samples("labels")


def test_a_search_that_reads_all_samples_at_once_is_refused_before_any_label_is_paid():
    asked = {"policy": "linear", "loss": "absolute", "solver": "adam", "batch_size": 8, "memory_limit": 10}
    with pytest.raises(UserError, match=r"^memory_limit: .* best in hindsight reads .* comparator none\.$"):
        imitate("Pendulum-v1", expert=lambda seen: pytest.fail("a label was asked for"), **asked, **SIZE)
