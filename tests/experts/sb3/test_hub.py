"""Names on the hub: the convention, its files, and what is said when one is missing. No network is used."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from recorded import arrays
from understudy import experts
from understudy.errors import MissingExtra, UserError
from understudy.experts.sb3 import archive

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sb3"


@pytest.fixture
def client(monkeypatch):
    """A stand-in for huggingface_hub that serves the fixtures and remembers what it was asked for."""
    errors = types.ModuleType("huggingface_hub.errors")
    for name in ("EntryNotFoundError", "RepositoryNotFoundError"):
        setattr(errors, name, type(name, (Exception,), {}))
    errors.LocalEntryNotFoundError = type("LocalEntryNotFoundError", (errors.EntryNotFoundError,), {})
    fake = types.ModuleType("huggingface_hub")
    fake.errors, fake.asked, fake.files = errors, [], {}

    def hf_hub_download(repo, filename, revision=None):
        fake.asked.append((repo, filename, revision))
        found = fake.files.get((repo, filename), errors.EntryNotFoundError("404"))
        if isinstance(found, Exception):
            raise found
        return str(found)

    fake.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return fake


def test_a_name_is_an_archive_by_convention(client):
    client.files["sb3/dqn-Some-v1", "dqn-Some-v1.zip"] = FIXTURES / "dqn-discrete.zip"
    expert = experts.resolve("sb3/dqn-Some-v1")
    known = arrays(FIXTURES / "dqn-discrete.npz")
    np.testing.assert_array_equal(expert.label(known["observations"]), known["actions"])
    assert (expert.name, expert.card["source"]) == ("sb3/dqn-Some-v1", "hub:sb3/dqn-Some-v1/dqn-Some-v1.zip")
    assert client.asked[0] == ("sb3/dqn-Some-v1", "dqn-Some-v1.zip", None)


def test_the_repositorys_statistics_are_used(client):
    client.files["me/ppo-x", "best.zip"] = FIXTURES / "ppo-normalised.zip"
    client.files["me/ppo-x", "vec_normalize.pkl"] = FIXTURES / "ppo-normalised.pkl"
    expert = archive.from_hub("me/ppo-x", filename="best.zip", revision="v1")
    known = arrays(FIXTURES / "ppo-normalised.npz")
    np.testing.assert_allclose(expert.label(known["observations"]), known["actions"], atol=1e-6)
    assert client.asked == [("me/ppo-x", "best.zip", "v1"), ("me/ppo-x", "vec_normalize.pkl", "v1")]


def test_what_is_missing_is_one_sentence(client):
    with pytest.raises(UserError, match=r"'me/ppo-x' on the hub has no file 'ppo-x\.zip'; give filename="):
        archive.from_hub("me/ppo-x")
    client.files["me/ppo-x", "ppo-x.zip"] = client.errors.RepositoryNotFoundError("404")
    with pytest.raises(UserError, match="there is no repository 'me/ppo-x'"):
        archive.from_hub("me/ppo-x")
    client.files["me/ppo-x", "ppo-x.zip"] = client.errors.LocalEntryNotFoundError("offline")
    with pytest.raises(UserError, match="cannot be reached"):
        archive.from_hub("me/ppo-x")
    client.files["me/ppo-x", "ppo-x.zip"] = OSError("no space\nleft")
    with pytest.raises(UserError, match=r"could not be fetched \(OSError: no space left"):
        archive.from_hub("me/ppo-x")
    with pytest.raises(UserError, match="org/repo"):
        archive.from_hub("not a name")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"understudy\[hub\]"):
        experts.resolve("sb3/ppo-CartPole-v1")


@pytest.mark.parametrize("text", ["a", "a/b/c", "/a/b", "./a", "a b/c", "a/", "../a/b"])
def test_what_is_no_hub_name(text):
    assert not archive.is_hub_name(text)
