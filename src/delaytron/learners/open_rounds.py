"""The decisions that a ledger keeps, as columns of a file and back, without making an object of each."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from delaytron.files.tensors import Tensors
from delaytron.learners.ledger import Ledger, RoundBlock
from delaytron.learners.scoring import NO_LABELS
from delaytron.records import Array, Columns, Ints, Play, Stream


class OpenRounds(NamedTuple):
    """Some decisions: what was chosen, how many numbers each row has, these numbers, and the places of sparse ones."""

    round: Ints
    columns: Columns
    lengths: Ints
    values: Array
    indices: Any


def open_tensors(ledger: Ledger, n_extras: int, sparse: bool) -> Tensors:
    """Return the decisions that a ledger keeps, in the order of their rounds."""
    runs = groupby(
        sorted(ledger.plays.items(), key=itemgetter(0)),
        key=lambda item: id(item[1]) if isinstance(item[1], RoundBlock) else None,
    )
    parts = [_of_run([number for number, _ in run], ledger) for _, run in runs]
    parts.append(_of_plays([], n_extras))
    rounds, columns, lengths, values, indices = zip(*parts, strict=True)
    greedy, label, prob, extra = (np.concatenate(column) for column in zip(*columns, strict=True))
    tensors: Tensors = {
        "open.round": np.concatenate(rounds),
        "open.greedy": greedy,
        "open.label": label,
        "open.prob": prob,
        "open.extra": extra,
        "open.starts": np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        "open.values": np.concatenate(values),
    }
    if sparse:
        tensors["open.indices"] = np.concatenate(indices)
    return tensors


def _of_run(numbers: list[int], ledger: Ledger) -> OpenRounds:
    kept = ledger.plays[numbers[0]]
    if isinstance(kept, RoundBlock):
        return _of_block(kept, np.array(numbers, np.int64))
    plays = [ledger.play(number) for number in numbers]
    return _of_plays(plays, plays[0].extra.size)


def columns_of(plays: list[Play], n_extras: int) -> Columns:
    """Return what was chosen in some rounds."""
    return Columns(
        np.array([play.greedy for play in plays], np.int64),
        np.array([play.label for play in plays], np.int64),
        np.array([play.prob for play in plays], np.float64),
        np.array([play.extra for play in plays], np.float64).reshape(len(plays), n_extras),
    )


def _of_plays(plays: list[Play], n_extras: int) -> OpenRounds:
    return OpenRounds(
        np.array([play.round for play in plays], np.int64),
        columns_of(plays, n_extras),
        np.array([play.x.values.size for play in plays], np.int64),
        np.concatenate([np.empty(0), *(play.x.values for play in plays)]),
        _joined_indices(play.x.indices for play in plays),
    )


def _joined_indices(indices: Iterable[Any]) -> Any:
    known = [part for part in indices if part is not None]
    return np.concatenate([np.empty(0, np.uint32), *known])


def _of_block(block: RoundBlock, numbers: Ints) -> OpenRounds:
    at = np.searchsorted(block.rounds, numbers)
    greedy, label, prob, extra = block.columns
    columns = Columns(greedy[at], label[at], prob[at], extra[at])
    indptr, indices, values, _ = block.stream
    if indptr is None:
        rows = values[at]
        lengths = np.full(at.size, rows.shape[1], np.int64)
        return OpenRounds(numbers, columns, lengths, rows.ravel(), np.empty(0, np.uint32))
    starts = indptr[at].astype(np.int64)
    lengths = indptr[at + 1].astype(np.int64) - starts
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    return OpenRounds(numbers, columns, lengths, values[places], indices[places])


def keep_open(ledger: Ledger, tensors: Tensors, n_features: int, sparse: bool) -> None:
    """Let a ledger keep the decisions of a file, which were checked."""
    rounds = tensors["open.round"].copy()
    if not rounds.size:
        return
    columns = Columns(*(tensors[f"open.{name}"].copy() for name in ("greedy", "label", "prob", "extra")))
    values = tensors["open.values"].copy()
    if sparse:
        stream = Stream(tensors["open.starts"].copy(), tensors["open.indices"].copy(), values, NO_LABELS)
    else:
        stream = Stream(None, None, values.reshape(rounds.size, n_features), NO_LABELS)
    ledger.plays = dict.fromkeys(rounds.tolist(), RoundBlock(rounds, stream, columns))
