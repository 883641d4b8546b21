"""Fresh checkpoints in rsl_rl's layouts, compared with the installed torch."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.experts import resolve

pytest.importorskip("torch")
from sb3.checkpoints import LAYOUTS, rsl_rl

pytestmark = pytest.mark.sb3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fresh_checkpoint_answers_as_torch_does(layout, tmp_path):
    rsl_rl(tmp_path, layout)
    with np.load(tmp_path / f"{layout}-outputs.npz") as known:
        found = resolve(str(tmp_path / f"{layout}.pt")).label(known["observations"])
        assert np.abs(found[:, : known["actions"].shape[1]] - known["actions"]).max() < 1e-6
