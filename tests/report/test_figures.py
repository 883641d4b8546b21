"""One figure of a study: what is drawn, that equal runs make equal bytes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from quick import SIZE
from understudy import Study, UserError, write_plot
from understudy.cli import main
from understudy.report import figures, plots


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two learners and two seeds, and a return in every round."""
    place = tmp_path_factory.mktemp("studies") / "cart"
    looks = {"evaluate_every": 1, "episodes": 2, "comparator": "none"}
    grid = {"learner": ["ftl", "ftrl"]}
    done = Study("CartPole-v1", seeds=2, policy="linear", grid=grid, **looks, **SIZE).run(
        place, engine="inline"
    )
    return place, done


def drawn(monkeypatch, *arguments, **options):
    """The axes of the figure that is written."""
    kept = []
    monkeypatch.setattr(figures.plots, "save", lambda made, *paths: kept.append(made))
    write_plot(*arguments, **options)
    return kept[0].axes


def test_the_curve_is_the_mean_over_seeds_within_their_quantiles(study, monkeypatch, tmp_path):
    place, done = study
    [axes] = drawn(monkeypatch, place, out=tmp_path / "a.pdf")
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"FTL", "FTRL", "expert"}
    assert axes.get_title(loc="left") == "CartPole-v1"
    bands = [shape.get_paths()[0].vertices for shape in axes.collections]
    spread = []
    for name, learner in (("FTL", "ftl"), ("FTRL", "ftrl")):
        runs = np.array(
            [
                [(row["labels"], row["return_mean"]) for row in result.rows]
                for entry, result in done
                if entry.labels["learner"] == learner
            ]
        )
        assert len(runs) == 2
        np.testing.assert_allclose(lines[name].get_xdata(), runs[0, :, 0])
        np.testing.assert_allclose(lines[name].get_ydata(), runs[:, :, 1].mean(axis=0), rtol=1e-6)
        spread.append(np.quantile(runs[:, -1, 1], [0.05, 0.95]).tolist())
    ends = [band[band[:, 0] == band[:, 0].max(), 1] for band in bands]
    np.testing.assert_allclose(sorted([end.min(), end.max()] for end in ends), sorted(spread), rtol=1e-6)
    assert max(high - low for low, high in spread) > 1, "or nothing was compared"
    assert lines["expert"].get_ydata()[0] == pytest.approx(done.summary["expert_return"][0])


def test_the_same_runs_are_the_same_bytes(study, tmp_path, capsys):
    place, _ = study
    for name in ("a.pdf", "b.pdf"):
        assert main(["plot", str(place), "--x", "labels", "--y", "return", "-o", str(tmp_path / name)]) == 0
    first, second = ((tmp_path / name).read_bytes() for name in ("a.pdf", "b.pdf"))
    assert first == second and first.startswith(b"%PDF")
    assert "return against labels" in capsys.readouterr().out


def test_runs_without_a_common_place_are_said_to_be_left_out(study, monkeypatch, tmp_path):
    """Seconds of two runs need not meet: then one of them is drawn, under a name that says so."""
    with plots.panels([0], [0]) as (_, [(axes, _, _)]):
        curve = {"x": [1.0, 2.0], "middle": [0.0, 1.0], "runs": 1}
        figures._draw(axes, figures.look("ftl"), curve, 3)
    assert axes.lines[0].get_label() == "FTL (1 of 3 runs)"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"x": "label"}, "x: unknown value 'label', did you mean 'labels'?"),
        ({"y": "returns"}, "y: unknown value 'returns', did you mean 'return'?"),
        ({"out": "a.html"}, r"out: 'a.html' must end in .pdf, .png or .svg"),
        ({"x": "seconds"}, r"y: no run in .*cart has kept its return along seconds"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(options, sentence, study):
    with pytest.raises(UserError, match=sentence):
        write_plot(study[0], **options)
