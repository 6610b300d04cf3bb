"""The results folder: a file with a digest for each run and study, facts about the data, and timings; outcomes."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from math import log
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar
from warnings import warn as warn_in_python

import msgspec
import numpy as np

from delaytron.datasets import Dataset
from delaytron.datasets.catalogue import CARDS, Card
from delaytron.datasets.dataset import SPARSE_BELOW
from delaytron.errors import InvalidInput
from delaytron.experiments.sources import kind_of, load_source
from delaytron.experiments.spec import Condition, RunSpec
from delaytron.experiments.theory import TheoryRow, TheorySpec
from delaytron.extras import needs
from delaytron.files.atomic import cannot, replace_file
from delaytron.records import Array, Ints
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import checkpoints

MOST_REMEMBERED = 32 * 2**20  # bytes of files whose values stay in memory
PLAY_AGAIN = "the same command plays it again"  # hint


class Keyed(Protocol):
    """Anything that is named by the hash of its content."""

    @property
    def key(self) -> str:
        """The name of its file."""


S = TypeVar("S", bound=Keyed)
V = TypeVar("V")


class Folder(Generic[S, V]):
    """Values by their specifications, one file each; two processes may write to it at the same time.

    Parameters
    ----------
    ending : str
        The extension of the files.
    decode : callable
        Returns the value in the content of a file; raises `InvalidInput` if that is damaged.
    warn : callable
        Called with one line about each damaged file, once.
    """

    def __init__(self, path: Path, ending: str, decode: Callable[[S, bytes], V], warn: Callable[[str], object]) -> None:
        self.path = path
        self._ending = ending
        self._decode = decode
        self._warn = warn
        self._values: dict[str, V] = {}
        self._remembered = 0
        self._checked: set[str] = set()
        self._damaged: set[str] = set()

    def has(self, spec: S) -> bool:
        """Whether there is an undamaged file; warns of a damaged one."""
        if spec.key in self._checked:
            return True
        try:
            self._read(spec)
        except FileNotFoundError:
            return False
        except InvalidInput as problem:
            if spec.key not in self._damaged:
                self._warn(f"{self.file(spec)} is damaged and is played again: {problem.problem}")
            self._damaged.add(spec.key)
            return False
        return True

    def read(self, spec: S) -> V:
        """Return the value in a file; raise InvalidInput if it is missing or damaged."""
        try:
            return self._read(spec)
        except OSError as problem:
            raise cannot("read", self.file(spec), problem) from None
        except InvalidInput as problem:
            raise InvalidInput(f"{self.file(spec)} is damaged: {problem.problem}", PLAY_AGAIN) from None

    def write(self, spec: S, content: bytes) -> None:
        """Write a file atomically; raise InvalidInput if it could not be read again."""
        value = self._decode(spec, content)
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.file(spec), content)
        self._remember(spec, value, len(content))

    def file(self, spec: S) -> Path:
        """Return the path of a file."""
        return self.path / f"{spec.key}{self._ending}"

    def _read(self, spec: S) -> V:
        if spec.key in self._values:
            return self._values[spec.key]
        content = self.file(spec).read_bytes()
        value = self._decode(spec, content)
        self._remember(spec, value, len(content))
        return value

    def _remember(self, spec: S, value: V, size: int) -> None:
        self._checked.add(spec.key)
        self._remembered += size
        if self._remembered <= MOST_REMEMBERED:
            self._values[spec.key] = value


CONTENT, DIGEST = b"delaytron", b"digest"  # keys of the metadata: the specification, and the digest of the file
COLUMNS = ("run", "round", "mistakes", "greedy_mistakes")
LOST = "lost"  # a column of worlds, numbers
NO_DIGEST = b"sha256:" + b"0" * 64  # placeholder while the digest is computed
WITH_DIGEST = re.compile(rb"sha256:[0-9a-f]{64}")


def encode_run(run: RunSpec, mistakes: Ints, lost: Array | None = None) -> bytes:
    """Return the content of the Parquet file with the (runs, checkpoints, 2) mistakes of a run.

    That of a world also has the expected reward that was `lost`, (runs, checkpoints).
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

    rounds = checkpoints(run.rounds, run.checkpoints)
    columns = (
        np.repeat(np.arange(run.runs), rounds.size),
        np.tile(rounds, run.runs),
        mistakes[:, :, 0].ravel(),
        mistakes[:, :, 1].ravel(),
    )
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    if lost is not None:
        table = table.append_column(LOST, pa.array(lost.ravel()))
    file = BytesIO()
    with ParquetWriter(file, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({CONTENT: run.content, DIGEST: NO_DIGEST})
    before, _, after = file.getvalue().rpartition(NO_DIGEST)
    return before + _digest(before, after) + after


def _digest(before: bytes, after: bytes) -> bytes:
    """Return the digest of a file, which is written between these two parts of it."""
    return b"sha256:" + sha256(before + NO_DIGEST + after).hexdigest().encode()


def decode_run(run: RunSpec, content: bytes) -> Result:
    """Return the result in a file; raise InvalidInput if it is damaged or of another run."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    found = list(WITH_DIGEST.finditer(content))
    if not found or _digest(content[: found[-1].start()], content[found[-1].end() :]) != found[-1].group():
        raise InvalidInput("its digest is not that of its content", PLAY_AGAIN)
    rounds = checkpoints(run.rounds, run.checkpoints)
    n_rows = run.runs * rounds.size
    wrong, table = "", None
    expected = [(name, pa.int64()) for name in COLUMNS]
    if kind_of(run.data) == "rewards":
        expected.append((LOST, pa.float64()))
    try:
        file = ParquetFile(pa.BufferReader(content))
        # Columns and rows are checked before they are read: a damaged file may decompress to anything.
        if (file.metadata.metadata or {}).get(CONTENT) != run.content.encode():
            wrong = "it holds another run than its name says"
        elif [(field.name, field.type) for field in file.schema_arrow] != expected:
            wrong = f"it must have the columns {', '.join(COLUMNS)}, all of integers, and of a world {LOST}, of numbers"
        elif file.metadata.num_rows != n_rows:
            wrong = f"it must have {n_rows} rows, got {file.metadata.num_rows}"
        else:
            table = file.read()
            table.validate(full=True)
    except Exception as problem:  # pyarrow raises many types for damaged files
        wrong = f"it cannot be read: {' '.join(str(problem).split())}"
    if wrong or table is None:
        raise InvalidInput(wrong, PLAY_AGAIN)
    if any(column.null_count for column in table.columns):
        raise InvalidInput("counts are missing in it", PLAY_AGAIN)
    columns = {name: table[name].to_numpy().reshape(run.runs, -1) for name, _ in expected}
    if (columns["run"] != np.arange(run.runs)[:, None]).any() or (columns["round"] != rounds).any():
        raise InvalidInput("the numbers of its runs or rounds are not those of the run", PLAY_AGAIN)
    mistakes = np.stack([columns["mistakes"], columns["greedy_mistakes"]], axis=2)
    added = np.diff(mistakes, axis=1, prepend=0)
    possible = np.diff(rounds, prepend=0)[:, None]  # mistakes between two checkpoints
    if ((added < 0) | (added > possible)).any():
        raise InvalidInput("its counts of mistakes are impossible: negative, falling, or above the rounds", PLAY_AGAIN)
    lost = columns.get(LOST)
    if lost is not None:
        more = np.diff(lost, axis=1, prepend=0)
        if not (np.isfinite(lost).all() and (more >= 0).all() and (more <= possible[:, 0]).all()):
            raise InvalidInput("its sums of lost rewards are impossible: falling, or above the rounds", PLAY_AGAIN)
    return Result(
        learner=run.learner,
        dataset=run.data["name"],
        delay=run.delay,
        rounds=rounds,
        parameters=[run.parameters] * run.runs,
        run=np.arange(run.runs),
        mistakes=mistakes,
        lost=lost,
    )


TAIL = re.compile(rb',"sha256":"([0-9a-f]{64})"}\n\Z')


def seal(body: bytes) -> bytes:
    """Return a JSON object, which must not be empty, with the digest of its bytes as its last value.

    Examples
    --------
    >>> sealed = seal(b'{"rows":50}')
    >>> sealed[:31]
    b'{"rows":50,"sha256":"159d7b803a'
    >>> check_seal(sealed)
    """
    return body[:-1] + b',"sha256":"' + sha256(body).hexdigest().encode() + b'"}\n'


def check_seal(content: bytes) -> None:
    """Raise InvalidInput if a byte of what `seal` returned has changed."""
    tail = TAIL.search(content)
    if tail is None or sha256(content[: tail.start()] + b"}").hexdigest().encode() != tail.group(1):
        raise InvalidInput("its digest is not that of its content", PLAY_AGAIN)


class TheoryFile(msgspec.Struct, frozen=True):
    """The content of the file of a study."""

    content: str
    rows: tuple[TheoryRow, ...]
    sha256: str = ""


def encode_theory(spec: TheorySpec, rows: tuple[TheoryRow, ...]) -> bytes:
    """Return the content of the file of a study: JSON that ends with its digest."""
    return seal(msgspec.json.encode({"content": spec.content, "rows": rows}))


def decode_theory(spec: TheorySpec, content: bytes) -> tuple[TheoryRow, ...]:
    """Return what a study measured; raise InvalidInput if the file is damaged or of another study."""
    check_seal(content)
    try:
        file = msgspec.json.decode(content, type=TheoryFile)
    except msgspec.DecodeError as problem:
        raise InvalidInput(f"it cannot be read: {problem}", PLAY_AGAIN) from None
    if file.content != spec.content:
        raise InvalidInput("it holds another study than its name says", PLAY_AGAIN)
    return file.rows


class Timing(msgspec.Struct, frozen=True):
    """The cost of a job, runs that were played together: wall-clock seconds, and memory.

    Parameters
    ----------
    side_by_side : int
        The number of jobs that were played at a time.
    memory : int
        The peak of the process so far, in bytes; 0 where it is not known.
    """

    runs: tuple[str, ...]
    seconds: float
    side_by_side: int
    memory: int


class RunStore:
    """A folder of results; two processes may write to it at the same time.

    Parameters
    ----------
    warn : callable, optional
        Called with one line about each damaged file; by default that is a warning of Python.
    """

    def __init__(self, folder: Path, warn: Callable[[str], object] = warn_in_python) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.runs: Folder[RunSpec, Result] = Folder(folder / "runs", ".parquet", decode_run, warn)
        self.theory: Folder[TheorySpec, tuple[TheoryRow, ...]] = Folder(folder / "theory", ".json", decode_theory, warn)
        self.log = folder / "spent.jsonl"
        self._errors: dict[str, float] = {}

    def has(self, run: RunSpec) -> bool:
        """Whether the run was played, and its file is not damaged."""
        return self.runs.has(run)

    def write(self, run: RunSpec, mistakes: Ints, lost: Array | None = None) -> None:
        """Store the (runs, checkpoints, 2) mistakes of a run, and of a world the reward that was lost."""
        self.runs.write(run, encode_run(run, mistakes, lost))

    def read(self, run: RunSpec) -> Result:
        """Return the result of a run; raise InvalidInput if it is missing or damaged."""
        return self.runs.read(run)

    def mean_error(self, run: RunSpec) -> float:
        """Return the mean final error of a run, of a world the mean lost reward; its file is read only once."""
        if run.key not in self._errors:
            result = self.read(run)
            lost = result.final_error if result.lost is None else result.lost[:, -1] / run.rounds
            self._errors[run.key] = float(lost.mean())
        return self._errors[run.key]

    def note(self, timing: Timing) -> None:
        """Append the timing of a job to the log."""
        line = msgspec.json.encode(timing) + b"\n"
        with self.log.open("a+b") as file:
            if file.seek(0, os.SEEK_END) > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the last line was truncated by a crash
                    line = b"\n" + line
            file.write(line)

    def timings(self) -> list[Timing]:
        """Return the timings of all jobs so far; truncated lines are left out."""
        found = []
        for line in self.log.read_bytes().splitlines() if self.log.exists() else []:
            with suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=Timing))
        return found


FOLDER = "data"  # below the results
LONGEST_NAME = 40

Storage = Literal["dense", "sparse"]
Description = Mapping[str, Any]  # of a data set, as in `RunSpec.data`: its name and the options of `datasets.load`


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a data set, and its baseline.

    Parameters
    ----------
    majority_error : float
        The error of always playing the most frequent class.
    storage : {"dense", "sparse"}
        How its rows are stored while they are played.
    """

    name: str
    rows: int
    features: int
    classes: int
    majority_error: float
    storage: Storage


def write_facts(conditions: Iterable[Condition], folder: Path) -> None:
    """Write the facts of every data set that has none in the results folder yet.

    Data sets of the catalogue are not loaded for it. There are no facts where the data of earlier runs are gone; the
    report does without.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for description in descriptions_of(conditions).values():
        path = path_of_facts(description, folder)
        if read_sealed(path, DataFacts):
            continue
        name = str(description["name"])
        if description.keys() == {"name"} and name in CARDS:
            facts = facts_of_card(name, CARDS[name])
        else:
            try:
                facts = facts_of_data(name, load_source(dict(description)).data)
            except InvalidInput:  # all runs are there, and the data are gone
                continue
        replace_file(path, seal(msgspec.json.encode(facts)))


def read_facts(conditions: Iterable[Condition], folder: Path) -> dict[str, DataFacts]:
    """Return the facts that were written, by the names of the data sets."""
    described = descriptions_of(conditions)
    kept = {name: read_sealed(path_of_facts(each, folder), DataFacts) for name, each in described.items()}
    return {name: facts for name, facts in kept.items() if facts is not None}


def facts_of_card(name: str, card: Card) -> DataFacts:
    """Return the facts of a named data set without loading it.

    Examples
    --------
    >>> facts_of_card("ecoli", CARDS["ecoli"]).majority_error.__round__(4)
    0.5744
    """
    sparse = card.sparse or card.nonzeros <= SPARSE_BELOW
    return DataFacts(
        name=name,
        rows=card.n_rows,
        features=card.n_features,
        classes=len(card.class_names),
        majority_error=1 - max(card.class_counts) / card.n_rows,
        storage="sparse" if sparse else "dense",
    )


def facts_of_data(name: str, data: Dataset) -> DataFacts:
    """Return the facts of a data set that is loaded.

    Examples
    --------
    >>> import numpy as np
    >>> facts_of_data("tiny", Dataset(np.eye(4), np.array([0, 1, 1, 1]), "tiny", ("a", "b"))).majority_error
    0.25
    """
    return DataFacts(
        name=name,
        rows=data.n_rows,
        features=data.n_features,
        classes=data.n_classes,
        majority_error=data.majority_error,
        storage="sparse" if data.sparse else "dense",
    )


def descriptions_of(conditions: Iterable[Condition]) -> dict[str, dict[str, Any]]:
    """Return how each data set is described, by its title."""
    return {condition.data: condition.reported[0].data for condition in conditions}


def path_of_facts(description: Description, folder: Path) -> Path:
    """Return the path for a data set; other options or another content of its file give another path."""
    digest = sha256(msgspec.json.encode(description, order="sorted")).hexdigest()
    plain = re.sub(r"\W+", "-", Path(str(description["name"])).stem)[:LONGEST_NAME]
    return folder / FOLDER / f"{plain}-{digest[:12]}.json"


def read_sealed(path: Path, kind: type[V]) -> V | None:
    """Return the record of this kind in a file; None if it is missing or damaged."""
    try:
        content = path.read_bytes()
        check_seal(content)
        return msgspec.json.decode(content, type=kind)
    except (OSError, InvalidInput, msgspec.DecodeError):
        return None


class Outcome(NamedTuple):
    """A condition with the chosen run, its result, and the mean error by which it was chosen."""

    condition: Condition
    run: RunSpec
    result: Result
    chosen_by: float


def outcomes(conditions: Iterable[Condition], store: RunStore) -> list[Outcome]:
    """Return the outcome of every condition; the tuning runs choose the setting, where there are any."""
    found = []
    for condition in conditions:
        run, error = chosen(condition, store)
        found.append(Outcome(condition, run, store.read(run), error))
    return found


def missing_runs(condition: Condition, store: RunStore) -> list[RunSpec]:
    """Return the runs of a condition that can be played now; the chosen setting is known only after the tuning."""
    tuning = [run for run in condition.choosing if not store.has(run)]
    if condition.all_reported:
        return tuning + [run for run in condition.reported if not store.has(run)]
    return tuning or [run for run in [chosen(condition, store)[0]] if not store.has(run)]


def missing_rounds(condition: Condition, store: RunStore) -> int:
    """Return the number of rounds of a condition that are not played yet."""
    missing = missing_runs(condition, store)
    first = condition.reported[0]
    waiting = not condition.all_reported and any(run.seed != first.seed for run in missing)
    own = {run.key for run in (*condition.tuning, *condition.reported)} if condition.pooled else None
    here = [run for run in missing if own is None or run.key in own]  # others count for their own data sets
    return sum(run.n_rounds for run in here) + (first.n_rounds if waiting else 0)


def chosen(condition: Condition, store: RunStore) -> tuple[RunSpec, float]:
    """Return the reported run of the setting with the lowest mean error, and that error.

    Of a single setting for many data sets that is the geometric mean over these, each error raised by one mistake.
    """
    if condition.pooled:
        logs = [[log(store.mean_error(run) + 1 / run.rounds) for run in runs] for runs in condition.pooled]
        errors = np.exp(np.mean(logs, axis=0)).tolist()
    else:
        errors = [store.mean_error(run) for run in condition.tuning or condition.reported]
    lowest = min(errors)
    return condition.reported[errors.index(lowest)], lowest
