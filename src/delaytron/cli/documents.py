"""The JSON that commands print: the keys, their types, and the JSON Schema that is made of them.

One key means one thing in all documents; docs/reference/json.md describes them. After a change here,
`python -c "from delaytron.cli.documents import write_schema; write_schema()"` writes the schema file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from delaytron.cli.doctor_documents import DoctorDocument
from delaytron.evaluation.results import EvaluationRow
from delaytron.model.documents import CompactDocument, ExportDocument, ImportDocument, VerifyDocument
from delaytron.planning.documents import PlanDocument
from delaytron.simulation.results import Errors, Setting
from delaytron.theory.documents import BoundLine, Number, StudyDocument

SCHEMA = Path(__file__).with_name("schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class RunRow(Errors):
    """A learner with one setting at one delay, as `delaytron run` played it."""

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


class ComparisonRow(Errors):
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


class LeftOut(TypedDict):
    """A learner that cannot play on these data, and why."""

    learner: str
    reason: str


class ComparisonDocument(TypedDict):
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


class LearnerRow(TypedDict):
    """A learner of the registry; its parameters with their defaults."""

    learner: str
    class_name: str
    parameters: Setting
    feedback_type: str
    description: str


class DatasetSize(TypedDict):
    """A data set: how large it is, and whether it is on this machine."""

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


class DatasetRow(DatasetSize):
    """A named data set; the options with which it can be loaded have their defaults."""

    options: dict[str, str | int | float | bool | None]


class DatasetDocument(DatasetSize):
    """A data set that was loaded."""

    majority_error: float | None  # here it is always known; a key has one type in all documents
    class_counts: dict[str, int]
    feature_names: list[str]
    citation: str


class PendingRounds(TypedDict):
    """How many rounds wait for their answers."""

    mean: float
    highest: int


class FittedDelay(TypedDict):
    """A delay model that was fitted to the delays that come."""

    delay: str
    log_likelihood: float
    distance: float


class DelaysDocument(TypedDict):
    """What recorded delays are like."""

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


class BoundsDocument(TypedDict):
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


class OutcomeRow(Errors):
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


class EvaluationDocument(TypedDict):
    """Policies on one log."""

    log: str
    rounds: int
    classes: int
    evaluations: list[EvaluationRow]
    warnings: list[str]
    versions: dict[str, str]


DOCUMENTS: Mapping[str, object] = {
    "run": list[RunRow],
    "compare": ComparisonDocument,
    "experiment": list[OutcomeRow],
    "reproduce": list[OutcomeRow],
    "learners": list[LearnerRow],
    "datasets": list[DatasetRow],
    "datasets_show": DatasetDocument,
    "delays": DelaysDocument,
    "bounds": BoundsDocument,
    "bounds_with_data": list[StudyDocument],
    "plan": PlanDocument,
    "verify": VerifyDocument,
    "export": ExportDocument,
    "compact": CompactDocument,
    "import": ImportDocument,
    "evaluate": EvaluationDocument,
    "doctor": DoctorDocument,
}


def json_schema() -> dict[str, object]:
    """Return one JSON Schema for all documents: that of a command is `$defs/COMMAND`."""
    from msgspec.json import schema_components  # noqa: PLC0415 - only where used

    schemas, parts = schema_components(DOCUMENTS.values(), ref_template="#/$defs/{name}")
    commands = dict(zip(DOCUMENTS, schemas, strict=True))
    return {
        "$schema": DIALECT,
        "title": "What the commands of delaytron print with --json",
        "anyOf": [{"$ref": f"#/$defs/{command}"} for command in commands],
        "$defs": {**commands, **parts},
    }


def schema_text() -> str:
    """Return the JSON Schema as the file has it."""
    from delaytron.formats import as_json  # noqa: PLC0415

    return as_json(json_schema()) + "\n"


def write_schema() -> None:
    """Write the JSON Schema that the package ships."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
