"""Runs in which some of the states are labelled: the account, the budget, the weights."""

from __future__ import annotations

import itertools
import shutil
from functools import partial

import jax
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from runs.counting import Counting, answering, half
from runs.pieces import resumed
from understudy import Record, Understudy, UserError, evaluate, imitate
from understudy.asking.rules import Random
from understudy.asking.visited import Visited
from understudy.defaults import COURSE, FEW_LABELS, SPARSE, plan_of, resolve
from understudy.experts import Expert
from understudy.losses import CrossEntropy, Huber, Squared
from understudy.policies import Actions
from understudy.runs.evaluate import LOOKED
from understudy.samples import EXPERT
from understudy.spec import RunSpec
from understudy.student import ANEW, Compiled
from understudy.studies import play

SMALL = {"policy": "linear", "steps_per_round": 40, "episodes": 0, "expert_episodes": 0, "num_envs": 2}
CARTPOLE = {"env": "CartPole-v1", "loss": "squared"}


def asking(ask: str, **more):
    expert = answering(half)
    run = imitate(Counting, expert=expert, ask=ask, **(SMALL | {"rounds": 4} | more))
    return run, sum(expert.card["asked"])


@pytest.mark.parametrize("ask", ["random:6", "fraction:0.2", "distance:6", "all"])
@pytest.mark.parametrize("beta", [0.0, 0.25])
def test_the_account_is_what_the_expert_was_asked(ask, beta):
    run, asked = asking(ask, beta=beta, first_steps=20)
    ledger, weights = run.ledger, run.samples("weights")
    assert ledger["labels"][-1] == asked == np.count_nonzero(weights)
    assert ledger["steps"].tolist() == [20, 60, 100, 140] and len(weights) == 140
    assert ledger["samples"].tolist() == np.diff([0, *ledger["labels"]]).tolist()
    assert np.allclose(ledger["asked"] * [20, 40, 40, 40], ledger["samples"])
    assert ((run.samples("targets")[:, 0] == 0.5) == (weights > 0)).all()
    acted = run.samples("flags") & EXPERT > 0
    sizes = np.repeat([20, 40, 40, 40], [20, 40, 40, 40])
    if ask.startswith("distance"):
        sums = [part.sum() for part in np.split(weights, [20, 60, 100])]
        assert np.allclose(sums, 1.0)  # a mean over the labelled
    else:
        assert np.allclose(weights[acted], 1 / sizes[acted])  # p = 1
    if beta == 0.0 and ask.endswith(":6"):
        assert ledger["samples"].tolist() == [20, 6, 6, 6]


def test_leverage_is_that_of_the_round_alone_where_no_label_is_known():
    run, asked = asking("leverage:0.3", first_round="agent", rounds=1)
    assert 0 < asked == run.ledger["labels"][-1] < 40


def test_a_budget_is_spent_exactly_over_as_many_rounds_as_it_takes():
    run, asked = asking("random:6", rounds=None, budget=45, first_steps=20)
    assert asked == run.ledger["labels"][-1] == 45
    assert run.ledger["samples"].tolist() == [20, 6, 6, 6, 6, 1]
    assert plan_of(RunSpec(env=Counting, ask="all", budget=45, steps_per_round=20)).sizes == (20, 20, 5)
    assert len(plan_of(RunSpec(env=Counting)).sizes) == 25
    run, asked = asking("random:6", rounds=30, budget=45, first_steps=20, beta=0.5)
    assert asked == run.ledger["labels"][-1] == 45  # the expert does not act where nothing is left
    run, asked = asking("fraction:0.3", rounds=30, budget=45, first_steps=20)
    assert asked == 45 and run.ledger.rounds < 10 and np.isfinite(run.ledger["regret"][-1])


