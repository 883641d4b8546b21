"""Runs that stay on the device, against a bare scan and bare Adam in the same process; whole runs; a study.

    python benchmarks/bench_pure.py                                a minute on a CPU (gymnax or a toy)
    python benchmarks/bench_pure.py FOLDER --env mjx:Hopper        every part, as on a GPU
    python benchmarks/bench_pure.py FOLDER --parts collect run     some
    python benchmarks/bench_pure.py FOLDER --env gymnax:CartPole-v1 --tiny        every part, minutes on a CPU

Parts are: collect (steps a second of a bare scan and of ours), round (bare collecting and bare Adam against
ours), run (a whole run: seconds and return), cached (compiling, from the cache), seeds (64 runs in one
program), study (all rounds against the current one alone, 10⁴ to 10⁷ interactions). Each part that ends
leaves FOLDER/PART.json and is not done again; one that fails leaves its error in the output and the others go
on; no part begins after --seconds. `programs` are those that were compiled or read from the cache in a part,
`large_programs` those that took more than half a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fastest import fastest

BEGAN = time.perf_counter()
BATCH = 256


class Toy:
    """A double pendulum's worth of arithmetic in Brax's shape, where neither gymnax nor MJX is installed."""

    action_size, limit = 2, 200

    def reset(self, key):
        import jax

        return self._state(jax.random.uniform(key, (6,), minval=-1.0, maxval=1.0))

    def step(self, state, action):
        import jax.numpy as jnp

        push = jnp.concatenate([0.2 * action, jnp.zeros(4)])
        return self._state(jnp.sin(state.obs + 0.1 * jnp.roll(state.obs, 1) + push))

    def _state(self, obs):
        import collections

        import jax.numpy as jnp

        kind = _KINDS.setdefault("state", collections.namedtuple("ToyState", "obs reward done"))
        return kind(obs, 1.0 - jnp.abs(obs).mean(), jnp.zeros(()))


_KINDS: dict = {}
_COMPILED: list[float] = []
LARGE = 0.5


def listen() -> None:
    """Notes the seconds of every program that XLA compiles, or that comes from the cache."""
    import jax

    def heard(event: str, seconds: float, **_) -> None:
        if event.endswith("backend_compile_duration"):
            _COMPILED.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(heard)


def programs(since: int) -> dict:
    """How many programs were made after so many, how many of them took long, and the seconds of all."""
    mine = _COMPILED[since:]
    large = sum(one > LARGE for one in mine)
    return {"programs": len(mine), "large_programs": large, "program_seconds": sum(mine)}


def toy():
    return Toy()


def toy_expert(observation):
    import jax.numpy as jnp

    return jnp.tanh(observation[:2] * 2.0 - observation[2:4])


toy_expert.pure = True


class Bench:
    """A run under way after its first round, with what the bare loops need of it."""

    def __init__(self, asked: argparse.Namespace):
        import jax

        from understudy.envs.gymnasium import maker
        from understudy.runs import Runner, RunState, World, parts, storage
        from understudy.spec import RunSpec

        self.size, self.envs, self.adam = asked.envs * asked.steps, asked.envs, asked.adam
        settings = {"env": asked.env, "policy": "mlp", "envs": asked.envs, "interactions": self.size}
        settings |= {"rounds": 12, "episodes": 0, "comparator": "none"}
        settings |= {"max_iterations": asked.adam}
        settings |= {"expert": asked.expert} if asked.expert else {}
        spec = RunSpec.of(settings)
        make = maker(spec.env)
        self.env = make()
        made = parts(World.of(make, self.env, spec), spec)
        self.run = RunState(made, storage(made, keep=False)[0])
        self.runner = Runner([self.run], make, first=self.env)
        began = time.perf_counter()
        self.runner.advance()
        self.first = time.perf_counter() - began
        self.jax, self.made = jax, made

    def bare_scan(self):
        """A scan over vmapped steps that acts by the policy, labels by the expert and resets what has ended;
        it keeps inputs and labels, as any learner needs.
        """
        import jax
        import jax.numpy as jnp

        env, expert, policy = self.env, self.made.expert.pure, self.run.game.policy
        mean, scale = (
            jnp.asarray(one, jnp.float32) for one in (self.run.normaliser.mean, self.run.normaliser.scale)
        )
        reset = jax.vmap(env.reset)

        def loop(params, state, key):
            def turn(state, key):
                rows = state.observation.astype(jnp.float32)
                wanted = expert(rows)
                outputs = policy.apply(params, (rows - mean) / scale)
                action = outputs if wanted.dtype.kind == "f" else jnp.argmax(outputs, axis=1)
                new = jax.vmap(env.step)(
                    state, jnp.clip(action, -1, 1) if wanted.dtype.kind == "f" else action
                )
                ended = new.terminated | new.truncated
                fresh = reset(jax.random.split(key, self.envs))

                def pick(a, b):
                    return jnp.where(ended.reshape(-1, *[1] * (a.ndim - 1)), a, b)

                return jax.tree.map(pick, fresh, new), (rows, wanted)

            return jax.lax.scan(turn, state, jax.random.split(key, self.size // self.envs))

        params = jax.tree.map(jnp.asarray, self.run.params)
        first = jax.jit(lambda key: reset(jax.random.split(key, self.envs)))(jax.random.key(0))
        play = jax.jit(loop)
        return lambda: play(params, first, jax.random.key(1))

    def ours(self, number: int = 2):
        """The columns of a round, by the runner's own collector."""
        collect = self.runner.collector.collect
        from understudy.runs.collected import Wanted

        wanted = Wanted([0], self.size, number, betas=[0.0], acting=lambda runs: [])
        return lambda: collect(wanted)[0][0].inputs

    def bare_adam(self):
        """Adam on minibatches of a buffer of all rounds, as a scan."""
        import jax
        import jax.numpy as jnp
        import optax

        policy, loss, rows = self.run.game.policy, self.run.game.loss, 12 * self.size
        width, outputs = self.made.observations.width, self.made.actions.outputs
        inputs, wanted = jnp.zeros((rows, width)), jnp.zeros((rows, outputs))
        adam = optax.adam(optax.cosine_decay_schedule(1e-3, self.adam))

        def value(params, x, y):
            return jnp.mean(jax.vmap(loss)(policy.apply(params, x), y))

        def loop(params, inputs, wanted, key):
            def turn(carry, key):
                params, state = carry
                at = jax.random.randint(key, (BATCH,), 0, 2 * self.size)
                updates, state = adam.update(jax.grad(value)(params, inputs[at], wanted[at]), state)
                return (optax.apply_updates(params, updates), state), None

            return jax.lax.scan(turn, (params, adam.init(params)), jax.random.split(key, self.adam))[0]

        params, play = jax.tree.map(jnp.asarray, self.run.params), jax.jit(loop)
        return lambda: play(params, inputs, wanted, jax.random.key(0))


