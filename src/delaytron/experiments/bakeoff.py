"""The statistics of a bake-off: learners on many data sets, compared by paired tests, ratios and normalised losses."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

import msgspec
import numpy as np

from delaytron.datasets import Dataset
from delaytron.datasets.dataset import Scaling
from delaytron.errors import InvalidInput
from delaytron.experiments.sources import Options, PlayedData, kind_of, load_source, reward_table
from delaytron.experiments.spec import Condition
from delaytron.experiments.store import FOLDER, Outcome, descriptions_of, path_of_facts, read_sealed, seal
from delaytron.extras import needs
from delaytron.files.atomic import replace_file
from delaytron.records import Array, Ints
from delaytron.simulation.results import Result

BAD = 1.15  # times the median of a learner in a case: from here on a run is a bad one
SHARE_FLOOR = 0.01  # of what can be won: smaller losses count as this much in ratios
CUT = (-1.0, 2.0)  # normalised losses are cut to this
LEAST_GAP = 0.01  # between the best constant label and the best linear classifier, for a normalised loss
LEVEL = 0.95  # of the paired tests
WEAK = 100.0  # inverse strength of the regularisation of the linear classifier


class Anchors(msgspec.Struct, frozen=True, kw_only=True):
    """What is lost a round on a data set, in mistakes or of a world in reward, by players who know all rows.

    Parameters
    ----------
    random, constant, linear : float
        By labels at random; by the best constant label; by the best linear classifier, of a world by the best label.
    """

    random: float
    constant: float
    linear: float

    @property
    def gap(self) -> float:
        """What the linear classifier wins beyond the best constant label."""
        return self.constant - self.linear


def anchors_of(source: PlayedData, data: Options) -> Anchors:
    """Return the anchors of a data set.

    Examples
    --------
    >>> data = Dataset(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 0, 1]), "tiny", ("a", "b"))
    >>> anchors_of(PlayedData(data), {"name": "tiny"})
    Anchors(random=0.5, constant=0.25, linear=0.0)
    """
    if kind_of(data) == "rewards":
        rewards = reward_table(source, data)
        best = float(rewards.max(axis=1).mean())
        return Anchors(
            random=best - float(rewards.mean()), constant=best - float(rewards.mean(axis=0).max()), linear=0.0
        )
    constant = source.data.majority_error
    linear = min(constant, linear_error(source.data))  # a constant label is linear, too
    return Anchors(random=1 - 1 / source.data.n_classes, constant=constant, linear=linear)


def linear_error(data: Dataset) -> float:
    """Return the error on all rows of a multinomial logistic regression that was fitted to all of them."""
    needs("sklearn")
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    scaling = Scaling("standard")
    scaling.partial_fit(data.X)
    X = scaling.apply(data.X)
    if np.unique(data.y).size < 2:
        return 0.0
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # 1,000 steps are near enough
        fitted = LogisticRegression(C=WEAK, max_iter=1000).fit(X, data.y)
    return float((fitted.predict(X) != data.y).mean())


def write_anchors(conditions: Iterable[Condition], folder: Path) -> None:
    """Write the anchors of every data set that has none in the results folder yet."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for data in descriptions_of(conditions).values():
        path = _path(data, folder)
        if read_sealed(path, Anchors) is None:
            try:
                source = load_source(data)
            except InvalidInput:  # all runs are there, and the data are gone
                continue
            replace_file(path, seal(msgspec.json.encode(anchors_of(source, data))))


def read_anchors(conditions: Iterable[Condition], folder: Path) -> dict[str, Anchors]:
    """Return the anchors that were written, by the titles of the data sets."""
    described = descriptions_of(conditions)
    found = {title: read_sealed(_path(data, folder), Anchors) for title, data in described.items()}
    return {title: anchors for title, anchors in found.items() if anchors is not None}


def _path(data: Options, folder: Path) -> Path:
    """Return the path for a data set, the same with and without clicks: anchors count mistakes."""
    path = path_of_facts({key: value for key, value in data.items() if key != "clicks"}, folder)
    return path.with_name(f"anchors-{path.name}")


# What a learner lost


class DataCase(NamedTuple):
    """A data set at one delay."""

    kind: str
    data: str
    delay: str


class Score(NamedTuple):
    """A learner in one case.

    Parameters
    ----------
    losses : array
        Of each run: the error over all rounds; with clicks and rewards 1 - the share won in the last quarter.
    floor : float
        Mean losses below it count as this much in ratios.
    normalised : float, optional
        The mean loss, from 0 for the best linear classifier to 1 for the best constant label; None without anchors
        or where these are too close.
    """

    losses: Array
    floor: float
    normalised: float | None
    setting: Options

    @property
    def mean(self) -> float:
        """The mean loss of the runs."""
        return float(self.losses.mean())

    @property
    def raised(self) -> float:
        """The mean loss, at least the floor."""
        return max(self.mean, self.floor)

    @property
    def bad(self) -> int:
        """How many runs lost more than 1.15 times the median run."""
        return int((self.losses > BAD * max(float(np.median(self.losses)), self.floor)).sum())


Scores = dict[DataCase, dict[str, Score]]  # by case and learner


def scores(outcomes: Iterable[Outcome], anchors: Mapping[str, Anchors]) -> Scores:
    """Return what every learner lost in every case; without anchors of the data only errors are known."""
    found: Scores = {}
    for condition, run, result, _ in outcomes:
        case = DataCase(kind_of(run.data), condition.data, condition.delay)
        one = score(result, case.kind, anchors.get(condition.data), run.parameters)
        if one is not None:
            found.setdefault(case, {})[condition.title] = one
    return found


