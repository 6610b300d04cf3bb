"""The records that commands print with `--json`.

One key means one thing in all documents; docs/reference/json.md describes them.
"""

from typing import Literal

import msgspec

from delaytron.evaluation.evaluate import EvaluationRow
from delaytron.simulation.results import Setting

Number = float | Literal["inf", "-inf"]  # JSON has no infinity


class MeanErrors(msgspec.Struct, kw_only=True):
    """Mean errors of some runs, each with the half width of its 95 % interval; None for a single run."""

    error: float
    error_margin: float | None
    greedy_error: float
    greedy_error_margin: float | None


class RunRow(MeanErrors, kw_only=True):
    """A learner with one setting at one delay, in `delaytron run`."""

    learner: str
    dataset: str
    form: str | None
    delay: str
    parameters: Setting
    rounds: int
    runs: int
    majority_error: float | None
    best: bool
    final_errors: list[float]
    final_greedy_errors: list[float]
    rounds_per_second: float
    seed: int
    sampling: str
    versions: dict[str, str]


class ComparisonRow(MeanErrors, kw_only=True):
    """A tuned learner at one delay."""

    learner: str
    dataset: str
    form: str | None
    delay: str
    parameters: Setting
    tuned: list[str]
    rounds: int
    runs: int
    majority_error: float | None
    final_errors: list[float]
    final_greedy_errors: list[float]
    seconds: float
    settings_tried: int
    tuning_seconds: float
    remark: str


class LeftOut(msgspec.Struct, kw_only=True):
    """A learner that cannot play on these data, and the reason."""

    learner: str
    reason: str


class ComparisonDocument(msgspec.Struct, kw_only=True):
    """Tuned learners at several delays."""

    dataset: str
    rounds: int
    runs: int
    tuning_runs: int
    budget: int
    seed: int
    tuning_seed: int
    results: list[ComparisonRow]
    left_out: list[LeftOut]
    versions: dict[str, str]


class LearnerRow(msgspec.Struct, kw_only=True):
    """A learner of the registry; its parameters with their defaults."""

    learner: str
    class_name: str
    parameters: Setting
    feedback_type: str
    description: str


class DatasetSize(msgspec.Struct, kw_only=True):
    """A data set: its size, and whether it is on this machine."""

    dataset: str
    description: str
    rows: int
    features: int
    classes: int
    nonzeros: float
    sparse: bool
    availability: str
    source: str
    licence: str


class DatasetRow(DatasetSize, kw_only=True):
    """A named data set, with the defaults of the options that it takes."""

    options: dict[str, str | int | float | bool | None]


class DatasetDocument(DatasetSize, kw_only=True):
    """A data set that was loaded."""

    majority_error: float | None  # here it is always known; a key has one type in all documents
    class_counts: dict[str, int]
    feature_names: list[str]
    citation: str


class PendingRounds(msgspec.Struct, kw_only=True):
    """The number of rounds that wait for their answers."""

    mean: float
    highest: int


class FittedDelay(msgspec.Struct, kw_only=True):
    """A delay model that was fitted to the delays that come."""

    delay: str
    log_likelihood: float
    distance: float


class DelaysDocument(msgspec.Struct, kw_only=True):
    """Statistics of recorded delays."""

    trace: str
    rounds: int
    never: float
    late: float
    mean_delay: float | None
    quantiles: dict[str, int]
    quantiles_in_seconds: dict[str, float]
    pending: PendingRounds
    coming: PendingRounds
    fits: list[FittedDelay]
    suggested_delays: list[str]


class BoundLine(msgspec.Struct, kw_only=True):
    """A statement and its bound; None where it does not apply."""

    statement: str
    origin: str
    learner: str
    loss: str
    valid_for: str
    bound: Number | None
    eta: Number | None
    vacuous: bool


class BoundsDocument(msgspec.Struct, kw_only=True):
    """All bounds for one problem, without data."""

    rounds: int
    classes: int
    gamma: float
    radius: float
    norm: float
    comparator_loss: float
    eta: Number | None
    loss_bound: float | None
    delay: str
    seed: int
    missing: float
    delay_received: float
    total_delay: Number
    outstanding: float
    max_outstanding: float
    bounds: list[BoundLine]
    versions: dict[str, str]