def test_a_larger_budget_that_is_not_spent_whole_is_told(tmp_path):
    settings = SMALL | {"steps_per_round": 20, "rounds": None, "comparator": "none"}

    def go(budget, **more):
        return asking("all", **settings | {"budget": budget, "out": tmp_path / "run"}, **more)[0]

    go(45)
    with pytest.warns(UserWarning, match=r"^budget: 50 of 65 labels .* had 15 fewer .* --budget 80"):
        assert go(65, resume=True).ledger["labels"].tolist() == [20, 40, 45, 50]
    shutil.rmtree(tmp_path / "run")
    go(45)
    with pytest.warns(UserWarning, match=r"^budget: 65 of 80"):
        assert go(80, resume=True).ledger["labels"].tolist() == [20, 40, 45, 65]


def test_the_loss_of_few_labels_is_hubers():
    expert, wide, push = Expert("x", ask=print), spaces.Box(-3, 1, (2,), np.float32), spaces.Discrete(2)

    def loss(actions=wide, **settings):
        made = RunSpec(env="Hopper-v5", **{"budget": 100, **settings})
        return resolve(made, spaces.Box(-1, 1, (3,), np.float32), Actions.of(actions), expert).loss

    assert loss() == Huber(delta=0.4)  # a tenth of the range
    assert loss(ask="all") == Huber(delta=0.4)
    for other in (
        {"budget": None, "rounds": 5},
        {"preset": "paper"},
        {"policy": "linear"},
        {"loss": "squared"},
    ):
        assert loss(**other) == Squared()
    assert loss(spaces.Box(-np.inf, np.inf, (2,), np.float32)) == Squared()
    assert loss(loss="huber") == Huber() and loss(push) == CrossEntropy()


def test_few_labels_of_many_inputs_have_a_lasso():
    def options(inputs, **settings):
        made = RunSpec(env="Hopper-v5", **{"budget": 100, **settings})
        seen = spaces.Box(-1, 1, (inputs,), np.float32)
        actions = Actions.of(spaces.Box(-1, 1, (2,), np.float32))
        return resolve(made, seen, actions, Expert("x", ask=print)).solver_options

    assert options(65).items() >= SPARSE.items() and options(64)["weight_decay"] == FEW_LABELS["weight_decay"]
    assert options(65, lasso=0.0)["lasso"] == 0.0
    assert "lasso" not in options(64) | options(65, budget=None, rounds=5) | options(65, preset="paper")
    assert options(9).items() >= FEW_LABELS.items()
    assert not {"passes", "most_passes"} & options(9, max_iterations=10).keys()


def test_a_budget_alone_is_spread_by_the_practical_preset():
    def plan(budget=403, **other):
        return plan_of(RunSpec(env="Hopper-v5", budget=budget, **other))

    sizes, labels = zip(*plan().rounds, strict=True)
    assert sum(labels) == 403 and labels[0] == sizes[0] == 200 and set(labels[1:-1]) == {20}
    assert set(sizes[1:]) == {1000} and (plan().ask, plan().keep_best) == ("distance:20", True)
    for other in ({"rounds": 3}, {"ask": "all"}, {"learner": "bc"}, {"preset": "paper"}, {"beta": 0.5}):
        assert plan(**other).rule is None and not plan(**other).keep_best
    assert plan(policy="nature_cnn").ask == "random:20"
    assert plan(first_steps=7).rounds[0] == (7, 7)
    with pytest.raises(UserError, match="budget: 10000000 takes more than 100,000 rounds"):
        plan(10_000_000, ask="random:10")
    assert [plan(n).sizes[0] for n in (1, 100, 800, 4000)] == [1, 50, 200, 1000]


def test_the_loss_of_a_round_is_weighted_by_one_over_p():
    """Linear policy, squared loss: losses and the best in hindsight against NumPy on the samples kept."""
    run, _ = asking("fraction:0.3", comparator="last", preset="paper", noise=0.0)
    rows = np.flatnonzero(run.samples("weights"))
    x, y = (run.samples(name)[rows].astype(np.float64) for name in ("inputs", "targets"))
    assert np.allclose(run.samples("weights")[rows], 1 / (40 * 0.3))
    first = rows < 40  # the parameters start at zero
    assert run.ledger["loss"][0] == pytest.approx((y[first, 0] ** 2 / (40 * 0.3)).sum())
    root = np.sqrt(1.0 / (40 * 0.3))
    rest = np.linalg.lstsq(root * x, root * y, rcond=None)[1]
    assert run.ledger["comparator"][-1] == pytest.approx(rest.sum())
    plain = np.linalg.lstsq(x, y, rcond=None)[1] / 40  # without the weights it is another number
    assert run.ledger["comparator"][-1] != pytest.approx(plain.sum(), rel=0.1)


