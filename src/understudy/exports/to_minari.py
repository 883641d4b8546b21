"""The episodes of a run as a dataset of Minari."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections.abc import Iterator

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ..errors import UserError, import_extra
from ..nested import nest, parts
from ..runs import Record
from .episodes import episodes, space


def write(run: Record, name: str) -> int:
    """Writes the dataset `name` to Minari's folder, from where ``minari.load_dataset(name)`` and ``--demos
    minari:name`` read it; returns the number of episodes.

    Minari has one observation more than actions; a run does not keep the one after the last action, so the
    last one stands twice, and `infos["known"]` is false there. `infos` also has the expert's actions, who
    acted (`by_expert`), `asked`, the learner's `target` and the `weight` of every sample. An episode that was
    still under way ends as truncated, as Minari's own collector has it.
    """
    minari, settings = import_extra("minari", "export: Minari", "minari"), run.settings
    buffers = (minari.data_collector.EpisodeBuffer(**fields) for fields in _buffers(run))
    first = next(buffers)  # a run without episodes is refused before there is a file
    try:
        with warnings.catch_warnings():  # that there is no author, no link to code
            warnings.simplefilter("ignore")
            dataset = minari.create_dataset_from_buffers(
                name,
                itertools.chain([first], buffers),
                env=_environment(run),
                observation_space=space(run.policy.observations),
                action_space=run.policy.actions.space(),
                algorithm_name=f"understudy {settings['name']}, seed {settings['seed']}",
                description=f"{settings['env']}: what a policy did while it learned to imitate an expert.",
                jpeg_encoding=False,  # which would change images
            )
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"export: Minari does not take {name!r} ({error}).") from None
    return int(dataset.total_episodes)


def name_of(run: Record, stem: str) -> str:
    """The id that a run's dataset has where none is given: its environment and its folder's name.

    >>> from types import SimpleNamespace
    >>> name_of(SimpleNamespace(settings={"env": "ALE/Pong-v5"}), "runs h")
    'Pong-v5/runs-h-v0'
    """
    env = run.settings["env"].rpartition("/")[2].rpartition(":")[2]
    words = [re.sub(r"[^\w-]+", "-", text).strip("-") or "run" for text in (env, stem)]
    return f"{words[0]}/{words[1]}-v0"


def _environment(run: Record) -> EnvSpec | None:
    """The environment, where Gymnasium knows it by name, so that a dataset can make it again."""
    with contextlib.suppress(gymnasium.error.Error):
        return None if run.settings["env_kwargs"] else gymnasium.spec(run.settings["env"])
    return None


def _buffers(run: Record) -> Iterator[dict[str, object]]:
    """The episodes in Minari's words."""
    for number, episode in enumerate(episodes(run)):
        last = np.arange(len(episode)) == len(episode) - 1
        infos = {
            "expert_action": episode.expert_actions,
            "target": episode.targets,
            "by_expert": episode.by_expert,
            "asked": episode.asked,
            "weight": episode.weights,
            "known": np.ones(len(episode), bool),
        }
        seen = [(path, np.concatenate([part, part[-1:]])) for path, part in parts(episode.observations)]
        yield {
            "id": number,
            "observations": nest(seen),
            "actions": episode.actions,
            "rewards": episode.rewards,
            "terminations": last & episode.terminated,
            "truncations": last & (not episode.terminated),
            "infos": {name: np.concatenate([part, _nothing(part)]) for name, part in infos.items()},
        }


def _nothing(part: np.ndarray) -> np.ndarray:
    """A row that says that there is nothing: nan, −1 or false."""
    empty = np.zeros_like(part[:1])
    return empty if part.dtype == bool else empty + (np.nan if part.dtype.kind == "f" else -1)
