"""README.md, docs/findings.md and docs/imitate.md: what they repeat from the studies and from each other."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import understudy
from docs import on_atari_now, on_mujoco, on_questions, on_toy
from docs.prose import ROOT
from docs.tables import FAILS, HOLDS, bounds, claims, interval, rows, span, verdicts
from understudy import intervals
from understudy.losses import Squared
from understudy.objectives import batch
from understudy.online import make_game
from understudy.policies import Linear

STATED_FINDINGS = [
    r"mean ± 4\.30 standard errors",
    r"95 %|α = 1\b|rounds of (?:1,000|100)\b|256-256|10,000 interactions|over 60 games|after 100 rounds",
]
STATED_README = [
    r"Python 3\.11 or newer|2022|JAX \(0\.10 and 0\.11\)|a quarter to a half of the labels goes",
    r"Score 0 is random actions, 1 is the expert|labels to 90 %",
    r"seeds from 101 on|over 20 fresh episodes, at the end over 30",
]
STATED_BENCHMARKS = [
    # Measured by benchmarks/students.py.
    r"\| 10[1-5] \| 1[12]\.\d\d \| 1[23]\.\d\d \| 1\.\d\d \||median ratio is 1\.06|torch 2\.13",
    r"128-128 network|ten rounds of 1,000 steps|1,000 steps of Adam a round|seeds 101 to 105",
    r"round 1,000 as in round 10|wheel has 8\.0 MB|95 % interval|after 45 s|β = 0 after round 0",
    r"10, 40 or 100 epochs a round, batches of 32 or 128, Adam's step 1e-3 or 3e-4|of 250 or 1,000 steps",
    r"16 cores \(torch 2\.11, jax 0\.11\.2, numpy 2\.5\), 14 runs at once",
]
STATED_IMITATE = [
    r"1,000 steps of Adam, batch 256, step 1e-3|round 2 \(√t: 3\)|N\(mean, 0\.1²\)",
    r"[Rr]ounds? \d+\b|[αη] = \d+\b(?! D)|10 D(?:/G)?|‖w₂ − w₁‖|α = 10 D",
    r"every 5,000 labels|beyond 2 GiB|a quarter of its memory|beyond 256 MB a column",
    # What a variant that is no longer there gave.
    r"had 0\.33 on at 5,000 labels|\(two seeds, 10 episodes\), AdaFTRL",
]


def script(path: str) -> ModuleType:
    """A file of benchmarks/, as a module."""
    spec = importlib.util.spec_from_file_location(path.rpartition("/")[2], ROOT / f"benchmarks/{path}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SIZES = ("--steps", "--epochs", "--batch")
seeds, against, budgets = script("seeds"), script("peers/against_imitation"), script("budgets")


def imitation() -> list[str]:
    """The lines of the tables against the package imitation."""
    found = rows("imitation/runs").to_dict("records")
    assert {one["seed"] for one in found} == set(seeds.REPORTING)
    return [line for line in against.summary(found) if line and not line.startswith("|---")]


def compared() -> Iterator[str]:
    """What the tables against imitation say in words."""
    found = rows("imitation/runs").to_dict("records")

    def times(side: str, what: str = "labels", ended: bool = True) -> str:
        measured = [x for x in against.ratios(found, side, "default", what) if not np.isnan(x)]
        measured += [] if ended else [np.inf] * (len(seeds.REPORTING) - len(measured))
        return f"{intervals.median(measured).middle:.1f}"

    mine = rows("imitation/runs", side="default")["labels"].to_list()
    labels, seconds = "imitation_labels", "imitation_seconds"
    yield f"| its defaults | {times('imitation')} | {times('imitation', 'seconds')} |"
    yield (
        f"| tuned for labels | {times(labels)} in the seeds that ended in time, "
        f"{times(labels, ended=False)} if the others count as later than those | {times(labels, 'seconds')} |"
    )
    warm = times(seconds, "warm_seconds")
    yield (
        f"| tuned for seconds | {times(seconds)} | {times(seconds, 'seconds')}, and {warm} where our "
        "programs are compiled already |"
    )
    yield (
        f"Our first 1,000 labels are one expert-driven round, which is cloning: in {mine.count(1000)} of "
        f"{len(mine)} seeds that is enough, and cloning alone needs {times('bc')} times the labels."
    )


def tuned() -> Iterator[str]:
    """How the peer was tuned."""
    played = pd.read_csv(against.HERE / "tuning.csv")["seed"].to_list()
    settings = against.grid()
    assert played.count(0) == len(settings)
    count = played.count(1)
    yield f"Seed 0 alone chose, since seed 1 was played for {count} of the {len(settings)} settings only"
    chosen = json.loads(against.TUNED.read_text())
    assert all(one in settings.values() for one in chosen.values())
    assert all({"--normalise", "first", "0.001"} < {*one} for one in chosen.values())
    first, second = ({key: int(one[one.index(key) + 1]) for key in SIZES} for one in chosen.values())
    text = "rounds of {--steps:,}, {--epochs} epochs, batches of {--batch}"
    best = [text.format_map(one) for one in (first, second)]
    yield f"Best for labels: {best[0]}; for seconds: {best[1]}; both with 1e-3"


def scores() -> dict[tuple[str, str], list[str]]:
    """The table of scores in imitate.md: (environment, learner) → cells."""
    lines = re.findall(r"^\| (\S+-v5) \| ([^|]+) \| (.*) \|$", (ROOT / "docs/imitate.md").read_text(), re.M)
    return {(env, learner): cells.split(" | ") for env, learner, cells in lines}


def state_bytes(features: int, outputs: int) -> int:
    """What a linear policy with squared loss keeps between rounds, in float64."""
    with jax.enable_x64(True):
        params = jnp.zeros((features, outputs))
        game = make_game(Linear(), Squared(), understudy.ftl(), "auto", params)
        first = batch(np.ones((5, features)), np.ones((5, outputs)))
        return sum(leaf.nbytes for leaf in jax.tree.leaves(game.init(params, game.empty(params, first, 0))))


def readme() -> Iterator[str]:
    sides = len({one["side"] for one in rows("imitation/runs").to_dict("records")})
    yield from imitation()[: 1 + sides]
    yield from compared()
    runs = budgets.from_csv(ROOT / "docs/figures/budgets/runs.csv")
    assert {run["seed"] for run in runs} <= {*seeds.REPORTING}
    yield from budgets.table(runs).splitlines()[2:]
    shown = [("Hopper-v5", "FTL"), ("Walker2d-v5", "FTL"), ("Walker2d-v5", "Alt-FTRL")]
    for env, learner in shown:
        few, many = scores()[env, learner][:2]
        yield f"| {env} | {learner} | {few} | {many} |"


def benchmarks() -> Iterator[str]:
    yield from imitation()
    yield from compared()
    yield from tuned()
    yield f"and the state has {state_bytes(11, 3):,} bytes (11 features, 3 outputs) throughout"


def imitate() -> Iterator[str]:
    lowest = float(scores()["Walker2d-v5", "FTL"][1].split("(")[1].rstrip(")"))
    assert lowest >= 0.9
    yield "At 25,000 labels FTL is at or above 0.9 on Walker2d-v5 in 5 of 5 seeds"


def theorem() -> Iterator[str]:
    tight = rows("theorem/theorem", case="a path with pits, expert in the class")
    assert (abs(tight["regret"] / tight["bound"] - 1)).max() < 1e-15
    yield "regret is equal to the bound, to 15 digits"
    fork = rows("theorem/theorem", case="a fork where states look alike, expert not in the class").set_index(
        "round"
    )["regret"]
    yield f"from {fork[20]:.1f} after 20 rounds to {fork[40]:.1f} after 40"


def repeated(page: str, *beginnings: str) -> Iterator[str]:
    """Checked sentences of another page that this one says in the same words."""
    modules = {"toy": on_toy, "mujoco": on_mujoco, "questions": on_questions}
    for beginning in beginnings:
        found = [one for one in modules[page].sentences() if one.startswith(beginning)]
        assert len(found) == 1, f"{len(found)} sentences of {page} begin with {beginning!r}"
        yield found[0]


def findings() -> Iterator[str]:
    yield from theorem()
    yield from repeated("toy", "have 0.12", "is shown in 10")
    best = claims("toy", "simple: FTL, FTRL and AdaFTRL beat", "logistic, FTL")["value"].iloc[0]
    yield f"its regret is {best:.0f} times that of the best online learner"
    assert verdicts(claims("toy", "adversarial: FTL is worse"), HOLDS) == 16
    yield f"FTL's regret is {on_toy.ratio('own, round 100, FTRL')} times FTRL's after 100 rounds"
    rewards = claims("gridworld", "OGD and FTRL also earn")["value"]
    yield f"FTL earns {span(100 / rewards - 100)} % more reward"
    untuned = claims("toy", "ours: AdaFTRL untuned")["value"]
    grid = claims("gridworld", "ours: AdaFTRL untuned")["value"]
    yield (
        f"has {span(grid, '.2f')} of tuned FTRL's regret on gridworld, "
        f"and {untuned.min():.1f} to {untuned.max():.0f} times on the toy"
    )
    yield from mujoco()
    yield from atari()
    yield from questions()


def mujoco() -> Iterator[str]:
    who = ("(2) agent-driven: regularised learners", "(6) expert-driven, linear: regularised learners")
    better, match = (
        [one for each in who for one in claims("mujoco", f"{each} {what} FTL", "linear")["verdict"]]
        for what in ("outperform", "match")
    )
    yield f"outperform FTL, as the paper says, in {better.count(HOLDS)} of {len(better)} comparisons"
    assert FAILS not in match and better.count(FAILS) == 2
    yield f"match it (at most 5 % more loss) in {match.count(HOLDS)} of {len(match)}"
    for part, text in (
        ("linear", "FTL's average loss is {:.1f} times FTRL's"),
        ("linear-100", "and {:.1f} times in rounds of 100"),
    ):
        gaps = [1 / one for one in on_mujoco.ratios("ftrl", "ftl", part, "agent")]
        assert gaps[2] == max(gaps)
        yield text.format(gaps[2])
    ours = on_mujoco.ratios("adaftrl", "ftrl", "linear", "agent")
    assert ours[1] < 1 and ours[3] < 1 and ours[0] > 1 and ours[2] > 1
    untuned = [
        100 * one - 100
        for part in ("linear", "linear-100")
        for drive in ("agent", "expert")
        for one in on_mujoco.ratios("adaftrl_untuned", "ftrl", part, drive)
    ]
    yield f"it is {span(untuned)} % above tuned FTRL"
    alt = claims("mujoco", "(2) agent-driven: regularised learners match", "network")
    alt = alt[
        alt["measure"].isin(["alt_ftrl/ftl"]) | alt["setting"].str.contains("absolute, agent-driven, ftrl")
    ]
    below = alt[alt["verdict"] == HOLDS]
    assert (len(alt), len(below), verdicts(alt, FAILS)) == (4, 2, 0) and below["high"].min() > 1
    yield "Alt-FTRL's mean loss is {:.0f} and {:.0f} % below FTL's in two of four settings".format(
        *sorted(100 - 100 * below["value"])
    )
    found = claims("mujoco", "(1)", "network")
    yield f"beat OGD and AdaGrad in {verdicts(found, HOLDS)} of {len(found)} comparisons"


def atari() -> Iterator[str]:
    """The rows of one table: agreement, and shares of the expert's return in both games."""
    offline, games = ["ftl", "ftrl", "adaftrl"], ("pong", "breakout")
    linear, here = rows("atari/summary", policy="linear", learner=offline), "atari/linear"
    low, high = 100 * linear["agreement_least"].min(), 100 * linear["agreement_least"].max()
    shares = [
        rows("atari/summary", policy="linear", learner=offline, game=game)["share_of_expert"]
        for game in games
    ]
    assert f"{shares[0].min():.2f}" == f"{shares[0].max():.2f}" == "1.00"
    yield (
        f"| linear on the expert's features | FTL, FTRL, AdaFTRL | {low:.1f} to {high:.0f} % | 1.00 | "
        f"{span(shares[1], '.2f')} |"
    )
    agreed = [
        100 * one for game in games for one in on_atari_now.last(here, "agreement", game, "adaftrl_untuned")
    ]
    untuned = " | ".join(
        bounds(on_atari_now.shared(here, game, "adaftrl_untuned")[:3], ".2f") for game in games
    )
    yield f"| linear | AdaFTRL untuned | {span(agreed)} % | {untuned} |"
    for learner, name in (("ogd", "OGD"), ("adagrad", "AdaGrad")):
        means = " | ".join(f"{on_atari_now.shared(here, game, learner).middle:.2f}" for game in games)
        yield f"| linear | {name} | not stated | {means} |"
    both = [(f"atari/{game}-nature_cnn", game, learner) for game in games for learner in offline]
    agreed = [100 * x for here, game, one in both for x in on_atari_now.last(here, "agreement", game, one)]
    for learner, name in zip(offline, ("FTL", "FTRL", "AdaFTRL"), strict=True):
        parts = [rows(f"{here}/summary", learner=one).iloc[0] for here, _, one in both if one == learner]
        returns = " | ".join(f"{one['return'] / one['expert_return']:.2f}" for one in parts)
        yield f"| NatureCNN, end to end | {name} | {span(agreed)} % (all three) | {returns} |"