def test_one_run_beside_others_and_one_resumed_choose_the_same_states(tmp_path):
    from understudy.studies.shard import play as shard

    settings = SMALL | CARTPOLE | {"rounds": 3, "ask": "distance:6", "first_steps": 20}
    alone, _ = resumed(partial(imitate, **settings, seed=1), tmp_path, 2)
    beside = shard([settings | {"seed": seed} for seed in (0, 1)])[1]
    assert [row["loss"] for row in beside.rows] == alone.ledger["loss"].tolist()


def test_an_expert_that_raises_when_asked_after_the_round_is_one_sentence():
    def moody(observations):
        if len(observations) > 2:
            raise ValueError("too many at once")
        return half(observations)

    with pytest.raises(UserError, match="round 2: expert: ValueError: too many at once"):
        imitate(Counting, expert=answering(moody), ask="random:6", rounds=3, **SMALL)


def test_on_the_spot_the_expert_takes_over_and_the_books_are_kept_apart():
    run, asked = asking("distance:0.3", moment="spot", rounds=5, first_steps=20)
    ledger, acted = run.ledger, run.samples("flags") & EXPERT > 0
    assert asked == ledger["labels"][-1] == acted.sum() < 180
    assert ((run.samples("weights") > 0) == acted).all()  # it labels what it drives, and nothing else
    assert ledger["handovers"][0] == 0 and ledger["handovers"][1:].sum() > 0
    assert ledger["by_expert"][0] == 1.0 and (ledger["by_expert"][1:] < 1).all()
    run, asked = asking("distance:0.3", moment="spot", rounds=5, budget=30, first_steps=20)
    assert asked == run.ledger["labels"][-1] == 30
    run, asked = asking("distance:0.3", moment="spot", rounds=3, random_share=0.5, first_steps=20)
    acted = run.samples("flags") & EXPERT > 0
    assert asked > acted.sum()  # some of the policy's own states, at random
    run, asked = asking("distance:0.3", moment="spot", rounds=3, ask_options={"mix": 0.5}, first_steps=20)
    assert asked > (run.samples("flags") & EXPERT > 0).sum()
    for weights in np.split(run.samples("weights"), [20, 60])[1:]:
        assert len(np.unique(weights[weights > 0])) == 1  # those at random weigh as the others
    with pytest.raises(UserError, match="moment: 'spot' needs a rule with a threshold"):
        plan_of(RunSpec(env=Counting, ask="random:5", moment="spot"))


COMMITTEE = SMALL | {"env": "Pendulum-v1", "policy": "mlp", "widths": (8,), "rounds": 4, "episodes": 1}
COMMITTEE |= {"comparator": "none", "ensemble": 3, "episode_limit": 50}


def test_a_committee_is_evaluated_and_kept_and_one_of_it_acts(tmp_path):
    settings = COMMITTEE | {"max_iterations": 200, "learning_rate": 0.01, "evaluate_every": 1}
    alone = imitate(**settings | {"ensemble": None})
    run, _ = resumed(partial(imitate, **settings), tmp_path, 2)
    assert run.ledger["loss"].tolist() == alone.ledger["loss"].tolist()  # the same network acts
    assert (run.ledger["return_mean"] != alone.ledger["return_mean"]).all()
    committee = run.policy.policy
    assert committee.members == 3
    member, params = committee.last(run.policy.params)
    assert member == alone.policy.policy and _same(params, alone.policy.params)
    firsts = np.asarray(run.policy.params[0]["weight"])
    assert len(np.unique(firsts[:, 0, 0])) == 3  # each from a start of its own
    inputs, targets = (run.samples(name) for name in ("inputs", "targets"))
    rows = run.policy.normaliser(inputs)

    @jax.jit
    def error(params):
        return ((member.apply(params, rows) - targets) ** 2).mean()

    start = jax.jit(lambda key: member.init(key, rows.shape[1], targets.shape[1]))(jax.random.key(0))
    errors = [error(jax.tree.map(lambda leaf, i=i: leaf[i], run.policy.params)) for i in range(2)]
    assert max(errors) < 0.6 * error(start), (errors, error(start))  # the others have learnt too
    silent = imitate(**settings | {"episodes": 0, "evaluate_every": 0})
    assert silent.policy.policy.members == 3 and _same(silent.policy.params, run.policy.params)
    started = imitate(**settings | {"episodes": 0, "ensemble": None}, init=tmp_path / "whole")
    assert started.ledger.rounds == 4  # from the member that acted


