"""Collecting a round: exactly M interactions, every one labelled by the expert, whoever acts."""

from __future__ import annotations

import dataclasses
from typing import Any, final

import numpy as np

from ..envs.gymnasium import Slots, derive
from ..errors import UserError
from ..policies import Actions, Encoded, Observations, TrainedPolicy, stacked

TERMINATED, TRUNCATED, EXPERT = 1, 2, 4


@final
@dataclasses.dataclass(frozen=True)
class Round:
    """What one round gave, one row per interaction, in the order played (slot after slot within a step).

    inputs (m, width): the observation encoded, before standardising; targets (m, k): the expert's label;
    executed (m, a): the action played; rewards (m,); flags (m,): 1 terminated, 2 truncated, 4 the expert
    acted; slots (m,): which environment. `queries` counts labels asked for.
    """

    inputs: np.ndarray
    targets: np.ndarray
    executed: np.ndarray
    rewards: np.ndarray
    flags: np.ndarray
    slots: np.ndarray
    queries: int

    def __len__(self) -> int:
        return len(self.inputs)


@final
class Collector:
    """Steps the slots, asks the expert about every state before it is left, and keeps both actions.

    The label is always the expert's; what is played is the expert's with probability β, else the policy's,
    with Gaussian noise (Box) or Gumbel noise on the logits (choices) of size `noise`.
    """

    def __init__(
        self,
        slots: Slots | None,
        expert: Any,
        observations: Observations | Encoded,
        actions: Actions,
        *,
        seed: int,
        noise: float = 0.0,
    ):
        # Without slots the states are brought from elsewhere (see `convoy`): only `draws` is used.
        self.slots: Any = slots
        self.expert = expert
        self.observations, self.actions = observations, actions
        self._seed, self._noise = seed, noise

    def collect(self, policy: TrainedPolicy | None, size: int, *, beta: float, number: int) -> Round:
        """Exactly `size` interactions of round `number`; with β = 1 the policy is not needed."""
        if policy is None and beta < 1:
            raise UserError(f"beta: {beta!r} in round {number} needs a policy to act.")
        self.slots.start()
        by_expert, noise = self.draws(number, size, beta)
        labels_kind, codec, acts = self.expert.kind, self.observations, self.actions
        inputs = np.empty((size, codec.width), codec.dtype)
        targets = np.empty((size, acts.outputs), np.float32)
        executed = np.empty((size, acts.size), acts.dtype)
        rewards, flags = np.empty(size, np.float32), np.empty(size, np.uint8)
        owners = np.empty(size, np.int32)
        row = 0
        while row < size:
            # The last step of a round may be played in some of the slots only.
            active = self.slots.slots[: size - row]
            rows = [codec.row(slot.observation) for slot in active]
            batch = stacked([slot.observation for slot in active])
            labels = self.expert.label(batch, [slot.info for slot in active])
            targets[row : row + len(active)] = acts.targets(labels, labels_kind)
            for i, slot in enumerate(active):
                at = row + i
                inputs[at], owners[at] = rows[i], slot.index
                if by_expert[at]:
                    action = self._experts(labels[i])
                else:
                    outputs = policy.outputs(rows[i])  # type: ignore[union-attr]
                    action = acts.play(outputs if noise is None else outputs + noise[at])
                executed[at] = acts.numbers(action)
                reward, terminated, truncated = self.slots.step(slot, action)
                rewards[at] = reward
                flags[at] = TERMINATED * terminated + TRUNCATED * truncated + EXPERT * bool(by_expert[at])
            row += len(active)
        return Round(inputs, targets, executed, rewards, flags, owners, queries=size)

    def _experts(self, label: np.ndarray) -> Any:
        """The action behind a label; a distribution is played by its mode."""
        if self.expert.kind == "distribution":
            return self.actions.play(label)
        return self.actions.from_numbers(label)

    def draws(self, number: int, size: int, beta: float) -> tuple[np.ndarray, np.ndarray | None]:
        """Everything random in round `number`: where the expert acts (size,), and the noise (size, k)."""
        by_expert = np.random.default_rng(derive(self._seed, "mixing", number)).random(size) < beta
        if not self._noise:
            return by_expert, None
        rng = np.random.default_rng(derive(self._seed, "noise", number))
        shape = (size, self.actions.outputs)
        drawn = rng.gumbel(size=shape) if self.actions.categorical else rng.standard_normal(shape)
        return by_expert, (self._noise * drawn).astype(np.float32)

    def snapshot(self) -> list[dict[str, Any]]:
        """Where every slot is: its episode, the actions played in it, and the row it has led to."""
        size, dtype = self.actions.size, self.actions.dtype
        return [
            {
                "episode": slot.episode,
                "actions": np.asarray(slot.actions, dtype).reshape(len(slot.actions), size),
                "row": self.observations.row(slot.observation),
            }
            for slot in self.slots.slots
        ]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Back to a snapshot, by resetting with the episode's seed and playing its actions again."""
        for slot, kept in zip(self.slots.slots, snapshot, strict=True):
            actions = [self.actions.from_numbers(row) for row in kept["actions"]]
            self.slots.rebuild(slot, int(kept["episode"]), actions)  # type: ignore[arg-type]
            now = self.observations.row(slot.observation)
            if now.tobytes() != np.asarray(kept["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(actions)} actions of episode "
                    f"{slot.episode} its observation is another one now, so it cannot be continued exactly."
                )