class MeasuredLine(BoundLine, kw_only=True):
    """A statement beside the measured value, and the weights W of the comparison."""

    measured: float
    measured_margin: float | None
    hinge: float | None
    hinge_margin: float | None
    comparator: str
    norm: float
    comparator_loss: float


class ComparatorLine(msgspec.Struct, kw_only=True):
    """Weights that runs are compared with."""

    comparator: str
    norm: float
    loss_per_round: float


class StudyDocument(msgspec.Struct, kw_only=True):
    """Bounds beside measured values at one delay; quantities of delays are means, or maxima, over the runs."""

    dataset: str
    rows: int
    classes: int
    radius: float
    delay: str
    gamma: float
    rounds: int
    runs: int
    seed: int
    sampling: str
    loss_bound: float | None
    missing: float
    delay_received: float
    total_delay: Number
    outstanding: float
    max_outstanding: float
    comparators: list[ComparatorLine]
    bounds: list[MeasuredLine]
    versions: dict[str, str]


class OutcomeRow(MeanErrors, kw_only=True):
    """A learner on a data set at one delay, as an experiment reports it."""

    dataset: str
    learner: str
    delay: str
    parameters: Setting
    rounds: int
    runs: int
    majority_error: float | None
    final_errors: list[float]
    file: str


class EvaluationDocument(msgspec.Struct, kw_only=True):
    """Policies on one log."""

    log: str
    rounds: int
    classes: int
    evaluations: list[EvaluationRow]
    warnings: list[str]
    versions: dict[str, str]


class MismatchDocument(msgspec.Struct, kw_only=True):
    """A mismatch in a journal: the number of the fact, where it is about one, and the reason."""

    fact: int | None
    reason: str


class DriftPart(msgspec.Struct, kw_only=True):
    """Challengers of a model, and when one was born, won or was dropped last."""

    challenger: bool
    born: int
    won: int
    dropped: int
    changed_at: str | None


class VerifyDocument(msgspec.Struct, kw_only=True):
    """A journal whose facts were replayed, and whether they agree with its decisions and snapshots."""

    journal: str
    agrees: bool
    facts: dict[str, int]
    replayed_after: int
    replayed: int
    snapshots: int
    decided: int
    answered: int
    expired: int
    cancelled: int
    open: int
    purged: int
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    drift: DriftPart | None
    hash: str | None
    mismatch: MismatchDocument | None


class ExportDocument(msgspec.Struct, kw_only=True):
    """Decisions of a journal that were written to a file."""

    journal: str
    file: str
    decided: int
    purged: int
    bytes: int


class CompactDocument(msgspec.Struct, kw_only=True):
    """The size of a journal before and after compaction."""

    journal: str
    facts_before: int
    facts_after: int
    bytes_before: int
    bytes_after: int


class ImportDocument(msgspec.Struct, kw_only=True):
    """Logs of another service from which a model started, with the number of lines used and left out."""

    journal: str
    logs: list[str]
    events: int
    imported: int
    imported_before: int
    answered: int
    answered_after_expiry: int
    open: int
    omitted: dict[str, int]
    unused_answers: dict[str, int]
    class_names: list[str | int]
    classes_by: str
    varying_actions: int
    reward_scale: list[float]
    mean_reward: float | None
    mean_reward_margin: float | None
    warnings: list[str]


class Check(msgspec.Struct):
    """A folder or setting: `ok`, `note` (works, with a drawback) or `wrong`, and what to do about it."""

    check: str
    status: str
    found: str
    advice: str = ""


class Extra(msgspec.Struct):
    """An extra: the packages that it installs, with their versions; None for one that is missing."""

    extra: str
    packages: dict[str, str | None]


class Installation(msgspec.Struct):
    """The state of an installation."""

    healthy: bool
    versions: dict[str, str]
    system: str
    checks: list[Check]
    extras: list[Extra]