def _same(one, other):
    return jax.tree.all(jax.tree.map(np.array_equal, one, other))


@pytest.mark.slow
def test_members_are_the_same_alone_in_one_program_and_of_stacked_runs():
    settings = COMMITTEE | {"max_iterations": 20, "seed": 1}
    alone, together = [], []

    complete = Understudy.complete

    def both(student):
        if student.ensemble:
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax, "default_backend", lambda: "gpu")
            complete(student)
        together.append(student.ensemble[:-1])
        student.ensemble = []
        complete(student)
        alone.append(student.ensemble[:-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Understudy, "complete", both)
        run = imitate(**settings)
    assert len(alone) == 1 and _near(together, alone) and not _near(*alone[0])
    played = play([settings, settings | {"seed": 2}], together=True)
    wanted = evaluate(run.policy, "Pendulum-v1", episodes=1, limit=50).mean
    assert np.isclose(played[0].summary["return_mean"], wanted, rtol=1e-3)
    assert not np.isclose(played[1].summary["return_mean"], wanted, rtol=1e-3)


def _near(one, other):
    return jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-4, atol=1e-6), one, other))


def test_committees_and_means_that_do_not_exist_are_refused():
    mlp = SMALL | {"env": "Pendulum-v1", "policy": "mlp"}
    for settings, sentence in (
        (mlp | {"ensemble": 2, "learner": "adaftrl"}, "ensemble: 2 is for networks"),
        (SMALL | CARTPOLE | {"ensemble": 2}, "ensemble: 2 is for networks"),
        (mlp | {"average": 2}, "average: 2 is for policies that are linear"),
    ):
        with pytest.raises(UserError, match=f"^{sentence}"):
            imitate(**settings)


def behind(found, best):
    """By hand: in the mean of the episodes that both have played, and in that of all."""
    both = (found[: len(best)] - best[: len(found)]).mean() if len(best) else 0.0
    return both < 0 and found.mean() < best.mean()


def raced(policy, best):
    """Returns by hand: two episodes at a time, the same for all, until behind or known to 1 %."""
    found = np.zeros(0)
    for number in LOOKED[:1] + LOOKED[2 : COURSE + 1]:
        more = evaluate(policy, "CartPole-v1", episodes=2, seed=29, number=number)
        found = np.append(found, more.returns)
        known = len(found) >= len(best) and stats.sem(found) <= 0.01 * found.mean()
        if behind(found, best) or known:
            break
    return found