def score(result: Result, kind: str, anchors: Anchors | None, setting: Options) -> Score | None:
    """Return what the runs of a learner lost; None if the anchors that are needed for it are missing."""
    rounds = int(result.rounds[-1])
    if kind == "labels":
        raw = result.final_error
        return Score(raw, 1 / rounds, _normalised(float(raw.mean()), anchors), setting)
    if anchors is None:
        return None
    lost = result.mistakes[:, :, 0].astype(np.float64) if result.lost is None else result.lost
    start = quarter(result.rounds)
    before = lost[:, start] if start >= 0 else 0.0
    raw = np.asarray((lost[:, -1] - before) / (rounds - (int(result.rounds[start]) if start >= 0 else 0)))
    return Score(raw / anchors.random, SHARE_FLOOR, _normalised(float(raw.mean()), anchors), setting)


def quarter(rounds: Sequence[int] | Ints) -> int:
    """Return the place of the last checkpoint in the first three quarters, -1 if there is none.

    Examples
    --------
    >>> quarter([1, 10, 70, 80, 100]), quarter([100])
    (2, -1)
    """
    return int(np.searchsorted(np.asarray(rounds), 0.75 * rounds[-1], side="right")) - 1


def _normalised(loss: float, anchors: Anchors | None) -> float | None:
    if anchors is None or anchors.gap < LEAST_GAP:
        return None
    return min(CUT[1], max(CUT[0], (loss - anchors.linear) / anchors.gap))


# Comparisons


def verdict(first: Array, second: Array) -> int:
    """Return 1 if the first losses are lower by a paired t-test at 5 %, -1 if they are higher, 0 if neither.

    Run i is paired with run i. Where all differences are equal, the test is certain.

    Examples
    --------
    >>> low, high = np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.31, 0.39])
    >>> verdict(low, high), verdict(high, low), verdict(low, low), verdict(low[:1], high[:1])
    (1, -1, 0, 0)
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    runs = min(first.size, second.size)
    if runs < 2:
        return 0
    differences = second[:runs] - first[:runs]
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if abs(mean) > float(stdtrit(runs - 1, (1 + LEVEL) / 2)) * spread / runs**0.5:
        return 1 if mean > 0 else -1
    return 0


class Pairing(NamedTuple):
    """One learner beside another in the cases that both played.

    Parameters
    ----------
    ratio : float
        The geometric mean of the ratios of their mean losses.
    worst : float
        The largest of these ratios, and where it is.
    """

    wins: int
    losses: int
    cases: int
    ratio: float
    worst: float
    where: DataCase | None


def duel(
    found: Scores, first: str, second: str, delays: Sequence[str] = (), kind: str = "", rest: bool = False
) -> Pairing:
    """Return how a learner fares beside another, in all cases or in those of some delays and one kind.

    With `rest` the second one is represented by what it lost at its only delay where it did not play at this one.
    """
    pairs = []
    for case, here in found.items():
        if (delays and case.delay not in delays) or (kind and case.kind != kind) or first not in here:
            continue
        other = here.get(second) or (_only(found, case, second) if rest else None)
        if other is not None:
            pairs.append((case, here[first], other))
    verdicts = [verdict(one.losses, other.losses) for _, one, other in pairs]
    ratios = [one.raised / other.raised for _, one, other in pairs]
    place = int(np.argmax(ratios)) if ratios else -1
    return Pairing(
        verdicts.count(1),
        verdicts.count(-1),
        len(pairs),
        float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan"),
        ratios[place] if ratios else float("nan"),
        pairs[place][0] if ratios else None,
    )


def _only(found: Scores, case: DataCase, learner: str) -> Score | None:
    """Return the score of a learner on the data of a case at the only delay at which it played these."""
    there = [here[learner] for other, here in found.items() if other.data == case.data and learner in here]
    return there[0] if len(there) == 1 else None


class Standing(NamedTuple):
    """A learner among all.

    Parameters
    ----------
    normalised : dict
        The mean normalised loss at each delay.
    shares : dict
        The mean share won at each delay, of clicks and rewards.
    behind : float
        The geometric mean of its losses as multiples of the least of any learner in the same case.
    worst : float
        The largest of these multiples, and where it is.
    bad, runs : int
        The number of its bad runs, and of all.
    """

    learner: str
    normalised: dict[str, float]
    shares: dict[str, float]
    behind: float
    worst: float
    where: DataCase
    bad: int
    runs: int


def standing(found: Scores, learner: str, kind: str) -> Standing | None:
    """Return how a learner fares in the cases of a kind; None if it played none."""
    own = {case: here for case, here in found.items() if case.kind == kind and learner in here}
    if not own:
        return None
    behind = {case: here[learner].raised / min(one.raised for one in here.values()) for case, here in own.items()}
    where = max(behind, key=lambda case: behind[case])
    by_delay: dict[str, list[Score]] = {}
    for case, here in own.items():
        by_delay.setdefault(case.delay, []).append(here[learner])
    normalised = {
        delay: [one.normalised for one in group if one.normalised is not None] for delay, group in by_delay.items()
    }
    return Standing(
        learner,
        {delay: float(np.mean(values)) for delay, values in normalised.items() if values},
        {}
        if kind == "labels"
        else {delay: 1 - float(np.mean([s.mean for s in group])) for delay, group in by_delay.items()},
        float(np.exp(np.mean(np.log(list(behind.values()))))),
        behind[where],
        where,
        sum(here[learner].bad for here in own.values()),
        sum(here[learner].losses.size for here in own.values()),
    )
