"""The tables of a study: CSV and Parquet say the same, and other tools read them."""

from __future__ import annotations

import math

import pytest

from understudy.runs import NAMES
from understudy.studies import Result, Study
from understudy.studies import folder as tables


def fake(loss: float, rounds: int, error: str | None = None) -> Result:
    words = ("solver_status", "comparator_status")
    row = {name: "converged" if name in words else math.nan for name in NAMES}
    rows = [{**row, "round": t, "loss": loss / t, "bound": math.inf} for t in range(1, rounds + 1)]
    return Result(rows, {"average_loss": loss, "rounds": rounds, "bound": math.inf}, error, {})


@pytest.fixture
def made():
    study = Study(
        "CartPole-v1", grid={"learner": ["ftl", "ftrl"], "step": [0.1], "loss": ["cross-entropy"]}, seeds=2
    )
    results = [fake(0.1 + i, 3 - (i == 1), "round 3: it broke." if i == 1 else None) for i in range(4)]
    return study.runs, results


def test_one_row_per_run_and_round_with_clashing_names_told_apart(made):
    rounds, runs = tables.tabulate_rounds(*made), tables.tabulate_runs(*made)
    assert rounds["round"] == [1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 3]
    assert rounds["loss_setting"] == ["cross-entropy"] * 11
    assert rounds["loss"][:3] == [0.1, 0.05, 0.1 / 3]
    assert runs["error"] == ["", "round 3: it broke.", "", ""]
    assert runs["step"] == [None, None, 0.1, 0.1]


def test_pandas_reads_back_what_was_written(tmp_path, made):
    pandas = pytest.importorskip("pandas")
    columns = tables.tabulate_rounds(*made)
    tables.write_tables(tmp_path, results=columns)
    read = [pandas.read_csv(tmp_path / "results.csv", keep_default_na=True)]
    if (tmp_path / "results.parquet").exists():
        read.append(pandas.read_parquet(tmp_path / "results.parquet"))
    for frame in read:
        assert list(frame.columns) == list(columns)
        assert frame["loss"].tolist() == columns["loss"]
        assert frame["step"].isna().tolist() == [one is None for one in columns["step"]]
        assert frame["bound"].tolist() == [math.inf] * 11
        assert frame["round"].dtype == "int64"
        assert frame["regret"].isna().all()


def test_duckdb_reads_both(tmp_path, made):
    duckdb = pytest.importorskip("duckdb")
    tables.write_tables(tmp_path, results=tables.tabulate_rounds(*made))
    for name in ("results.csv", "results.parquet"):
        query = (
            f"select learner, count(*), sum(loss), max(step) from '{tmp_path / name}' group by 1 order by 1"
        )
        rows = duckdb.sql(query).fetchall()
        assert [(row[0], row[1], row[3]) for row in rows] == [("ftl", 5, None), ("ftrl", 6, 0.1)]
        assert rows[0][2] == pytest.approx(0.1 * (1 + 1 / 2 + 1 / 3) + 1.1 * 1.5)


def test_the_same_numbers_give_the_same_bytes(tmp_path, made):
    for folder in ("one", "two"):
        tables.write_tables(tmp_path / folder, a=tables.tabulate_runs(*made))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
