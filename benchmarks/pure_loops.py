"""What `bench_pure` compares: a run under way, and the same work as a bare scan and bare Adam."""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import plain_loop

from understudy import Run

BATCH = 256


class Bench:
    """A run after its first round, with what the bare loops need of it; `first` are that round's seconds."""

    def __init__(self, asked: argparse.Namespace):
        self.size, self.envs, self.adam = asked.envs * asked.steps, asked.envs, asked.adam
        self.rounds, self.batch = asked.rounds, asked.batch or BATCH
        self.run = Run(asked.env, keep=False, **settings(asked) | {"episodes": 0})
        self.env, self.student, self.made = self.run.world.first, self.run.student, self.run.student.parts
        began = time.perf_counter()
        self.run.step()
        self.first = time.perf_counter() - began
        self._params = jax.tree.map(jnp.asarray, self.student.params)

    def ours(self) -> Any:
        """A call that collects a round, by the run's own collector."""
        return lambda: self.run.collector.collect(self.student.plan).inputs

    def bare_scan(self) -> Any:
        """A call that collects as much by a scan over vmapped steps. It acts by the policy, labels by the
        expert, resets environments in steps in which one has ended, and keeps inputs and labels, as any
        learner needs.
        """
        env, expert, student = self.env, self.run.labelling.expert.pure, self.student
        policy, norm = student.game.policy, student.normaliser
        mean, scale = (jnp.asarray(one, jnp.float32) for one in (norm.mean, norm.scale))
        reset = jax.vmap(env.reset)

        def turn(params: Any, state: Any, key: Any) -> Any:
            rows = state.observation.astype(jnp.float32)
            wanted, outputs = expert(rows), policy.apply(params, (rows - mean) / scale)
            numbers = wanted.dtype.kind == "f"
            action = jnp.clip(outputs, -1, 1) if numbers else jnp.argmax(outputs, axis=1)
            new = jax.vmap(env.step)(state, action)
            ended = new.terminated | new.truncated

            def anew() -> Any:
                def pick(a: Any, b: Any) -> Any:
                    return jnp.where(ended.reshape(-1, *[1] * (a.ndim - 1)), a, b)

                return jax.tree.map(pick, reset(jax.random.split(key, self.envs)), new)

            return jax.lax.cond(ended.any(), anew, lambda: new), (rows, wanted)

        @jax.jit
        def play(params: Any, state: Any, key: Any) -> Any:
            keys = jax.random.split(key, self.size // self.envs)
            return jax.lax.scan(lambda state, key: turn(params, state, key), state, keys)

        first = jax.jit(lambda key: reset(jax.random.split(key, self.envs)))(jax.random.key(0))
        return lambda: play(self._params, first, jax.random.key(1))

    def bare_adam(self) -> Any:
        """A call that takes a round's steps of Adam as a scan, on minibatches of a buffer of all rounds."""
        policy, loss, rows = self.student.game.policy, self.student.game.loss, self.rounds * self.size
        inputs = jnp.zeros((rows, self.made.observations.width))
        wanted = jnp.zeros((rows, self.made.actions.outputs))
        train = plain_loop.adam(policy.apply, jax.vmap(loss), size=self.batch, steps=self.adam, cosine=True)
        play, key = jax.jit(train), jax.random.key(0)
        return lambda: play(self._params, inputs, wanted, key, 2 * self.size)


def settings(asked: argparse.Namespace) -> dict[str, Any]:
    """The settings of a run that all parts have in common."""
    size = asked.envs * asked.steps
    found = {"policy": "mlp", "num_envs": asked.envs, "steps_per_round": size, "rounds": asked.rounds}
    found |= {"comparator": "none", "max_iterations": asked.adam, "batch_size": asked.batch}
    return found | ({"expert": asked.expert} if asked.expert else {})


class ToyState(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class Toy:
    """A double pendulum's worth of arithmetic in Brax's shape, where neither gymnax nor MJX is installed."""

    action_size, limit = 2, 200

    def reset(self, key: Any) -> ToyState:
        return self._state(jax.random.uniform(key, (6,), minval=-1.0, maxval=1.0))

    def step(self, state: ToyState, action: Any) -> ToyState:
        push = jnp.concatenate([0.2 * action, jnp.zeros(4)])
        return self._state(jnp.sin(state.obs + 0.1 * jnp.roll(state.obs, 1) + push))

    def _state(self, obs: Any) -> ToyState:
        return ToyState(obs, 1.0 - jnp.abs(obs).mean(), jnp.zeros(()))


def toy() -> Toy:
    return Toy()


def toy_expert(observation: Any) -> Any:
    return jnp.tanh(observation[:2] * 2.0 - observation[2:4])


toy_expert.pure = True