def test_the_best_policy_is_kept_and_judged_by_episodes_that_did_not_choose_it(tmp_path):
    settings = SMALL | CARTPOLE | {"rounds": 6, "steps_per_round": 6, "average": 2, "seed": 29}
    settings |= {
        "comparator": "none",
        "episodes": 2,
        "evaluate_every": 1,
        "ask": "random:2",
        "first_round": "agent",
    }
    run, again = resumed(partial(imitate, **settings, keep_best=True), tmp_path, 1, 4, 6)
    last = imitate(**settings)
    assert run.kept_round == again.kept_round == Record.load(tmp_path / "whole").kept_round < 6
    assert last.kept_round == 6 and last.policy.policy.name == "linear"  # a mean is no committee
    wanted, once, kept, best, counts = [], [], 0, np.zeros(0), set()
    for t in range(1, 7):  # by hand: what would be the best plays on until it is behind
        policy = imitate(**settings | {"rounds": t}).policy
        first = evaluate(policy, "CartPole-v1", episodes=2, seed=29, number=LOOKED[0]).returns
        once.append(first.mean())
        alike = evaluate(policy, "CartPole-v1", episodes=2).mean  # where nothing is chosen, as all runs
        assert alike == last.ledger["return_mean"][t - 1]
        found = raced(policy, best)
        counts.add(len(found))
        if not behind(found, best):
            kept, best, chosen = t, found, policy
        wanted.append(found.mean())
    returns = run.ledger["return_mean"]
    assert run.kept_round == kept and returns.tolist() == again.ledger["return_mean"].tolist() == wanted
    assert np.argmax(once) + 1 != kept, "one evaluation would have kept another"
    assert np.allclose(run.policy.params, chosen.params, rtol=1e-6)
    assert len(counts) > 2, "some are known well early, or fall behind, and some are not"
    fresh = evaluate(run.policy, "CartPole-v1", episodes=2).returns.tolist()  # others, that chose nothing
    assert run.evaluation.returns.tolist() == fresh == again.evaluation.returns.tolist()
    plans = [plan_of(RunSpec(env="CartPole-v1", budget=100, keep_best=best)) for best in (None, False)]
    assert [(plan.keep_best, len(plan.evaluated)) for plan in plans] == [(True, 11), (False, 1)]


def test_a_network_that_is_new_in_an_ensemble_is_trained_longer_and_goes_on(tmp_path):
    trained, solve = [], Compiled.solved

    def solved(game, losses, starts, keys):
        found = solve(game, losses, starts, keys)
        trained.append((int(losses.rounds), starts, found))
        return found

    settings = COMMITTEE | {"max_iterations": 20, "evaluate_every": 1, "expert_episodes": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "solved", solved)
        run = imitate(**settings, keep_best=True)
        turns = [1] * ANEW + list(range(2, run.ledger.rounds + 1))
        assert [t for t, *_ in trained] == turns and run.ledger.rounds > 2
        for (_, _, before), (_, starts, _) in itertools.pairwise(trained):
            assert starts is before
        trained.clear()
        imitate(**settings)  # the last one is kept: what was looked at on the way changes nothing
        assert [t for t, *_ in trained] == [t for t in turns for _ in range(ANEW)][-len(trained) :]
        assert len(trained) == ANEW * run.ledger.rounds
    imitated = [imitate(**settings | {"evaluate_every": every}) for every in (0, 1)]
    assert _same(*(one.policy.params for one in imitated))
    compared = settings | {"expert_episodes": 2, "keep_best": True}
    run, again = resumed(partial(imitate, **compared), tmp_path, 1, 3)  # members and the race go on
    assert run.expert_calls == again.expert_calls > 2 * 50


def test_a_return_that_is_no_number_is_behind_every_other():
    class Broken(Counting):
        """Its first rewards are not numbers."""

        steps = 0

        def step(self, action):
            Broken.steps += 1
            observation, reward, *rest = super().step(action)
            return observation, np.nan if Broken.steps < 45 else reward, *rest

    settings = SMALL | {
        "steps_per_round": 20,
        "episodes": 2,
        "evaluate_every": 1,
        "keep_best": True,
        "rounds": 3,
    }
    run = imitate(Broken, expert=answering(half), **settings)
    assert np.isnan(run.ledger["return_mean"][0]) and run.kept_round > 1


def test_states_in_which_the_expert_should_have_acted_and_was_silent_are_counted():
    """The policy acts in its place, and the rule may not ask about them."""
    silent = []

    def act(observation):
        if observation[1] == 1:
            silent.append(1)
            raise RuntimeError("no idea")
        return np.array([0.5])

    about = {"beta": 0.5, "ask": "random:3", "expert_workers": 1, "expert_retries": 0, "rounds": 2}
    run = imitate(Counting, expert=act, **SMALL | about)
    assert run.ledger["unanswered"][-1] == len(silent) > 3


