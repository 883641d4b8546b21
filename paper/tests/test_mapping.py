"""Mapped runs: which runs, which programs, the same numbers by every method, tidy tables."""

from __future__ import annotations

import gzip

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.mapping import METHODS, Table, grid, map_runs, write_csv
from understudy.errors import UserError


def walk(key, eta, offset=0.0):
    noise = jax.random.normal(key, (4,), jnp.result_type(float))
    return {"path": offset + eta * jnp.cumsum(noise), "end": eta * jnp.sum(noise)}


def solve(key, target):
    """A data-dependent loop, as solvers have."""
    start = 1.0 + jax.random.uniform(key, (), jnp.result_type(float))
    end = jax.lax.while_loop(
        lambda x: jnp.abs(x * x - target) > 1e-12 * target, lambda x: 0.5 * (x + target / x), start
    )
    return {"root": end}


def test_grid_is_the_product_with_labels_beside_values():
    made = grid(a=[1, 2], b={"x": (0.0, 1.0), "y": (2.0, 3.0)})
    assert [config.labels for config in made] == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip
    assert made[1].values == {"a": 1, "b": (2.0, 3.0)}


def word(key, of):
    return {"letters": jnp.zeros(len(of))}


def more(key, of):
    return dict.fromkeys(of, jnp.zeros(()))  # the second run has a result that the first one lacks


def test_an_axis_may_have_any_name():
    assert map_runs(lambda key, data: {"twice": 2 * data}, {"data": [1.0, 3.0]})["twice"].tolist() == [
        2.0,
        6.0,
    ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: grid(), "at least one named axis"),
        (lambda: grid(eta=[]), "eta: the axis is empty"),
        (lambda: grid(eta=0.1), "eta: expected a sequence"),
        (lambda: grid(eta=[object()]), "eta: .* has no label"),
        (lambda: map_runs(walk, []), "configs: the list is empty"),
        (lambda: map_runs(walk, [{"eta": 1.0}]), "configs: .* is not a configuration"),
        (lambda: map_runs(walk, {"eta": [1.0]}, method="vamp"), "did you mean 'vmap'"),
        (lambda: map_runs(walk, {"eta": [1.0]}, seeds=0), "seeds: 0"),
        (lambda: map_runs(walk, {"eta": [1.0]}, workers=0), "workers: 0"),
        (lambda: map_runs(walk, {"seed": [1.0]}), "none of them 'seed'"),
        (lambda: map_runs(lambda key, eta: eta, {"eta": [1.0]}), "run: expected a dict"),
        (lambda: map_runs(lambda key, eta: {"eta": eta}, {"eta": [1.0]}), "run: 'eta' names a column"),
        (lambda: map_runs(lambda key, eta: {"seed": eta}, {"eta": [1.0]}), "run: 'seed' names a column"),
        (lambda: map_runs(word, {"of": ["a", "bc"]}), "run: every configuration must give the same results"),
        (lambda: map_runs(more, {"of": ["a", "ab"]}), "run: every configuration must give the same results"),
        (lambda: map_runs(walk, {"eta": [1.0]}, seed=-1), "seed: -1"),
        (lambda: map_runs(walk, {"eta": [1.0]}, seeds=[0, 2**32]), "seeds: 4294967296 is too large"),
        (lambda: Table({"a": [1]}, {"b": np.zeros((1, 2, 2))}).long(), "long: results must be numbers or"),
        (lambda: Table({"round": [7]}, {"b": np.zeros((1, 2))}).long(), "long: 'round' numbers the elements"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_the_same_seed_gives_every_configuration_the_same_key():
    table = map_runs(walk, {"eta": [1.0, 3.0]}, seeds=3)
    np.testing.assert_allclose(table.where(eta=3.0)["path"], 3 * table.where(eta=1.0)["path"])
    assert not np.allclose(table.where(seed=0)["path"], table.where(seed=1)["path"])
    again = map_runs(walk, {"eta": [3.0]}, seeds=[1])
    np.testing.assert_array_equal(again["path"], table.where(eta=3.0, seed=1)["path"])
    other = map_runs(walk, {"eta": [3.0]}, seeds=[1], seed=7)
    assert not np.allclose(other["path"], again["path"])


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_way_equals_serial(method):
    # 70 runs: more than one block, the last one not full.
    configs = grid(eta=np.linspace(0.1, 1.0, 35).tolist())
    reference = map_runs(walk, configs, seeds=2, method="serial")
    table = map_runs(walk, configs, seeds=2, method=method, workers=2)
    assert table["path"].dtype == np.float64
    np.testing.assert_allclose(table["path"], reference["path"], rtol=0, atol=1e-12)
    roots = map_runs(solve, {"target": [2.0, 9.0, 1e6]}, seeds=3, method=method, workers=2)
    np.testing.assert_allclose(roots["root"] ** 2, roots["target"], rtol=1e-11)


def test_the_number_of_workers_changes_no_bit():
    a, b = (
        map_runs(solve, {"target": [2.0, 3.0, 5.0]}, seeds=4, method="threads", workers=n) for n in (1, 3)
    )
    np.testing.assert_array_equal(a["root"], b["root"])


def factor(key, eta):
    return {"size": eta * jnp.linalg.svd(jax.random.normal(key, (3, 3)), compute_uv=False)[0]}


def test_it_chooses_by_what_the_program_is_made_of_and_says_why():
    free = map_runs(walk, {"eta": [1.0]}).info["methods"][0]
    looping = map_runs(solve, {"target": [2.0]}).info["methods"][0]
    factored = map_runs(factor, {"eta": [1.0]}).info["methods"][0]
    assert (free["method"], looping["method"], factored["method"]) == ("vmap", "threads", "threads")
    assert "no loop" in free["why"] and "loops until" in looping["why"] and "decomp" in factored["why"]


def test_numbers_share_a_program_and_static_parts_do_not():
    class Shift(eqx.Module):
        by: float
        twice: bool = eqx.field(static=True, default=False)

    traced = []

    def run(key, shift):
        traced.append(shift.twice)
        return {"value": shift.by * (2.0 if shift.twice else 1.0)}

    axes = {"shift": {"a": Shift(1.0), "b": Shift(2.0), "c": Shift(3.0, True)}}
    table = map_runs(run, axes, seeds=2, method="serial")
    assert table.info["programs"] == 2 and sorted(traced) == [False, True]
    assert table["value"].tolist() == [1.0, 1.0, 2.0, 2.0, 6.0, 6.0]
    map_runs(run, axes, seeds=5, method="serial")
    assert len(traced) == 2  # compiled once, however often it is mapped


def test_progress_counts_runs():
    seen = []
    map_runs(
        walk,
        {"eta": [1.0, 2.0]},
        seeds=2,
        method="serial",
        progress=lambda done, labels: seen.append((done, labels["eta"])),
    )
    assert seen == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]


