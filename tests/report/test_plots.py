"""Plots: the numbers that are drawn, the same bytes twice, and no global state."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from understudy.regret import Ledger
from understudy.report import plots
from understudy.report.style import LOOKS, look, style


def ledger(bound: float = 20.0) -> Ledger:
    rounds = np.arange(1, 11)
    return Ledger(
        {
            "round": rounds,
            "regret": np.sqrt(rounds),
            "bound": np.linspace(1.0, bound, 10),
            "average_loss": 1.0 / rounds,
        }
    )


def test_band_draws_the_mean_and_the_quantiles():
    runs = np.random.default_rng(0).normal(size=(40, 3))
    with style():
        _, [[axes]] = plots.figure()
        plots.band(axes, [1, 2, 3], runs, name="ftl")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), runs.mean(axis=0))
    corners = axes.collections[0].get_paths()[0].vertices
    for column in range(3):
        heights = corners[corners[:, 0] == column + 1, 1]
        np.testing.assert_allclose(
            [heights.min(), heights.max()], np.quantile(runs[:, column], [0.05, 0.95]), rtol=1e-6
        )


def test_band_of_one_run_has_no_band_and_gaps_are_left_out():
    with style():
        _, [[axes]] = plots.figure()
        plots.band(axes, [1, 2, 3], [1.0, np.nan, 3.0], name="ftl")
    assert len(axes.collections) == 0
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [1, 3])


def test_every_learner_has_its_own_look():
    assert len({drawn.colour for drawn in LOOKS.values()}) == len(LOOKS)
    assert look("alt-ftrl") == look("alt_ftrl")
    assert look("a_module:mine").label == "a_module:mine"


def test_regret_draws_each_ledger_in_its_colour_and_tells_a_bound_out_of_sight():
    made = plots.regret({"ftl": ledger(), "ogd": ledger(bound=1e6)})
    left, right = made.axes
    solid = [line for line in left.lines if len(line.get_xdata()) == 10 and line.get_linestyle() != ":"]
    assert [to_hex(line.get_color()).upper() for line in solid] == [LOOKS["ftl"].colour, LOOKS["ogd"].colour]
    np.testing.assert_array_equal(solid[0].get_ydata(), ledger()["regret"])
    np.testing.assert_array_equal(right.lines[1].get_ydata(), ledger()["average_loss"])
    texts = [text.get_text() for text in left.get_legend().get_texts()]
    assert texts == ["FTL", "OGD", "certified bound (out of sight for OGD: 1e+06)"]
    assert left.get_ylim()[1] < 100


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        plots.save(plots.regret({"ftrl": ledger()}), tmp_path / f"{name}.png", tmp_path / f"{name}.svg")
    for ending in ("png", "svg"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_settings_come_back_and_pyplot_is_not_imported():
    before = dict(matplotlib.rcParams)
    plots.regret({"ftl": ledger()})
    assert dict(matplotlib.rcParams) == before
    program = "import sys, understudy.report.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
