"""The worst day, in short: a few cases of the scenes that need no process of their own."""

from __future__ import annotations

import random

import pytest

from torture import damage, faults, fuzz
from torture.run import SCENES

SHORT = [
    (damage.flips, 60),
    (damage.cuts, 30),
    (damage.labels, 30),
    (faults.full, 6),
    (faults.environments, 1),
    (fuzz.lines, 60),
    (fuzz.specs, 80),
    (fuzz.archives, 20),
]


@pytest.mark.parametrize(("scene", "cases"), SHORT, ids=lambda one: getattr(one, "__name__", ""))
def test_nothing_is_lost(scene, cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert f"{scene.__module__.split('.')[-1]}.{scene.__name__}" in SCENES
    found = scene(tmp_path, cases, random.Random(1))
    assert found.cases >= min(cases, 6) and not found.lost and not found.idle


def test_a_byte_that_nobody_checks_would_be_noticed(tmp_path, monkeypatch):
    """Negative control: with checksums that say yes to everything the same scene has losses."""
    from understudy.samples.records import Record

    monkeypatch.setattr(Record, "damage", lambda self, folder, but=(): None)
    assert damage.flips(tmp_path, 60, random.Random(1)).lost


def test_a_scene_in_which_nothing_happens_has_failed(tmp_path, monkeypatch):
    """Negative control: environments that never raise."""
    monkeypatch.setattr(faults._Crashing, "step", lambda self, action: self.env.step(action))
    found = faults.environments(tmp_path, 1, random.Random(1))
    assert found.idle and found.lost == ["case 0: nothing crashed"]