def test_an_error_in_a_run_reaches_the_caller():
    def broken(key, eta):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        map_runs(broken, {"eta": [1.0]}, method="threads")


def test_single_precision_on_request():
    assert map_runs(walk, {"eta": [1.0]}, double=False)["path"].dtype == np.float32


def test_the_table_is_tidy_and_the_same_bytes_twice(tmp_path):
    table = map_runs(walk, grid(eta=[0.5, 2.0]), seeds=2)
    for name in ("a.csv", "b.csv", "a.csv.gz", "b.csv.gz"):
        write_csv(tmp_path / name, table.long())
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    text = (tmp_path / "a.csv").read_text()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode() == text
    lines = text.splitlines()
    assert lines[0] == "eta,seed,round,end,path" and len(lines) == 1 + 4 * 4
    first = lines[1].split(",")
    assert first[:3] == ["0.5", "0", "1"] and float(first[4]) == pytest.approx(table["path"][0, 0], rel=1e-9)
    assert not list(tmp_path.glob("*.tmp"))


def test_where_and_unknown_columns():
    table = Table({"eta": np.array([0.1, 0.2])}, {"loss": np.array([1.0, 2.0])})
    assert table.where(eta=0.2)["loss"].tolist() == [2.0]
    mixed = Table({"eta": [0.1, "auto"]}, {"loss": [1.0, 2.0]})  # NumPy alone would have '0.1' and 'auto'
    assert [mixed.where(eta=one)["loss"].tolist() for one in (0.1, "auto")] == [[1.0], [2.0]]
    with pytest.raises(UserError, match=r"no run has eta=0\.3"):
        table.where(eta=0.3)
    with pytest.raises(UserError, match="did you mean 'loss'"):
        table["lss"]


def test_write_csv_keeps_the_digits_asked_for(tmp_path):
    write_csv(tmp_path / "x.csv", {"name": np.array(["a"]), "value": np.array([1 / 3])}, digits=4)
    assert (tmp_path / "x.csv").read_text() == "name,value\na,0.3333\n"
