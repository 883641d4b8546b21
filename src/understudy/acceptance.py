"""When a policy is good enough: a test that may be looked at after every episode, of every candidate.

Policy, expert and random actions play the same episodes i = 1, 2, …, with returns R_i, E_i and U_i. The score
of the policy is the q at which the mean of

    D_i(q) = R_i − q E_i − (1 − q) U_i

is zero. A run has candidates j = 1, 2, …, each fixed before its first episode here. The hypothesis that
candidate j has less than the wanted score is ``H_j: E D ≤ 0``. An *e-process* is a number M_n ≥ 0, computed
from the first n differences, that no stopping rule can make large where H_j is true: the probability that it
ever reaches 1/δ is at most δ. So whoever looks after every episode, and accepts at the first n with
M_n ≥ 1/δ_j, accepts a policy below the wanted score with probability at most δ_j. With

    δ_j = 6 δ/(π² j²),      Σ_j δ_j = δ,

the probability that *any* candidate is wrongly accepted is at most δ, however the candidates were chosen and
however many there are. Rejecting and giving up need no level: they accept nothing.

**Returns of a known range** (`bounded`, exact). Let D ≥ −a. For 0 ≤ κ ≤ 1/a every factor 1 + κ D_i is at
least 0, and its expectation given the past is at most 1, since E D ≤ 0. So ``Π (1 + κ D_i)`` is a
supermartingale that starts at 1, a mixture over several κ is one too, and Ville's inequality says that it
ever reaches 1/δ with probability at most δ (Waudby-Smith and Ramdas 2024).

**Otherwise** (`normal`, exact for independent normal differences, approximate for others). Mix the likelihood
of N(Δσ, σ²) over Δ, distributed as |N(0, 1/c²)|, and integrate over σ with the density 1/σ. The ratio to the
same integral at Δ = 0 is the likelihood ratio of what is invariant to scale, hence a martingale under
N(0, σ²), whatever σ. With S = Σ D_i, V = Σ D_i², u = S/√V and ρ = u²/(n + c²) both have closed forms:

    M_n = 2 c/√(n + c²) · (1 − ρ)^(−n/2) · P(T_n ≤ √n u/√((n + c²)(1 − ρ))),

T_n Student's t with n degrees of freedom. It depends on the data by u alone, and increases with it. Where the
mean is μ < 0 the differences are D_i = μ + N(0, σ²): each is less than the normal number in it, t falls, and
with it u. So path by path M_n is at most the martingale of those numbers, and H_j may hold any mean ≤ 0.
Differences with rare failures are far from normal: a policy that falls in one episode of twelve may not fall
in the first ten, and `normal` then accepts it. So the approximate test accepts after `guard` episodes at the
earliest: a policy that loses everything in 1 − q of its episodes, which alone makes it miss the score q, has
shown that by then with probability 1 − δ_j (69 episodes at a score of 0.95, 34 at 0.9). `bounded` needs no
such rule: about 85 episodes at 0.95, 44 at 0.9, where every episode is as good as the expert's. For so little
more it is hardly ever fooled, so that runs use `bounded` throughout: where no range is known, with the range
of all returns that were seen before the test, those of random actions among them, and call that approximate.
It is wrong where a policy can do worse than anything that was seen.

Where returns say nothing, the same test has other numbers. **Agreement**: x_i is 1 where the policy's most
likely action is the expert's in a state drawn at random from episode i, else 0, and D_i(q) = x_i − q; exact.
**Loss**: x_i is minus the policy's loss in such a state, and D_i = L + x_i for the wanted loss L; exact where
no loss is larger than a known number.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .errors import UserError
from .intervals import Interval, difference

DELTA = 0.05
"""The probability with which a run may accept a policy below the wanted score."""
EFFECT = 2.0
"""c: differences whose mean is about a 1/c of their deviation are decided soonest."""
RATES = 0.98 * 2.0 ** -np.arange(12)
"""Shares of 1/a that are tried for κ. Less than 1, so that a rounded difference leaves no factor below 0."""
SHARES = 13.0 / 12.0 / ((np.arange(12) + 1.0) * (np.arange(12) + 2.0))
"""Their weights in the mixture, which add up to 1: half of it is on the greatest, which decides soonest where
all differences are positive."""
ROUNDING = 1e-12
"""What rounding can add to the logarithm of an e-process in one episode, with much to spare."""
SCORES = np.round(np.arange(-100, 301) / 200.0, 3)
"""The scores among which an interval has its ends."""
FINAL = 50
"""A test of a policy that is kept anyway goes on so long, and twice as long where that decides."""
EARLIEST = 20
"""The least episodes after which two are compared without limits of their returns."""
RARE = 0.05
"""`guard` shows failures that happen at least so often: it asks no more of a score above 0.95."""
LEAST_EPISODES, PATIENCE, MOST_EPISODES = 10, 3, 500
"""A test is given up after `LEAST_EPISODES` or later, where it would need `PATIENCE` times the episodes of a
policy as good as its expert or more than `MOST_EPISODES` where such a policy would not be accepted either."""

State = Literal["open", "accepted", "rejected"]
Kind = Literal["share", "agreement", "loss"]
WORDS = {
    "share": ("has at least {} of the expert's return", "score ", "common episodes"),
    "agreement": ("plays the expert's action in at least {} of its own states", "", "fresh labels"),
    "loss": ("has a loss of at most {} in its own states", "", "fresh labels"),
}
"""What an accepted policy does, and what the numbers in brackets are, by the kind of a test."""


def level_of(candidate: int, delta: float = DELTA) -> float:
    """δ_j, the level of candidate j = 1, 2, …: all together they have δ.

    >>> round(level_of(1), 4), round(sum(level_of(j) for j in range(1, 10_000)), 4)
    (0.0304, 0.05)
    """
    return 6.0 * delta / (math.pi * candidate) ** 2


def guard(score: ArrayLike, level: float) -> np.ndarray:
    """The least episodes after which the approximate test accepts a score: total failures that alone would
    make a policy miss it have shown up by then with probability 1 − `level`.

    >>> guard([0.5, 0.9, 0.95, 1.0], level_of(1)).tolist()
    [6, 34, 69, 69]
    """
    survives = np.clip(np.asarray(score, float), 1e-3, 1.0 - RARE)
    return np.ceil(math.log(level) / np.log(survives)).astype(int)


def bounded(differences: ArrayLike, least: float) -> np.ndarray:
    """log M_n of differences (…, n) that are never below `least` < 0, after each of them: exact.

    >>> round(float(bounded(np.full(80, 0.1), least=-1.0)[-1]), 2)
    6.88
    """
    numbers = np.asarray(differences, float)
    if not least < 0:
        raise ValueError(f"differences of mean 0 that are never below {least!r} are all zero")
    wealth = np.cumsum(np.log1p(RATES[:, *[None] * numbers.ndim] * numbers / -least), axis=-1)
    mixture = scipy.special.logsumexp(wealth, axis=0, b=SHARES[:, *[None] * numbers.ndim])
    return mixture - ROUNDING * np.arange(1, numbers.shape[-1] + 1)


def normal(differences: ArrayLike) -> np.ndarray:
    """log M_n of differences (…, n), after each of them: exact where they are normal, else approximate.

    >>> round(float(normal([0.3, 0.1, 0.4, 0.2, 0.3, 0.2, 0.1, 0.4])[-1]), 2)
    3.38
    """
    numbers = np.asarray(differences, float)
    n = np.arange(1, numbers.shape[-1] + 1)
    total, squares = np.cumsum(numbers, axis=-1), np.cumsum(numbers**2, axis=-1)
    return _normal(n, total / np.sqrt(np.where(squares > 0, squares, 1.0)))


def _normal(n: np.ndarray | float, u: np.ndarray | float) -> np.ndarray:
    """log M_n, where u = S/√V."""
    c = EFFECT
    left = 1.0 - np.square(u) / (n + c**2)
    tail = scipy.special.stdtr(n, np.sqrt(n) * u / np.sqrt((n + c**2) * left))
    with np.errstate(divide="ignore"):  # far below zero the probability underflows, and nothing is accepted
        return math.log(2.0 * c) - 0.5 * np.log(n + c**2) - 0.5 * n * np.log(left) + np.log(tail)


class Played(NamedTuple):
    """Returns of the same episodes (n,): the policy's, the expert's, and those of random actions."""

    policy: np.ndarray
    expert: np.ndarray
    random: np.ndarray | None = None

    def differences(self, score: ArrayLike) -> np.ndarray:
        """D(q) = R − q E − (1 − q) U, (…, n) for scores q (…); without U where there is none."""
        q = np.asarray(score, float)[..., None]
        both = self.policy - q * self.expert
        return both if self.random is None else both - (1.0 - q) * self.random

    def then(self, more: Played) -> Played:
        """These episodes and `more`."""
        if (self.random is None) != (more.random is None):
            raise UserError("random: its returns go with all episodes of a test or with none.")
        random = None if self.random is None or more.random is None else np.append(self.random, more.random)
        return Played(np.append(self.policy, more.policy), np.append(self.expert, more.expert), random)


@final
class Acceptance:
    """Whether one candidate is good enough; may be looked at after every episode.

    Args:
      wanted: the wanted score, a share of the expert's return, above that of random actions where those are
        played too; or the wanted agreement, or loss.
      kind: what is wanted.
      candidate: its number j = 1, 2, … in the run: every candidate gets a level of its own.
      limits: the least and the largest return that an episode can have, if they are known, or the least and
        the largest of the numbers: then the test is exact. Without them it is approximate.
      assumed: the limits are not known, but those of all episodes that were seen before: the test is
        approximate, and returns may be beyond them.
      delta: the probability with which any candidate of the run may be wrongly accepted.

    >>> test = Acceptance(0.95)
    >>> rng = np.random.default_rng(0)
    >>> expert = 100 + rng.normal(size=80)
    >>> test.add(expert + rng.normal(size=80), expert)
    'accepted'
    >>> str(test).partition(" (")[0]
    "with 95 % confidence the policy has at least 0.95 of the expert's return"
    >>> test.interval().count, round(test.interval().low, 3), test.exact
    (80, 0.995, False)
    """

    def __init__(
        self,
        wanted: float,
        *,
        kind: Kind = "share",
        candidate: int = 1,
        limits: tuple[float, float] | None = None,
        assumed: bool = False,
        delta: float = DELTA,
    ):
        if not wanted > 0:
            raise UserError(f"score: {wanted!r} is not above 0.")
        if limits is not None and not -math.inf < limits[0] < limits[1] < math.inf:
            raise UserError(f"limits: {limits!r} is not a least and a larger greatest return.")
        self.kind: Kind = kind
        self.candidate, self.limits, self.assumed, self.delta = candidate, limits, assumed, delta
        # A loss is the same as the negative number that must not be less.
        self.wanted = -float(wanted) if kind == "loss" else float(wanted)
        self.level = level_of(candidate, delta)
        self.played = Played(np.zeros(0), np.zeros(0))
        self.state: State = "open"

    @property
    def exact(self) -> bool:
        """Whether the test rests on nothing but the range of the numbers."""
        return self.limits is not None and not self.assumed

    @property
    def count(self) -> int:
        """Episodes so far."""
        return len(self.played.policy)

    def add(
        self, policy: ArrayLike, expert: ArrayLike | None = None, random: ArrayLike | None = None
    ) -> State:
        """Adds episodes in their order, the returns (m,) of all on the same ones; what the test says now.
        Of agreement and loss there is one number (m,) an episode, and no expert.

        Episodes after the one that decides are recorded, and change nothing of the decision.
        """
        mine = _row(policy)
        theirs = np.ones(len(mine)) if expert is None else _row(expert)
        more = Played(mine, theirs, None if random is None else _row(random))
        if any(part is not None and len(part) != len(mine) for part in more):
            raise UserError("returns: those of policy, expert and random actions are of the same episodes.")
        if self.limits is not None and not self.assumed:
            shares = [part for part in (more if self.kind == "share" else more[:1]) if part is not None]
            everything, (least, greatest) = np.concatenate(shares), self.limits
            outside = everything[~((everything >= least) & (everything <= greatest))]
            if len(outside):
                raise UserError(f"limits: a return of {outside[0]:g} is outside {least:g} to {greatest:g}.")
        first, self.played = self.count, self.played.then(more) if self.count else more
        differences = self.played.differences(self.wanted)
        above = self._accepts(differences, self.wanted)
        below = self._log(-differences, self.wanted, below=True) >= -math.log(self.delta)
        for n in range(first, self.count):
            if self.state == "open" and (above[n] or below[n]):
                self.state = "accepted" if above[n] else "rejected"
        return self.state

    def _accepts(self, differences: np.ndarray, score: ArrayLike) -> np.ndarray:
        """Whether a look after each of the episodes says that the policy is above a score, or several."""
        enough = self._log(differences, score) >= -math.log(self.level)
        return enough & (np.arange(1, differences.shape[-1] + 1) >= self._guard(score)[..., None])

    def _guard(self, score: ArrayLike) -> np.ndarray:
        """The episodes before which nothing is accepted."""
        if self.limits is not None:
            return np.zeros(np.shape(score), int)
        return guard(np.ones(np.shape(score)) if self.kind == "loss" else score, self.level)

    def _log(self, differences: np.ndarray, score: ArrayLike, *, below: bool = False) -> np.ndarray:
        """log M_n of the differences, or, `below`, of minus the differences, for one score or for several."""
        if self.limits is None:
            return normal(differences)
        scaled = differences / -self._least(np.asarray(score, float), below=below)[..., None]
        return bounded(np.maximum(scaled, -1.0), -1.0)  # beyond what was assumed nearly all is lost

    def _least(self, score: np.ndarray, *, below: bool) -> np.ndarray:
        """The least that D(q), or, `below`, −D(q), can be where all returns are within the limits."""
        assert self.limits is not None
        ends = np.array(self.limits)[:, *[None] * score.ndim]
        sign, chance = (-1.0 if below else 1.0), float(self.played.random is not None)
        weights = np.ones_like(score), -score, -chance * (1.0 - score)
        if self.kind != "share":  # the one number an episode is compared with a constant
            least = np.min(sign * ends, axis=0) - sign * score
        else:
            least = np.sum([np.min(sign * weight * ends, axis=0) for weight in weights], axis=0)
        return np.minimum(least, -1e-9 * (self.limits[1] - self.limits[0]))

    def interval(self) -> Interval:
        """The score with its interval, each end of which is wrong with probability at most δ_j, however long
        the test has gone on: all scores that no look has refused. Its ends are multiples of 0.005, those of a
        loss of a hundredth of what is wanted.
        """
        if not self.count:
            return Interval(math.nan)
        scores = np.union1d(SCORES, self.wanted)
        if self.kind == "loss":
            scores = self.wanted * np.arange(1000, -1, -1) / 100.0
        differences = self.played.differences(scores)
        above = self._accepts(differences, scores).any(axis=-1)
        below = self._log(-differences, scores, below=True).max(axis=-1) >= -math.log(self.level)
        low = float(scores[np.flatnonzero(above)[-1]]) if above.any() else -math.inf
        high = float(scores[np.flatnonzero(below)[0]]) if below.any() else math.inf
        random = 0.0 if self.played.random is None else float(self.played.random.mean())
        gap = float(self.played.expert.mean()) - random
        middle = (float(self.played.policy.mean()) - random) / gap if gap else math.nan
        if self.kind == "loss":
            return Interval(-middle, -high, -low, self.count)
        if self.kind == "agreement":
            high = min(high, 1.0)
        return Interval(middle, low, high, self.count)

    def needed(self, most: int = 1_000_000) -> float:
        """About how many episodes decide, were all those to come like those so far; infinite above `most`."""
        if self.state != "open":
            return self.count
        return self._decides(self.played.differences(self.wanted), most)

    @property
    def over(self) -> bool:
        """Whether the test is over, or is to be given up: were the mean a standard error above what it is, it
        would still take much longer than that of a policy that plays as its expert. Giving up accepts
        nothing, so that it needs no level.
        """
        if self.state != "open" or self.count < LEAST_EPISODES:
            return self.state != "open"
        as_good = np.ones(self.count) if self.kind == "agreement" else np.zeros(self.count)
        same = Played(as_good, *self.played[1:])
        if self.kind == "share":
            same = self.played._replace(policy=self.played.expert)
        least = self._decides(same.differences(self.wanted), 1_000_000)
        differences = self.played.differences(self.wanted)
        hoped = differences + differences.std() / math.sqrt(self.count)
        longest = int(PATIENCE * least) if math.isfinite(least) else MOST_EPISODES
        return self.count >= longest or not hoped.mean() > 0 or self._decides(hoped, longest) > longest

    @property
    def settled(self) -> bool:
        """Whether a test that is to say how good a policy is, whatever comes of it, has gone on enough."""
        many = self.count >= 2 * FINAL or (self.count >= FINAL and self.needed(MOST_EPISODES) > 2 * FINAL)
        return self.state != "open" or many

    def _decides(self, differences: np.ndarray, most: int) -> float:
        """After how many episodes such differences decide, if they repeat; infinite above `most`."""
        least = None
        if self.limits is not None:
            wanted = np.array(self.wanted)
            least = float(self._least(wanted, below=False)), float(self._least(wanted, below=True))
        return decides(differences, self.level, int(self._guard(self.wanted)), least, most)

    def sentence(self, who: str = "the policy", labels: int | None = None) -> str:
        """What the test says, of a policy that has learnt from so many labels."""
        score, (does, named, over) = self.interval(), WORDS[self.kind]
        spent = "" if labels is None else f"{labels:,} label{'s' * (labels != 1)}"
        about = f"{named}{spanned(score)} over {self.count} {over}"
        how = "exact" if self.exact else "approximate"
        if self.state == "accepted":
            done = does.format(f"{abs(self.wanted):g}")
            about += f", {spent}" if spent else ""
            return f"with {100 * (1 - self.delta):g} % confidence {who} {done} ({about}; {how})"
        spent = f" with {spent}" if spent else ""
        if self.state == "rejected":
            below = "above" if self.kind == "loss" else "below"
            return f"not reached{spent}: {score.middle:.3g}, {below} {abs(self.wanted):g} ({about}; {how})"
        more = self.needed() - self.count
        rest = f"about {more:,.0f} more would decide" if math.isfinite(more) else "more would hardly decide"
        return f"not yet {abs(self.wanted):g}{spent}: {score.middle:.3g} ({about}; {how}); {rest}"

    def __str__(self) -> str:
        return self.sentence()


class Comparison(NamedTuple):
    """Whether the first of two is better: yes, no (the second is), or not yet; the mean difference with its
    interval, and after about how many common episodes that is decided.
    """

    answer: Literal["yes", "no", "not yet"]
    difference: Interval
    needed: float

    def __str__(self) -> str:
        if self.answer != "not yet":
            return self.answer
        if not math.isfinite(self.needed):
            return "not yet; more episodes would hardly decide"
        return f"not yet; about {self.needed:,.0f} episodes in all would decide"


def compare(mine: ArrayLike, theirs: ArrayLike, *, limits: tuple[float, float] | None = None) -> Comparison:
    """Whether `mine` (n,) have a larger mean than `theirs` (n,), returns of common episodes. It may be asked
    after every episode: each of the two wrong answers has probability at most 2.5 %. Without the limits of
    the returns it is approximate, and says nothing before the `EARLIEST` episode.

    >>> rng = np.random.default_rng(0)
    >>> a, b = 100 + rng.normal(size=(2, 30))
    >>> compare(a + 2.0, b).answer, compare(a, b + 2.0).answer, compare(a, b).answer
    ('yes', 'no', 'not yet')
    """
    gap, level = difference(mine, theirs), DELTA / 2
    differences = np.subtract(mine, theirs, dtype=float)
    if gap.count < 2 or not np.isfinite(differences).all():
        return Comparison("not yet", gap, math.inf)
    least = None if limits is None else (limits[0] - limits[1], limits[0] - limits[1])
    first = EARLIEST if least is None else 1
    up, down = (normal(d) if least is None else bounded(d, least[0]) for d in (differences, -differences))
    found = [bool((log[first - 1 :] >= -math.log(level)).any()) for log in (up, down)]
    if any(found):
        return Comparison("yes" if found[0] else "no", gap, gap.count)
    return Comparison("not yet", gap, max(decides(differences, level, first, least), first))


def decides(
    differences: np.ndarray,
    level: float,
    first: int,
    least: tuple[float, float] | None,
    most: int = 1_000_000,
) -> float:
    """After about how many episodes such differences (m,) decide whether their mean is above or below zero,
    if they repeat; infinite above `most`. least: of the differences and of minus the differences, for the
    exact test; first: before that nothing is found above zero.
    """
    count, ends = len(differences), -math.log(level)
    if not count:
        return math.inf

    def reached(n: int, sign: float) -> bool:
        shares = n / count
        if least is None:
            squares = float(np.sum(differences**2)) * shares
            u = sign * float(differences.sum()) * shares / math.sqrt(squares) if squares else 0.0
            return bool(_normal(float(n), u) >= ends)
        scaled = np.maximum(sign * differences / -least[0 if sign > 0 else 1], -1.0)
        wealth = np.log1p(RATES[:, None] * scaled).sum(axis=1) * shares
        return float(np.logaddexp.reduce(wealth + np.log(SHARES))) >= ends

    def decided(n: int) -> bool:
        return (n >= first and reached(n, 1.0)) or reached(n, -1.0)

    if not decided(most):
        return math.inf
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def spanned(interval: Interval) -> str:
    """An interval's ends in words.

    >>> spanned(Interval(1.0, 0.97, 1.01)), spanned(Interval(1.0, high=1.01)), spanned(Interval(1.0))
    ('0.97 to 1.01', 'at most 1.01', 'unknown')
    """
    low, high = interval.low, interval.high
    if math.isfinite(low):
        return f"{low:g} to {high:g}" if math.isfinite(high) else f"at least {low:g}"
    return f"at most {high:g}" if math.isfinite(high) else "unknown"


def _row(values: ArrayLike) -> np.ndarray:
    return np.atleast_1d(np.asarray(values, float))