def test_labels_weigh_alike_where_a_network_learns_from_a_budget(tmp_path):
    small = {"policy": "mlp", "widths": (8,), "max_iterations": 20, "comparator": "none", "ensemble": 1}
    small |= {"budget": 30, "first_steps": 15, "steps_per_round": 40, "episodes": 0}
    weights = {}
    for weigh, ask in ((None, "random:6"), ("rounds", "random:6"), ("labels", "fraction:0.2")):
        run = imitate("Pendulum-v1", ask=ask, weigh=weigh, **small)
        parts = np.split(run.samples("weights"), np.cumsum(np.diff([0, *run.ledger["steps"]]))[:-1])
        weights[weigh, ask] = [part[part > 0] for part in parts]
        assert np.isnan(run.ledger["visited_high"][1:]).all() == (ask == "fraction:0.2")  # see `Visited`
        if weigh is None and ask == "random:6":
            # The first loss is that of the policy before it learnt: a mean over labels, times 15/6.
            alike = run.ledger["loss"][0]
        elif weigh == "rounds":
            assert alike == pytest.approx(15 / 6 * run.ledger["loss"][0])
    assert [len(part) for part in weights[None, "random:6"]] == [15, 6, 6, 3]
    assert np.allclose(np.concatenate(weights[None, "random:6"]), 1 / 6)
    assert [part.sum() for part in weights["rounds", "random:6"]] == pytest.approx([1, 1, 1, 1])
    kept = imitate("Pendulum-v1", ask="random:6", **small | {"budget": 21}, out=tmp_path / "run")
    whole = imitate("Pendulum-v1", ask="random:6", **small, out=tmp_path / "run", resume=True)
    assert whole.ledger["loss"][: kept.ledger.rounds].tolist() == kept.ledger["loss"].tolist()
    assert np.allclose(whole.samples("weights")[whole.samples("weights") > 0], 1 / 6)
    with pytest.raises(UserError, match="weigh: 'labels' is for networks"):
        imitate("Pendulum-v1", policy="linear", budget=30, weigh="labels")


def test_the_loss_on_all_states_is_known_bounded_or_an_estimate():
    small = {
        "env": "Pendulum-v1",
        "policy": "mlp",
        "widths": (8,),
        "max_iterations": 20,
        "comparator": "none",
    }
    small |= SMALL | {"policy": "mlp", "rounds": 4}
    known = imitate(**small)
    assert known.ledger["visited_high"].tolist() == known.ledger["cumulative_loss"].tolist()
    for settings in (
        {"ask": "random:10"},
        {"ask": "fraction:0.3"},
        {"ask": "distance:10", "random_share": 0.5},
    ):
        run = imitate(**small, **settings)
        high, seen = run.ledger["visited_high"], run.ledger["cumulative_loss"]
        assert high[0] == pytest.approx(seen[0]) and (high[1:] > seen[1:]).all()
    assert np.isnan(imitate(**small, ask="distance:10").ledger["visited_high"][1:]).all()
    assert np.isnan(asking("random:6")[0].ledger["visited_high"]).all()  # a linear policy: no largest loss

    def silent(observation):  # at some states, and who knows at which
        assert observation[1] * 100 % 1 < 0.8
        return np.zeros(1)

    alone = {"rounds": 2, "expert_workers": 1, "expert_retries": 0}
    run = imitate(**small | alone, ask="random:30", expert=silent)
    assert run.ledger["unanswered"][-1] > 0 and np.isnan(run.ledger["visited_high"][-1])


def test_the_account_of_all_states_weighs_and_ends_as_the_rounds_do():
    losses, rng = np.full(8, 0.5), np.random.default_rng(0)
    for share in (1.0, 2.0):
        account = Visited(Random(4), 1.0, 4)
        account.add(np.full(8, share / 8), losses, rng, share)  # all are labelled, so the loss is known
        assert account.high() == pytest.approx(share * 0.5)
    account.add(np.full(8, 1 / 8), 3 * losses, rng)
    assert np.isnan(account.high())  # a loss above the largest: what was proved rests on a wrong number
