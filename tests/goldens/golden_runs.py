"""The golden runs, as data, and the stable doors they go through: `understudy.imitate(**settings)` and the
command line. Both trees of a comparison play them, so nothing internal may be named here.

A run is a list of steps, played one after the other in a folder of its own, to which all paths are relative:

- a dict: the settings of `understudy.imitate`; "out" is "run" unless it is said ("out": None keeps nothing);
- a list: the words of the command `understudy`, of which what `--json` prints is kept.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

RENAMED: dict[str, str] = {}
"""Settings that have another name in older trees: from the name of now, which the runs below have, to the old
one, as in {"max_iterations": "steps"}. A tree whose `imitate` does not take the new name is given the old.
"""

Step = dict[str, Any] | list[str]


@dataclasses.dataclass(frozen=True)
class Run:
    """One golden run.

    group: runs of a group are played in one process, one after the other, and share what they compile.
    dies: after how many calls of "step" (environment), "ask" (expert) or "round" (progress) the process is
    killed, once for each number; then the step under way is played again, and goes on from its folder.
    hand: how a person on the page acts, see `play.HANDS`; keys: what they type in the terminal.
    fails: steps that end with an error, by number, with the beginning of its sentence. needs: modules without
    which the run is left out.
    """

    name: str
    group: str
    steps: list[Step]
    dies: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    hand: str | None = None
    keys: str | None = None
    fails: dict[int, str] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()


SIZE = {"rounds": 3, "steps_per_round": 40, "episodes": 2, "expert_episodes": 0}
ROOM = SIZE | {"env": "world:Room-v0", "expert": "world:room"}
POLE = SIZE | {"env": "CartPole-v1", "expert": "lqr-CartPole-v1"}
THUMB = POLE | {"expert": "world:pole"}
LAKE = SIZE | {"env": "FrozenLake-v1", "policy": "tabular"}
FEW = {"max_iterations": 20, "comparator": "none"}
MLP = {"policy": "mlp", "widths": (8,)} | FEW
GRU = {"policy": "gru", "policy_options": {"width": 4, "widths": (4,), "length": 4, "burn": 2}} | FEW
CUE = SIZE | {"env": "world:Cue-v0", "expert": "world:sign", "expert_sees": "info:sign", "num_envs": 2}
DOTS = SIZE | {"env": "world:Dots-v0", "expert": "world:dots", "policy": "nature_cnn", "batch_size": 8} | FEW
DOTS |= {"max_iterations": 4, "policy_options": {"width": 16}}
PARTS = SIZE | {"env": "world:Parts-v0", "expert": "world:parts"}
VIEW = SIZE | {"env": "world:View-v0", "expert": "world:view", "policy": "camera", "widths": (8,)} | FEW
DRIFT = SIZE | {
    "env": "world:drift",
    "expert": "world:back",
    "num_envs": 8,
    "steps_per_round": 48,
    "comparator_steps": 0,
}
PONG = SIZE | {"env": "ALE/Pong-v5", "steps_per_round": 24, "episodes": 1, "episode_limit": 20}
PONG |= {"rounds": 2, "comparator": "none"}
LINEAR = {"policy": "linear"}
HERE = ["--rounds", "3", "--steps-per-round", "40", "--episodes", "2", "--expert-episodes", "0", "--json"]
TYPED = ["train", "world:Room-v0", "--expert", "world:room", "--policy", "linear", *HERE]
STUDY = ["sweep", "world:Room-v0", "--expert", "world:room", "--policy", "linear", "--rounds", "2"]
STUDY += ["--steps-per-round", "20", "--episodes", "1", "--seeds", "2", "--out", "study", "--json"]
ASKED = ["train", "CartPole-v1", "--policy", "linear", "--loss", "squared", "--episodes", "1", "--out", "run"]
ASKED += ["--comparator", "none", "--json"]


def _each(group: str, base: dict[str, Any], **changes: dict[str, Any]) -> list[Run]:
    """Runs of one step, by name; _ in a name is -."""
    return [Run(name.replace("_", "-"), group, [base | own]) for name, own in changes.items()]


LEARNERS = [
    *_each(
        "learners",
        ROOM | LINEAR,
        room_ftl={},
        room_ftrl={"learner": "ftrl", "eta": 0.5},
        room_alt={"learner": "alt_ftrl", "eta": 0.5},
        room_adaftrl={"learner": "adaftrl", "alpha": 2.0, "comparator": "every"},
        room_ogd={"learner": "ogd", "eta": 0.3},
        room_adagrad={"learner": "adagrad", "alpha": 0.5, "diagonal": True},
        room_bc={"learner": "bc"},
        room_ball={"learner": "ftrl", "eta": 0.5, "radius": 0.7, "comparator": "1,3"},
        room_constant={"learner": "ftrl", "eta": 0.2, "schedule": "constant", "start": 2},
        room_paper={"preset": "paper", "learner": "adaftrl"},
        room_average={"average": 2, "seed": 4},
        room_best={
            "keep_best": True,
            "evaluate_every": 1,
            "learner": "ogd",
            "eta": 0.3,
            "expert_episodes": 2,
        },
        room_lbfgs={"solver": "lbfgs", "learner": "adaftrl"},
        room_descent={"solver": "gd", "learner": "adaftrl", "max_iterations": 15},
    ),
    *_each(
        "losses",
        ROOM | LINEAR,
        room_absolute={"loss": "absolute"},
        room_absolute_adaftrl={"loss": "absolute", "learner": "adaftrl"},
        room_absolute_ogd={"loss": "absolute", "learner": "ogd", "eta": 0.3},
        room_huber={"loss": "huber", "loss_options": {"delta": 0.2}, "learner": "adaftrl"},
    ),
    *_each(
        "choices",
        POLE | LINEAR,
        pole_ftl={},
        pole_adaftrl={"learner": "adaftrl", "label_kind": "action"},
        pole_adagrad={"learner": "adagrad", "alpha": 0.5},
        pole_paper={"preset": "paper", "learner": "alt_ftrl", "eta": 1.0},
        pole_binary={"loss": "binary-cross-entropy", "learner": "adaftrl"},
        pole_squared={"loss": "squared", "standardise": False},
        pole_newton={"solver": "newton", "learner": "ftrl", "eta": 3.0},
        pole_samples_nothing_kept={"out": None},
    ),
    *_each(
        "choices",
        LAKE,
        lake_ftl={},
        lake_adaftrl={"learner": "adaftrl", "noise": 1.0},
    ),
]

NETWORKS = [
    *_each(
        "networks",
        ROOM | MLP,
        room_mlp={},
        room_mlp_adaftrl={"learner": "adaftrl"},
        room_mlp_ogd={"learner": "ogd", "eta": 0.1},
        room_mlp_paper={"preset": "paper", "learner": "ftrl", "eta": 1.0},
        room_mlp_searched={"comparator": "last", "comparator_steps": 30},
        room_mlp_adam={"solver": "adam", "weight_decay": 0.1, "lasso": 0.05, "learning_rate": 0.01},
        room_mlp_sls={"solver": "sls", "batch_size": 16},
        room_mlp_proximal={"solver": "proximal-sgd", "learner": "adaftrl", "batch_size": 16},
        room_mlp_budget={"budget": 60, "rounds": None, "ask": "random:10", "ensemble": 2, "seed": 1},
        room_mlp_mapped={"memory_limit": 0, "solver": "adam", "batch_size": 16},
    ),
    *_each(
        "networks",
        POLE | MLP,
        pole_mlp={},
        pole_mlp_tanh={"policy_options": {"activation": "tanh"}, "learner": "adaftrl"},
    ),
    Run("mlp-from-a-run", "networks", [ROOM | MLP | {"out": "first"}, ROOM | MLP | {"init": "first"}]),
    *_each(
        "recall",
        CUE,
        cue_gru=GRU,
        cue_gru_window=GRU | {"memory": "window:2", "comparator_steps": 0},
        cue_gru_reservoir=GRU | {"memory": "reservoir:30", "comparator_steps": 0},
        cue_stack=LINEAR | {"frame_stack": 5},
        cue_stack_mlp=MLP | {"frame_stack": 3},
    ),
    *_each(
        "spaces",
        PARTS,
        parts_linear=LINEAR,
        parts_mlp=MLP,
        parts_sees=LINEAR | {"student_sees": "place", "learner": "adaftrl"},
    ),
    *_each(
        "spaces", VIEW, view_camera={}, view_camera_pieces={"policy_options": {"width": 8}, "num_envs": 2}
    ),
    *_each(
        "images",
        DOTS,
        dots_cnn={},
        dots_mapped={"memory_limit": 0},
    ),
]

ASKING = [
    *_each(
        "asking",
        ROOM | LINEAR,
        ask_random={"ask": "random:8"},
        ask_fraction={"ask": "fraction:0.3", "random_share": None, "num_envs": 2},
        ask_distance={"ask": "distance:8", "random_share": 0.2},
        ask_leverage={"ask": "leverage:0.5", "learner": "adaftrl"},
        ask_budget={"ask": "random:6", "budget": 55, "rounds": None},
        spread_budget={"budget": 30, "rounds": None, "steps_per_round": 20},
        mixed={"beta": 0.4, "noise": 0.2},
        mixed_less_and_less={"beta": "linear:3", "first_round": "agent"},
        mixed_exponential={"beta": "exponential:0.5", "first_steps": 20},
        spot_distance={"moment": "spot", "ask": "distance:0.05"},
        window={"memory": "window:2"},
        reservoir={"memory": "reservoir:30", "learner": "adaftrl"},
    ),
    *_each(
        "networks",
        ROOM | MLP,
        ask_disagreement={"ask": "disagreement:8"},
        spot_disagreement={"moment": "spot", "ask": "disagreement:0.05", "weigh": "labels"},
        window_mlp={"memory": "window:1", "comparator_steps": 0},
    ),
    *_each(
        "asking",
        THUMB | LINEAR,
        envs_four={"num_envs": 4, "loss": "squared", "evaluate_every": 1, "episodes": 5},
        spot_pole={"moment": "spot", "ask": "distance:0.05", "loss": "squared", "beta": 0.2},
    ),
    Run(
        "demos-of-a-run",
        "asking",
        [ROOM | LINEAR | {"out": "first"}, ROOM | LINEAR | {"demos": "first", "rounds": 2}],
    ),
    Run("demos-of-a-file", "asking", [["demos"], ROOM | LINEAR | {"demos": "demos.npz", "rounds": 2}]),
    Run("demos-alone", "asking", [["demos"], ROOM | LINEAR | {"demos": "demos.npz", "rounds": 0}]),
]

SLOW = [
    *_each(
        "slow",
        ROOM | LINEAR | {"expert": "world:slow"},
        slow_threads={"expert_workers": 4},
        slow_random={"expert_workers": 4, "ask": "random:9", "learner": "adaftrl"},
    ),
    *_each(
        "slow",
        ROOM | LINEAR,
        slow_processes={"expert_workers": "processes:2"},
        retried={"expert": "world:failing", "expert_workers": 4, "expert_retries": 1, "steps_per_round": 20}
        | {"rounds": 2},
    ),
    Run(
        "out-of-order",
        "slow",
        [ROOM | LINEAR | {"env_kwargs": {"breaks": 55}}, ROOM | LINEAR | {"resume": True}],
        fails={1: "round 2: environment"},
    ),
]

KILLED = [
    Run("killed-steps", "killed", [ROOM | LINEAR | {"resume": True}], {"step": (50, 13)}),
    Run("killed-ask", "killed", [THUMB | LINEAR | {"resume": True, "learner": "adaftrl"}], {"ask": (97,)}),
    Run(
        "killed-slow",
        "killed",
        [ROOM | LINEAR | {"expert": "world:slow", "expert_workers": 3, "resume": True}],
        {"ask": (60,)},
    ),
    Run("killed-mlp", "killed", [ROOM | MLP | {"resume": True, "learner": "adaftrl"}], {"step": (95,)}),
    Run("killed-gru", "killed", [CUE | GRU | {"resume": True}], {"step": (60,)}),
    Run("killed-cnn", "killed", [DOTS | {"resume": True}], {"ask": (70,)}),
    Run(
        "killed-new-episode",
        "killed",
        [ROOM | LINEAR | {"resume": "new-episode", "ask": "random:9"}],
        {"step": (70,)},
    ),
    Run(
        "killed-reservoir",
        "killed",
        [ROOM | LINEAR | {"resume": True, "memory": "reservoir:30"}],
        {"step": (90,)},
    ),
    Run(
        "killed-budget",
        "killed",
        [ROOM | LINEAR | {"resume": True, "budget": 60, "rounds": None, "ask": "distance:9"}],
        {"step": (100,)},
    ),
    Run("killed-device", "device", [DRIFT | LINEAR | {"resume": True, "evaluate_every": 1}], {"round": (2,)}),
]

MORE = ROOM | LINEAR | {"rounds": None, "ask": "random:9"}
STREAM = ["replay", "stream.npz", "--out", "told", "--json"]
TYPED_RUNS = [
    Run(
        "typed",
        "typed",
        [[*TYPED, "--learner", "adaftrl", "--out", "run"], ["evaluate", "run", "--episodes", "3", "--json"]],
    ),
    Run(
        "typed-extended",
        "typed",
        [[*TYPED, "--out", "run"], ["train", "--out", "run", "--resume", "--rounds", "5", "--json"]],
    ),
    Run("typed-resumed", "killed", [[*TYPED, "--out", "run"]], {"step": (70,)}),
    Run("more-budget", "typed", [MORE | {"budget": 40}, MORE | {"budget": 60, "resume": True}]),
    Run(
        "exported",
        "typed",
        [ROOM | MLP, ["export", "run", "--to", "numpy", "--out", "policy.npz", "--json"]],
    ),
    Run("replayed", "typed", [["stream"], [*STREAM, "--learner", "adaftrl", "--alpha", "2"]]),
    Run("replayed-absolute", "typed", [["stream"], [*STREAM, "--loss", "absolute", "--memory", "window:3"]]),
    Run("refused", "typed", [ROOM | LINEAR | {"learner": "ftll"}], fails={1: "learner"}),
]

FOUR = ["--ask", "random:4", "--rounds", "2", "--steps-per-round", "40"]
PAGE = [*ASKED, "--expert", "person:page", "--no-browser"]
PERSON = [
    Run(
        "person-terminal",
        "person",
        [[*ASKED, "--expert", "person:terminal", *FOUR]],
        keys="1 2 u 1 s 2 1 2 2 1 1 2 1",
    ),
    Run("person-page", "person", [[*PAGE, *FOUR]], hand="label"),
    Run(
        "person-spot",
        "person",
        [[*PAGE, "--moment", "spot", "--rounds", "1", "--steps-per-round", "24"]],
        hand="spot",
    ),
]

PURE = _each(
    "device",
    DRIFT,
    pure_linear=LINEAR,
    pure_mixed=LINEAR | {"beta": 0.5, "noise": 0.3, "learner": "adaftrl"},
    pure_asking=LINEAR | {"ask": "random:9"},
    pure_mlp=MLP,
    pure_reservoir=LINEAR | {"memory": "reservoir:30", "frame_stack": 2},
)

ATARI = [
    dataclasses.replace(one, needs=("ale_py",))
    for one in [
        *_each(
            "atari",
            PONG,
            pong_features={"expert": "ppo-pong", "learner": "adaftrl"},
            pong_cnn={"expert": "world:ball", "policy": "nature_cnn", "policy_options": {"width": 16}}
            | {"max_iterations": 2, "batch_size": 4, "num_envs": 2},
        ),
        Run(
            "pong-killed",
            "atari",
            [
                PONG
                | {"expert": "world:ball", "policy": "nature_cnn", "policy_options": {"width": 16}}
                | {"max_iterations": 2, "batch_size": 4, "num_envs": 2, "resume": True}
            ],
            {"ask": (36,)},
        ),
    ]
]

INLINE = [*STUDY, "--engine", "inline"]
AXES = ["--learners", "ftl", "ftrl", "--grid", "step=0.1,1"]
STUDIES = [
    Run("study-workers", "study", [[*STUDY, *AXES, "--workers", "2"]]),
    Run("study-inline", "typed", [[*INLINE, "--learners", "ftl", "adaftrl", "--grid", "loss=squared,huber"]]),
    Run(
        "study-tuned",
        "typed",
        [[*INLINE, "--learners", "adaftrl", "--grid", "step=0.1:10:log3", "--tune", "step"]],
    ),
    Run("study-killed", "killed", [[*INLINE, "--learners", "ftl", "bc", "--shard", "1"]], {"step": (130,)}),
    Run("study-ray", "study", [[*STUDY, *AXES, "--engine", "ray", "--workers", "1"]], needs=("ray",)),
]

HOPPER = Run(
    "hopper",
    "hopper",
    [SIZE | LINEAR | {"env": "Hopper-v5", "learner": "adaftrl", "episodes": 1, "num_envs": 2, "beta": 0.2}],
    needs=("mujoco",),
)

RUNS: list[Run] = [*LEARNERS, *NETWORKS, *ASKING, *SLOW, *KILLED, *TYPED_RUNS, *PERSON, *PURE, *ATARI]
RUNS += [*STUDIES, HOPPER]


def missing(run: Run) -> list[str]:
    """The modules that a run needs and that are not installed."""
    return [name for name in run.needs if importlib.util.find_spec(name) is None]