_BENCH: list[Bench] = []


def bench_of(asked) -> Bench:
    """One for all parts."""
    if not _BENCH:
        _BENCH.append(Bench(asked))
    return _BENCH[0]


def collect(asked):
    bench = bench_of(asked)
    began = time.perf_counter()
    bare = bench.bare_scan()
    bench.jax.block_until_ready(bare())
    compiled = time.perf_counter() - began
    ours = bench.ours()
    times = {"bare": fastest(bare), "ours": fastest(ours)}
    rates = {name: bench.size / value for name, value in times.items()}
    found = {"first_round_seconds": bench.first, "bare_compile_seconds": compiled}
    return (
        found
        | {f"{name}_steps_per_second": rate for name, rate in rates.items()}
        | {
            "collecting_over_bare": rates["ours"] / rates["bare"],
            "wanted_at_least": 0.9,
        }
    )


def round_(asked):
    bench = bench_of(asked)
    bare, adam = bench.bare_scan(), bench.bare_adam()
    times = {"bare_collect": fastest(bare), "bare_adam": fastest(adam)}
    bench.runner.advance()
    mine = []
    for _ in range(3):
        began = time.perf_counter()
        bench.runner.advance()
        mine.append((time.perf_counter() - began, dict(bench.run.times[-1])))
    total, laps = min(mine, key=lambda one: one[0])
    wanted = times["bare_collect"] + times["bare_adam"]
    return times | {"round": total, **laps, "round_over_bare": total / wanted, "wanted_at_most": 1.15}


