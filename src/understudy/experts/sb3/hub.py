"""Experts from the Hugging Face Hub: `org/repo`, by Stable-Baselines3's convention `{org}/{algo}-{env}`.

The archive is `{algo}-{env}.zip`, and statistics, where observations were normalised, are
`vec_normalize.pkl`. Both are read by this package's own readers: nothing from a downloaded file is run.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from ...errors import UserError, needs, said
from ..base import Expert

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
STATISTICS = "vec_normalize.pkl"


def is_hub_name(text: str) -> bool:
    """Whether a text has the form `org/repo`.

    >>> is_hub_name("sb3/ppo-CartPole-v1"), is_hub_name("./here/ppo.zip")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def load(
    name: str,
    *,
    filename: str | None = None,
    revision: str | None = None,
    activation: str | None = None,
    vec_normalize: str | None = None,
) -> Expert:
    """The expert in the repository `org/repo`; `filename` where it does not follow the convention `repo.zip`.

    The repository's own `vec_normalize.pkl` is used where there is one, unless `vec_normalize` names a file
    of yours.
    """
    from . import archive

    if not is_hub_name(name):
        raise UserError(f"expert: {name!r} is not a name of the form org/repo.")
    repo = name.split("/")[1]
    filename = filename or f"{repo}.zip"
    path = download(name, filename, revision)
    if path is None:
        raise UserError(f"expert: {name!r} on the hub has no file {filename!r}; give filename=.")
    statistics = vec_normalize or download(name, STATISTICS, revision)
    expert = archive.load(path, activation=activation, vec_normalize=statistics, name=name)
    return dataclasses.replace(
        expert, card={**expert.card, "source": f"hub:{name}/{filename}", "revision": revision}
    )


def download(repo: str, filename: str, revision: str | None) -> Path | None:
    """The local copy of a file on the hub, downloaded once; None where the repository has no such file."""
    here = f"expert: there is no folder or file {repo!r} here; to look for it on the Hugging Face Hub one"
    client, errors = (needs(one, here, "hub") for one in ("huggingface_hub", "huggingface_hub.errors"))
    try:
        return Path(client.hf_hub_download(repo, filename, revision=revision))
    except errors.LocalEntryNotFoundError:  # not in the local copy, and the hub could not be reached
        raise UserError(f"expert: {repo!r} could not be fetched, the hub cannot be reached.") from None
    except errors.EntryNotFoundError:
        return None
    except errors.RepositoryNotFoundError:
        raise UserError(f"expert: there is no repository {repo!r} on the hub (or it is private).") from None
    except Exception as error:  # the network, the proxy, the disk: a library's worth of reasons
        raise UserError(f"expert: {repo!r} could not be fetched ({said(error)}).") from error