def questions() -> Iterator[str]:
    costs = claims("questions", "1. few GD steps cost", "-v5 by")["value"]
    batches = claims("questions", "1. minibatch solves cost", "-v5 by")
    smooth = batches[~batches["setting"].str.contains("sls")]["value"]
    yield (
        f"cost {span(100 * costs - 100)} % more regret, and minibatches of Adam and proximal SGD "
        f"{span(smooth, '.1f')} times as much"
    )
    tenth = claims("questions", "2. a reservoir of a tenth")
    real = tenth[tenth["setting"].str.contains("-v5")]["value"]
    toy = tenth[tenth["setting"] == "FTL on adversarial toy"]["value"].iloc[0]
    yield (
        f"A reservoir of a tenth of the samples costs {span(100 * real - 100)} %. On the adversarial toy "
        f"it costs FTL {toy:,.0f} times its regret"
    )
    window = claims("questions", "2. a window of a tenth")
    good = window[window["setting"].str.contains("-v5") & (window["high"] < 1)]
    assert list(good["setting"]) == ["FTL on Hopper-v5", "FTL on Walker2d-v5", "FTRL on Walker2d-v5"]
    yield f"for FTRL on Walker2d ({good['value'].iloc[2]:.2f} of the regret)"
    yield (
        f"for FTRL on Hopper it cannot be told ({interval(window[window['setting'] == 'FTRL on Hopper-v5'])})"
    )
    plain = 100 * claims("questions", "5. AdaFTRL untuned")["value"] - 100
    yield f"untuned has {span(plain)} % more regret than FTRL at its best step"


def scores_in_mujoco() -> str:
    """The one sentence of mujoco.md that is about the scores."""
    hopper, walker = scores()["Hopper-v5", "FTL"][0].split()[0], scores()["Walker2d-v5", "FTL"][1].split()[0]
    return f"scores {hopper} on Hopper after 5,000 labels and {walker} on Walker2d after 25,000"
