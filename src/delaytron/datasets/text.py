"""Documents as counts of their words."""

import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from delaytron.datasets.base import Block, Dataset
from delaytron.datasets.cards import Card
from delaytron.datasets.catalogue import CARDS, NEWS20_ARCHIVE, NEWS20_COUNTS
from delaytron.datasets.downloads import cache_folder, fetch, find
from delaytron.datasets.named import assemble, check, class_numbers
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replace_arrays
from delaytron.files.compressed import BROKEN

Document = tuple[str, str, str]  # the part, the group with the name of the message, the text
WORD = r"\b[a-z]{2,}\b"
RARE = 3  # a word is counted if as many training documents have it


def news20(part: str = "all") -> Dataset:
    """Messages to twenty newsgroups, by counts of 31,121 words.

    Parameters
    ----------
    part : {"all", "train", "test"}
        The messages before a date, those after it, or all: the early ones first.
    """
    if find(NEWS20_COUNTS) is None:
        needs("sklearn")  # before a download for nothing
        _count(fetch(NEWS20_ARCHIVE), cache_folder() / NEWS20_COUNTS.path)
    return assemble("news20", CARDS["news20"], _read_counts, part)


def _read_counts(part: str, path: Path) -> Block:
    with np.load(path, allow_pickle=False) as arrays:
        return _block(part, arrays)


def _block(part: str, arrays: Any) -> Block:
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    parts = (arrays[f"{part}_data"].astype(np.float64), arrays[f"{part}_indices"], arrays[f"{part}_indptr"])
    X = csr_array(parts, shape=tuple(arrays[f"{part}_shape"].tolist()))
    X.check_format(full_check=True)
    words = tuple(word.decode() for word in arrays["vocab"].tolist())
    return Block(X, arrays[f"y_{part}"], words)


def _count(archive: Path, target: Path) -> None:
    """Count the words of the publisher's archive, check what comes out, and keep it."""
    card = CARDS["news20"]
    try:
        arrays = _counts(archive, card)
        for part in card.counts:
            check(card, part, _block(part, arrays))
    except (*BROKEN, tarfile.TarError, ValueError) as problem:
        raise InvalidInput(f"{archive}: {problem}; replace it by the file from {NEWS20_ARCHIVE.address}") from None
    replace_arrays(target, arrays)


def _counts(archive: Path, card: Card) -> dict[str, Any]:
    """Return the counts of both parts, the rows ordered by group and name, as a file of them holds them."""
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415 - slow to import

    documents = sorted(_bodies(archive))
    vectorizer = CountVectorizer(token_pattern=WORD, min_df=RARE)
    arrays: dict[str, Any] = {}
    for part, count in (("train", vectorizer.fit_transform), ("test", vectorizer.transform)):
        chosen = [document for document in documents if document[0] == f"20news-bydate-{part}"]
        X = count(body for _, _, body in _watched(chosen, f"counting words, {part}"))
        X.sort_indices()
        arrays |= {f"{part}_{what}": getattr(X, what) for what in ("data", "indices", "indptr")}
        groups = np.array([PurePosixPath(name).parts[0] for _, name, _ in chosen])
        arrays |= {f"{part}_shape": np.array(X.shape), f"y_{part}": class_numbers(card, groups)}
    return {**arrays, "vocab": np.array(vectorizer.get_feature_names_out().tolist(), dtype=np.bytes_)}


def _watched(documents: list[Document], title: str) -> Iterable[Document]:
    """Iterate over documents; on a terminal a bar shows how far."""
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import track  # noqa: PLC0415

    return track(documents, title, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _bodies(archive: Path) -> Iterator[Document]:
    """Iterate over the messages without their headers."""
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            file = members.extractfile(member)  # nothing, for a folder
            if file is not None:
                part, *name = PurePosixPath(member.name).parts
                yield part, "/".join(name), file.read().decode("latin-1").partition("\n\n")[2]
