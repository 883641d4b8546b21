"""A model card: what a kept policy is, what it reaches and how it was made, beside the policy's two files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path

from .. import __version__, disk
from ..disk import Json
from ..errors import UserError
from ..policies.trained import write
from ..runs import Record, unmeasured
from .account import command
from .sources import read_folder
from .tables import many, returned, within

FILES = ("README.md", "policy.json", "policy.safetensors")
"""What a folder for a hub holds: the card, the policy's config and its weights."""


def write_card(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    license: str = "",
    title: str = "",
) -> Path:
    """Writes the model card of a finished run, and returns its path.

    Args:
      run: the run's folder.
      out: a new folder for the card, the policy's config and its weights, to be handed on as it is. None: the
        card is README.md in the run's folder, beside the policy.
      license: under which the policy may be used, as a hub spells it ("mit", "apache-2.0"). Without it the
        card says that none is stated.
      title: the card's heading, by default learner and environment.

    >>> import tempfile, understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=2, steps_per_round=40, episodes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run")
    ...     card = write_card(f"{folder}/run", f"{folder}/hub", license="mit")
    ...     understudy.load(card.parent)([0.0, 0.0, 0.1, 0.0]), sorted(os.listdir(card.parent))
    PosixPath('...')
    (np.int64(1), ['README.md', 'policy.json', 'policy.safetensors'])
    """
    record = Record.load(run)
    if not (Path(run) / "summary.json").is_file():
        raise UserError(f"card: the run in {str(run)!r} is not finished; go on with --resume.")
    if license and not license.replace("-", "").replace(".", "").isalnum():
        raise UserError(f"license: {license!r} is not a name of a licence, such as mit or apache-2.0.")
    text = card(record, Path(run), license, title)
    if out is None:
        target = Path(run) / FILES[0]
    else:
        folder = Path(out)
        if folder.exists() and any(one.name not in FILES for one in folder.iterdir()):
            raise UserError(f"out: {str(out)!r} holds other files; name a new folder.")
        with disk.reporting(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / "policy", *record.policy.packed())
        target = folder / FILES[0]
    with disk.reporting(target):
        disk.write_file(target, text)
    return target


def card(record: Record, folder: Path, license: str, title: str) -> str:
    """The text of a card: a header that hubs read, and sections for people."""
    told = record.summary()
    title = title or f"{told['learner']} on {told['env']}"
    [run] = read_folder(folder)
    run = dataclasses.replace(run, folder=Path("runs") / folder.resolve().name)
    typed = f"    {command(run)}"
    if run.own:
        typed = f"A part of it ({', '.join(run.own)}) was an object of Python, so no command makes it again."
    header: dict[str, Json] = {
        "library_name": "understudy",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["imitation-learning", "DAgger", "reinforcement-learning", told["env"]],
        **({"license": license} if license else {}),
    }
    if told["return_mean"] is not None:
        value = f"{told['return_mean']:.2f} +/- {told['return_std'] or 0.0:.2f}"
        metric = {"type": "mean_reward", "name": "mean_reward", "value": value, "verified": False}
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        data = {"name": told["env"], "type": told["env"]}
        header["model-index"] = [
            {"name": title, "results": [{"task": task, "dataset": data, "metrics": [metric]}]}
        ]
    teacher = _expert(record)
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    about = "\n".join(f"| {name} | {value} |" for name, value in _score(record))
    kept = json.dumps({name: value for name, value in run.settings.items() if name != "env"}, indent=1)
    # YAML reads JSON, so nothing in a name can end a value.
    front = "\n".join(f"{name}: {json.dumps(value)}" for name, value in header.items())
    return f"""---
{front}
---

# {title}

A policy that acts in `{told["env"]}` as {teacher} would. It learned from {told["labels"]:,} labels in
{many(told["rounds"], "round")}, by online imitation learning with understudy {__version__}.

## Use

```python
import understudy

policy = understudy.TrainedPolicy.load("PATH/TO/THIS/FOLDER")
action = policy(observation)
```

    {str(record.policy).replace(chr(10), chr(10) + "    ")}

{FILES[1]} says what the network is, what it sees and does; {FILES[2]} has its numbers. Nothing in them is
executed.

## Score

| | |
|---|---|
{about}

The episodes chose nothing: neither the policy nor when to stop.

## How it was made

{typed}

Settings that are not defaults:

```json
{kept}
```

It is the policy of round {told["kept_round"]} of {told["rounds"]}. Made with {versions}.

## Limits

It was trained and judged in this environment alone, and does what its expert does there, faults included.
Its return is measured on the episodes above, and nothing is proved of it.

## Licence

{f"`{license}`." if license else "None is stated: ask whoever gave you the policy."}
"""


def _expert(record: Record) -> str:
    settings = record.settings
    if settings.get("expert") == "person":
        return "a person"
    named = settings["resolved"].get("expert") or settings.get("expert")
    by_name = isinstance(named, str) and named != "none"
    return f"the expert `{named}`" if by_name else "recorded demonstrations"


def _score(record: Record) -> Iterable[tuple[str, str]]:
    """Rows of the table of returns."""
    told = record.summary()
    if told["return_mean"] is None:
        yield "return", "not measured"
        return

    def spelt(name: str, low: str, high: str) -> str:
        ends = [float("nan") if told[end] is None else told[end] for end in (low, high)]
        return within(told[name], *ends)

    yield "return", spelt("return_mean", "return_low", "return_high")
    least = returned(told["return_least"], beside=[told["return_mean"]])
    yield "over", f"{many(told['episodes'], 'episode')}, the least {least}"
    if record.expert_evaluation is not None:
        yield "the expert's return", spelt("expert_return_mean", "expert_return_low", "expert_return_high")
        if told["difference"] is not None:
            yield (
                "difference from it",
                spelt("difference", "difference_low", "difference_high") + ", on the same episodes",
            )
    elif told["expert_return_mean"] is not None:
        yield "the expert's return", f"{returned(told['expert_return_mean'])} (by its card, other episodes)"
    else:
        yield "the expert's return", f"not measured: {unmeasured(record.settings)}"
    yield "labels", f"{told['labels']:,}"
