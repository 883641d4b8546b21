"""A model card: what stands on it, the folder that a hub takes, and what is refused."""

from __future__ import annotations

import json
import re

import pytest

import understudy
from understudy import UserError, imitate
from understudy.cli import main
from understudy.report.card import FILES, write_card

SMALL = {"policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 4, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("card") / "cart"
    imitate("CartPole-v1", out=out, learner="ftrl", eta=0.1, **SMALL)
    return out


def front(text: str) -> dict:
    """The header of a card: lines of a name and JSON, which YAML reads too."""
    head = text.split("---\n")[1]
    return {name: json.loads(value) for name, value in (line.split(": ", 1) for line in head.splitlines())}


def test_the_card_says_what_a_stranger_asks(folder):
    run = understudy.load(folder)
    text = write_card(folder, license="mit").read_text()
    header, told = front(text), run.summary()
    assert header["license"] == "mit" and "CartPole-v1" in header["tags"]
    [result] = header["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == f"{told['return_mean']:.2f} +/- {told['return_std']:.2f}"
    assert re.search(r"^\| return \| [\d.]+ \((95 % interval -?[\d.]+ to [\d.]+|each time)\) \|$", text, re.M)
    assert "| over | 4 episodes, the least " in text and "the expert `lqr-CartPole-v1`" in text
    assert f"| labels | {told['labels']} |" in text and '"eta": 0.1' in text
    typed = "understudy train CartPole-v1 --learner ftrl --eta 0.1"
    assert typed in text and str(folder.parent) not in text
    assert text.count("`mit`") == 1 and "jax" in text
    # It lies beside the policy, and the run is still whole.
    assert (folder / "policy.safetensors").is_file() and understudy.load(folder).summary() == told


def test_a_folder_for_a_hub_has_card_config_and_weights_and_plays(folder, tmp_path, capsys):
    out = tmp_path / "hub"
    assert main(["card", str(folder), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["folder"] == str(out)
    assert sorted(one.name for one in out.iterdir()) == sorted(FILES)
    text = (out / "README.md").read_text()
    assert "license" not in front(text) and "None is stated" in text
    observation = [0.0, 0.0, 0.1, 0.0]
    mine, theirs = understudy.load(folder).policy, understudy.TrainedPolicy.load(out)
    assert mine(observation) == theirs(observation) == understudy.load(out)(observation)
    assert write_card(folder, out).read_text() == text  # again, over its own files
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        write_card(folder, out)


def test_what_was_not_measured_is_not_claimed(tmp_path):
    def act(observation):
        return int(observation[2] > 0)

    run = imitate("CartPole-v1", expert=act, **SMALL | {"episodes": 0})
    text = write_card(run.save(tmp_path / "run")).read_text()
    assert "model-index" not in front(text) and "| return | not measured |" in text
    assert "was an object of Python" in text and "understudy train" not in text


def test_what_has_no_card_is_refused(folder, tmp_path):
    with understudy.Run("CartPole-v1", out=tmp_path / "half", **SMALL) as run:
        run.step()
    for path, options, told in (
        (tmp_path / "half", {}, "is not finished; go on with --resume"),
        (tmp_path, {}, "is not the folder of a run"),
        (folder, {"license": "mit\nmodel-index: []"}, "is not a name of a licence"),
    ):
        with pytest.raises(UserError, match=told):
            write_card(path, **options)
