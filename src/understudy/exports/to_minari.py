"""The episodes of a run as a dataset of Minari."""

from __future__ import annotations

import contextlib
import re
import warnings
from typing import Any

import jax
import numpy as np

from ..errors import UserError, import_extra
from ..runs import Record
from .episodes import Episode, episodes, space


def write(run: Record, name: str) -> int:
    """Writes the dataset `name` to Minari's folder, from where ``minari.load_dataset(name)`` and ``--demos
    minari:name`` read it; gives the number of episodes.

    Minari has one observation more than actions; a run does not keep the one after the last action, so the
    last one stands twice, and `infos["known"]` is false there. `infos` also has the expert's actions, who
    acted (`by_expert`), `asked`, the learner's `target` and the `weight` of every sample. An episode that was
    still under way ends as truncated, as Minari's own collector has it.
    """
    minari, made = import_extra("minari", "export: Minari", "minari"), run.settings
    buffers = [_buffer(minari, number, one) for number, one in enumerate(episodes(run))]
    try:
        with warnings.catch_warnings():  # that there is no author, no link to code
            warnings.simplefilter("ignore")
            minari.create_dataset_from_buffers(
                name,
                buffers,
                observation_space=space(run.policy.observations),
                action_space=run.policy.actions.space(),
                algorithm_name=f"understudy {made['name']}, seed {made['seed']}",
                description=f"{made['env']}: what a policy did while it learned to imitate an expert.",
                jpeg_encoding=False,  # which would change images
                **_environment(made),
            )
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"export: Minari does not take {name!r} ({error}).") from None
    return len(buffers)


def name_of(run: Record, stem: str) -> str:
    """The id that a run's dataset has where none is given: its environment and its folder's name.

    >>> from types import SimpleNamespace
    >>> name_of(SimpleNamespace(settings={"env": "ALE/Pong-v5"}), "runs h")
    'Pong-v5/runs-h-v0'
    """
    env = run.settings["env"].rpartition("/")[2].rpartition(":")[2]
    return f"{_word(env)}/{_word(stem)}-v0"


def _word(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "run"


def _environment(settings: dict[str, Any]) -> dict[str, Any]:
    """The environment, where Gymnasium knows it by name, so that a dataset can make it again."""
    import gymnasium

    with contextlib.suppress(gymnasium.error.Error):
        return {"env": gymnasium.spec(settings["env"])} if not settings["env_kwargs"] else {}
    return {}


def _buffer(minari: Any, number: int, one: Episode) -> Any:
    """An episode in Minari's words."""
    last = np.zeros(len(one), bool)
    last[-1] = True
    once_more = {
        "expert_action": one.expert_actions,
        "target": one.targets,
        "by_expert": one.by_expert,
        "asked": one.asked,
        "weight": one.weights,
        "known": np.ones(len(one), bool),
    }
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=jax.tree.map(lambda part: np.concatenate([part, part[-1:]]), one.observations),
        actions=one.actions,
        rewards=one.rewards,  # type: ignore[arg-type]
        terminations=last & one.terminated,  # type: ignore[arg-type]
        truncations=last & (not one.terminated),  # type: ignore[arg-type]
        infos={name: np.concatenate([part, _nothing(part)]) for name, part in once_more.items()},
    )


def _nothing(part: np.ndarray) -> np.ndarray:
    """A row that says that there is nothing: nan, −1 or false."""
    empty = np.zeros_like(part[:1])
    return empty if part.dtype == bool else empty + (np.nan if part.dtype.kind == "f" else -1)
