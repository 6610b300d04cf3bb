"""Recorded delays by the name of their file, or of one that others have published."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from delaytron.checks import check_choice, did_you_mean, not_there
from delaytron.delays.times import Recorded
from delaytron.delays.traces import Trace
from delaytron.errors import InvalidInput


class Example(NamedTuple):
    """A recorded trace that others have published."""

    file: str
    source: str
    wait: str | None = None


EXAMPLES = {
    "college": Example("college_reply_delays.csv.gz", "https://snap.stanford.edu/data/CollegeMsg.html"),
    "dengue": Example("dengue_report_delays.csv.gz", "https://cran.r-project.org/package=NobBS"),
    "retweets": Example(
        "retweet_delays.csv.gz", "https://cran.r-project.org/package=seismic", wait="relative_time_second"
    ),
}


def example(name: str) -> Trace:
    """Read a real trace: `college` (replies), `dengue` (reports of cases) or `retweets`.

    The file is looked for in the folder `delays` of the folder that the variable DELAYTRON_DATA names.
    """
    known = EXAMPLES[check_choice("example", name, EXAMPLES)]
    home = os.environ.get("DELAYTRON_DATA")
    folder = Path(home or "DELAYTRON_DATA").expanduser() / "delays"
    if home and (folder / known.file).is_file():
        trace = Trace.from_file(folder / known.file, wait=known.wait)
        return Trace(Recorded(trace.delays, trace.waits, f"trace:{name}"))
    where = str(folder) if home else "the folder delays of a folder that the variable DELAYTRON_DATA names"
    raise InvalidInput(f"{name} is not on this machine: put {known.file}, made of {known.source}, into {where}")


def open_trace(source: str, **columns: Any) -> Trace:
    """Read a file or, where there is none of that name, an example; `columns` are those of `Trace.from_file`."""
    if Path(source).exists():
        return Trace.from_file(source, **columns)
    if source not in EXAMPLES:
        near = did_you_mean(source, EXAMPLES) or not_there(Path(source))
        raise InvalidInput(f"cannot read the trace {source!r}: no such file; published are {', '.join(EXAMPLES)}{near}")
    if columns:
        raise InvalidInput(f"the columns of the example {source} are known; leave {', '.join(columns)} out")
    return example(source)