def run(asked):
    import understudy

    _BENCH.clear()
    settings = {"expert": asked.expert} if asked.expert else {}
    size = asked.envs * asked.steps
    began, ends = time.perf_counter(), []
    done = understudy.imitate(
        asked.env,
        policy="mlp",
        envs=asked.envs,
        interactions=size,
        rounds=12,
        episodes=asked.episodes,
        comparator="none",
        max_iterations=asked.adam,
        progress=lambda t, row: ends.append(time.perf_counter() - began),
        **settings,
    )
    whole, later = time.perf_counter() - began, ends[-1] - ends[1]
    return {
        "interactions": int(done.ledger["interactions"][-1]),
        "seconds_total": whole,
        "seconds_round_1_and_2": ends[1],
        "seconds_a_round_after": later / (len(ends) - 2),
        "seconds_12_rounds_after_compiling": later * 12 / (len(ends) - 2),
        "return": done.evaluation.mean,
        "expert_return": done.expert_evaluation.mean,
        "losses": done.ledger["loss"].tolist(),
        **{f"{name}_seconds": value for name, value in done.seconds.items()},
    }


def cached(asked):
    """The first two rounds in a new process, twice: nothing compiled yet, and everything in the cache."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        env |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
        for name in ("cold", "warm"):
            call = [sys.executable, __file__, "--parts", "first", "--env", asked.env]
            call += ["--envs", str(asked.envs), "--steps", str(asked.steps), "--adam", str(asked.adam)]
            call += ["--expert", asked.expert] if asked.expert else []
            left = max(60.0, asked.seconds + 120.0 - (time.perf_counter() - BEGAN))
            done = subprocess.run(call, env=env, capture_output=True, text=True, check=False, timeout=left)
            if done.returncode:
                return {"error": done.stderr[-2000:]}
            found[name] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def first(asked):
    bench, again = Bench(asked), []
    made = len(_COMPILED)
    for _ in range(2):
        began = time.perf_counter()
        bench.runner.advance()
        again.append(time.perf_counter() - began)
    return {
        "round_1": bench.first,
        "round_2": again[0],
        "round_3": again[1],
        "compiling": bench.first - again[1],
        "programs_after_round_1": len(_COMPILED) - made,
    }


def seeds(asked):
    """64 seeds in one program, and one of them alone."""
    from understudy.studies import play

    settings = {"env": "gymnax:CartPole-v1", "policy": "mlp", "envs": 16, "interactions": 1600, "rounds": 5}
    try:
        import gymnax  # noqa: F401
    except ImportError:
        settings |= {"env": "bench_pure:toy", "expert": "bench_pure:toy_expert"}
    settings |= {"episodes": 5, "comparator": "none", "max_iterations": asked.adam // 2, "expert_episodes": 0}
    found = {"env": settings["env"]}
    for name, count in (("one", 1), (f"{asked.seeds}", asked.seeds)):
        began, made = time.perf_counter(), len(_COMPILED)
        done = play([settings | {"seed": seed} for seed in range(count)], together=True)
        found[f"seconds_{name}"] = time.perf_counter() - began
        found |= {f"{what}_{name}": value for what, value in programs(made).items()}
        found[f"returns_{name}"] = [one.summary["return_mean"] for one in done][:8]
        found[f"errors_{name}"] = [one.error for one in done if one.error]
    return found


def study(asked):
    """All parts of the study that fit into the time; the report of those that are there."""
    import dataclasses

    from understudy.paper import aggregation, aggregation_report, claims

    scale = aggregation.SCALES[asked.scale]
    if asked.study_seeds:
        scale = dataclasses.replace(scale, seeds=asked.study_seeds)
    done, lasted = [], 0.0
    for total in scale.totals:
        if time.perf_counter() - BEGAN + 1.3 * lasted > asked.seconds and done:
            break
        began = time.perf_counter()
        done.append(aggregation.part(total, scale, Path(asked.folder or ".", "study"), engine="inline"))
        lasted = time.perf_counter() - began
        print(f"study: {total:,} interactions in {lasted:.1f} s", flush=True)
    out = Path(asked.folder or ".", "report")
    out.mkdir(parents=True, exist_ok=True)
    judged = aggregation_report.judged(done)
    aggregation_report.write(out, done, judged)
    whole = len(done) == len(scale.totals)
    told = dict(aggregation_report.facts(done))
    return {"unfinished": not whole, "facts": told, "claims": [one[:2] for one in claims.together(judged)]}


PARTS = {"collect": collect, "round": round_, "run": run, "cached": cached, "seeds": seeds, "study": study}


def main() -> int:
    reader = argparse.ArgumentParser()
    reader.add_argument("folder", nargs="?")
    reader.add_argument("--env", default=None)
    reader.add_argument("--expert", default=None)
    reader.add_argument("--envs", type=int, default=4096)
    reader.add_argument("--steps", type=int, default=100)
    reader.add_argument("--episodes", type=int, default=20)
    reader.add_argument("--seeds", type=int, default=64)
    reader.add_argument("--scale", default="full", help="of the study: full or small")
    reader.add_argument("--study-seeds", type=int, default=None)
    reader.add_argument("--seconds", type=float, default=450.0, help="no part begins later")
    reader.add_argument("--adam", type=int, default=1000, help="steps of Adam a round")
    reader.add_argument("--parts", nargs="*", default=None, choices=[*PARTS, "first"])
    reader.add_argument("--tiny", action="store_true", help="the least that every part can be tried with")
    asked = reader.parse_args()
    if asked.tiny:
        asked.envs, asked.steps, asked.adam, asked.episodes, asked.seeds = 64, 20, 20, 2, 4
        asked.scale, asked.study_seeds = "small", 2
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    if asked.env is None:
        asked.env, asked.expert = "bench_pure:toy", "bench_pure:toy_expert"
        asked.envs, asked.parts = min(asked.envs, 64), asked.parts or ["collect", "round", "run"]
    # Processes of its own share the device with this one, and parts share their compiled programs.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir(), "understudy-bench")))
    import jax

    listen()
    device = jax.devices()[0]
    print(
        f"{asked.env}, {asked.envs} environments, {asked.steps} steps a round, {device.device_kind}",
        flush=True,
    )
    failed = 0
    for part in asked.parts or PARTS:
        file = None if asked.folder is None else Path(asked.folder, f"{part}.json")
        if file is not None and file.exists():
            print(f"{part}: {file} is there", flush=True)
            continue
        if time.perf_counter() - BEGAN > asked.seconds:
            print(f"{part}: no time left; the same command goes on", flush=True)
            continue
        began, made = time.perf_counter(), len(_COMPILED)
        try:
            found = first(asked) if part == "first" else PARTS[part](asked)
        except Exception as error:  # a part that fails must not take the others' time on a lent machine
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        failed += "error" in found
        found |= programs(made) | {"part_seconds": time.perf_counter() - began}
        line = json.dumps({"part": part, "device": device.device_kind, **found}, default=float)
        print(line if part != "first" else json.dumps(found), flush=True)
        if file is not None and not found.get("unfinished") and "error" not in found:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(line + "\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
