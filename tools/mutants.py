#!/usr/bin/env python3
"""Seeded mutants of Book, learner, State, Engine, Writer, stores, replies and loop, and whether the suite kills them.

    .venv/bin/python tools/mutants.py --check          # every mutant still applies, to exactly one place
    .venv/bin/python tools/mutants.py [--jobs 2] [NAME ...]   # run them; exit code 1 if one survives, 2 if tests fail

A mutant replaces one piece of text in one file. It is run on a copy of the package, by the tests of its group, and is
killed if one of them fails or does not end in time. First the tests must pass on a copy without a mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "delaytron"
SECONDS = 900  # a mutant that hangs is killed, too


class Mutant(NamedTuple):
    """A change of one file; `tests` kill it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


BOOK = ("tests/learners/test_book.py", "tests/learners/test_feedback.py", "tests/learners/test_files.py")
LEARNER = (
    "tests/learners/test_interruptions.py",
    "tests/learners/test_online.py",
    "tests/learners/test_decide_many.py",
)
STATE = (
    "tests/model/test_machine.py",
    "tests/model/test_expiry.py",
    "tests/model/test_journal_model.py",
    "tests/model/test_journal_failures.py",
    "tests/model/test_verify.py",
    "tests/model/test_learn_from.py",
)
INTERRUPTIONS = "tests/model/test_model_interruptions.py"
ENGINE = (*STATE, "tests/model/test_model.py", "tests/model/test_other_processes.py", INTERRUPTIONS)
WRITER = ("tests/journal/test_writer.py", "tests/journal/test_crashes.py", INTERRUPTIONS)
STORE = ("tests/journal/test_store.py", "tests/journal/test_outside.py", "tests/journal/test_damaged_journals.py")
BY_OUTCOME = ("tests/learners/test_delays_by_outcome.py", "tests/learners/test_bold.py")
LOOP = ("tests/learners/test_reference_traces.py", "tests/learners/test_feedback.py", BY_OUTCOME[0], *LEARNER)
ANSWERS = ("tests/test_answers.py",)

CHANGES: dict[tuple[str, tuple[str, ...]], list[tuple[str, str]]] = {
    ("learners/book.py", BOOK): [
        ("return len(self.kept) - len(self.ended)", "return len(self.kept)"),
        ("            self._status.append(status)\n", ""),
        (
            "            self._waiting.append(number)\n        self.kept[number] = entry",
            "        self.kept[number] = entry",
        ),
        ("            self._waiting.extend(numbers)\n", "            pass\n"),
        ("correctable=self.is_correctable(number))", "correctable=False)"),
        (
            "kind = CORRECTION_EVENT if end is not None and end.event == NO_EVENT else ANSWER_EVENT",
            "kind = ANSWER_EVENT",
        ),
        (
            "kind = CORRECTION_EVENT if end is not None and end.event == NO_EVENT else ANSWER_EVENT",
            "kind = CORRECTION_EVENT",
        ),
        ("self._settle(number, Status.EXPIRED, value)", "self._settle(number, Status.ANSWERED, value)"),
        ("            self._correctable.append(number)\n", ""),
        (
            "self._end(number, Status.EXPIRED, None, EXPIRY_EVENT)",
            "self._end(number, Status.EXPIRED, None, ANSWER_EVENT)",
        ),
        ("self._drop(number, Status.CANCELLED)", "self._drop(number, Status.EXPIRED)"),
        ("        self._serial += 1\n        # The queue", "        # The queue"),
        ("        self.arrived.append(number)\n", ""),
        ("        self.ended.pop(number, None)\n", ""),
        ("missing = number - len(self._status)", "missing = number - len(self._status) - 1"),
        ("answer = nan if value is None else value", "answer = value or 0.0"),
        ("limits = (self.expiry.rounds, self.expiry.clock)", "limits = (self.expiry.rounds + 1, self.expiry.clock)"),
        ("        if end.event == NO_EVENT:\n            self._drop", "        if True:\n            self._drop"),
        ("end.status == Status.EXPIRED and end.event != ANSWER_EVENT", "end.status == Status.EXPIRED"),
        ("if round - number >= limits[0]:", "if round - number > limits[0]:"),
        ("clock - now.clock >= limits[1]", "clock - now.clock > limits[1]"),
        ("numbers = sorted(set(arrived)) if len(arrived) > 1 else arrived", "numbers = arrived"),
        ("if n in ended and ended[n].event != NO_EVENT]", "if n in ended]"),
        (
            "            self.ended[number] = End(end.status, None, NO_EVENT, 0)",
            "            del self.kept[number], self.ended[number]",
        ),
        ("if end.event != NO_EVENT and end.serial == applied:", "if end.serial == -1 == applied:"),
        (
            "return Expiry(rounds, as_wrong=True, release_rounds=min(rounds + more, NEVER))",
            "return Expiry(rounds, as_wrong=True)",
        ),
    ],
    ("learners/learner.py", LEARNER): [
        ("if self.rule.keeps_clock and self.book.marks[BEGUN] < now", "if self.rule.keeps_clock"),
        ("return self.book.pending + 1", "return self.book.pending"),
        ("            self._apply(events)\n            end = None", "            self._apply(events)"),
        ("return answer == 1, answer, end.event, end.serial", "return answer == 1, answer, end.event, 0"),
        ("        self.book.recover()\n", ""),
        ("if marks[PLAYED] > self.book.rounds:", "if False:"),
        ("advance(self.book.rounds)", "advance(self.book.rounds + 1)"),
        ("                if frame is self._running:", "                if False:"),
        ("before = (first - 1, self.book.pending)", "before = (first - 1, 0)"),
    ],
    ("model/state.py", STATE): [
        ("            self.ids[operation.id] = play.round\n            self.tally", "            self.tally"),
        ("            if not self.book.expiry.as_wrong:\n                del self.ids[operation.id]\n", ""),
        ("            self.tally.expired += 1\n", ""),
        ("            self.tally.cancelled += 1\n", ""),
        ("        self.tally.corrected += corrects\n", ""),
        ("            self.tally.late += 1\n", "            pass\n"),
        ("        del self.ids[operation.id]\n        reward", "        reward"),
        ("self.tally.grow(self.learner.n_classes)", "pass"),
        (
            "number not in book.ended:\n                play, _, now",
            "number in book.kept:\n                play, _, now",
        ),
        ("result != (stored.round, stored.greedy, stored.label, stored.prob, stored.extra)", "False"),
        ("book=self.book.copy())", "book=self.book)"),
        ("self.book.replace(Kept(play, id_, now))", "pass"),
        ("            self.encoder.add_names(stored.names)\n", ""),
    ],
    ("model/engine.py", ENGINE): [
        ('            late = arrival.reply == "late"\n', "            late = False\n"),
        ("        self._expire_due(now, self.state.rounds)\n        return now", "        return now"),
        (
            "            self._expire_due(now, self.state.rounds + 1)\n        self._deciding",
            "            pass\n        self._deciding",
        ),
        ("            state.replay(fact)\n            count += 1", "            count += 1"),
        ("        if known.digest != digest:", "        if False:"),
        ("self.store.set_status(id, Status.CANCELLED)", "self.store.set_status(id, Status.EXPIRED)"),
        ("self.store.set_status(id, Status.ANSWERED, value, expected=expected)", "pass"),
        ('hashed.update(b"" if allowed is None else b"among" + allowed.tobytes())', "pass"),
        ("            after = snapshot.seq\n", "            after = snapshot.seq + 1\n"),
        ("        state.find_ids()\n        if state.recording", "        if state.recording"),
        ("            state.complete_record(number)\n", "            pass\n"),
        ("and self._deciding.id == issued else None", "and False else None"),
        ("            tally.played[label] += 1\n            tally.cancelled", "            tally.cancelled"),
        (
            "        checked = self.state.classes.check_retirable(name)\n        self.writer.changing()",
            "        checked = self.state.classes.check_retirable(name)",
        ),
    ],
    ("journal/writer.py", WRITER): [
        ("        shared.stale = True  # until the commit", "        pass"),
        (
            "            if shared.stale:\n                self._restore()\n                shared.restored",
            "            if False:\n                shared.restored",
        ),
        ("if shared.changing or store.writes != writes:", "if False:"),
        ("if len(tasks) >= MOST_AT_ONCE:", "if len(tasks) > MOST_AT_ONCE:"),
        ("            task.claim.acquire(blocking=False)\n            raise", "            raise"),
        ("                if shared.generation == generation:", "                if True:"),
        ("            self.deadline = monotonic() + SECONDS\n", ""),
        (
            "            self.first_seq = store.last_seq\n        if",
            "            self.first_seq = store.last_seq\n        self.deadline = monotonic() + SECONDS\n        if",
        ),
    ],
    ("journal/sqlite.py", STORE): [
        ("AND status IN (?5, ?6) AND value IS NULL", "AND status IN (?5, ?6)"),
        ("AND (status != 2 OR ?1 = 2 OR correctable)", ""),
        ("AND NOT ids.correctable AND", "AND"),
        ("AND max(facts.clock) < ?", "AND max(facts.clock) <= ?"),
        ("AND max(facts.seq) <= (SELECT max(seq) FROM snapshots) ", ""),
        ("HAVING max(facts.seq) < ? AND", "HAVING max(facts.seq) <= ? AND"),
        ("WHERE seq > ? ORDER BY seq LIMIT ?", "WHERE seq >= ? ORDER BY seq LIMIT ?"),
        ("if not isinstance(value, float) or value != settled:", "if False:"),
    ],
    ("journal/database.py", (*STORE, *WRITER)): [
        ("if code != sqlite3.SQLITE_BUSY or self._open or monotonic() >= until:", "if True:"),
        ("        if not self.inherited:\n", "        if True:\n"),
        ("        if self._failed and self._refused:", "        if False:"),
        ("            if connection.in_transaction:\n", "            if False:\n"),
        ('PRAGMAS = ("synchronous = FULL"', 'PRAGMAS = ("synchronous = OFF"'),
    ],
    ("journal/store.py", STORE): [
        (
            "if row is None or row.value is not None or row.status not in expected:",
            "if row is None or row.status not in expected:",
        ),
        ("if row.status == Status.EXPIRED and status != Status.EXPIRED and not row.correctable:", "if False:"),
        ("            self._undo_from(0)\n", ""),
        ("        self._seq = self._seq_at_savepoint\n", ""),
    ],
    ("answers.py", ANSWERS): [
        ('return "corrected" if known.correctable else "late"', 'return "corrected"'),
        (
            '        if known.value == value:\n            return "duplicate"',
            '        if known.value != value:\n            return "duplicate"',
        ),
        (
            '    if known.status == Status.CANCELLED:\n        return "cancelled"\n    if known.value',
            "    if known.value",
        ),
        (
            '    if known.status == Status.OPEN:\n        return "cancelled"',
            '    if known.status != Status.CANCELLED:\n        return "cancelled"',
        ),
    ],
    ("kernels/loop.py", LOOP): [
        ("elif kind != DROP_EVENT and (right or kind != CORRECTION_EVENT):", "elif right or kind != CORRECTION_EVENT:"),
        ("observation(right and kind != EXPIRY_EVENT, y)", "observation(right, y)"),
        (
            "    if kind == CORRECTION_EVENT and revises:\n        if right:\n            revise",
            "    if kind == CORRECTION_EVENT and revises:\n        if True:\n            revise",
        ),
        (
            "    marks[APPLIED] = serial\n\n\n@kernel\ndef deliver_reward",
            "    marks[APPLIED] = 0\n\n\n@kernel\ndef deliver_reward",
        ),
        ("    marks[PLAYED] = marks[NOW]\n", "    marks[PLAYED] = marks[NOW] - 1\n"),
        (
            "tick(state, params, before[0] + i + 1, before[1] + i + 1)",
            "tick(state, params, before[0] + i + 1, before[1] + 1)",
        ),
        (
            "tick(state, params, before[0] + t + 1, before[1] + waiting)",
            "tick(state, params, before[0] + t, before[1] + waiting)",
        ),
        (
            "if scenario.flips.size and scenario.flips[s] >> right & 1:",
            "if scenario.flips.size and scenario.flips[s] & 1:",
        ),
        ("((kind & IF_RIGHT) > 0) == right", "((kind & IF_RIGHT) > 0) != right"),
        ("waiting = t + 1 - log.ended[0]", "waiting = t + 1 - last"),
        ("if (kind & KIND_BITS) != CORRECTION_EVENT and happens(kind, right):", "if happens(kind, right):"),
        ("kind &= KIND_BITS", "kind &= CORRECTION_EVENT"),
    ],
    ("simulation/scenarios.py", BY_OUTCOME): [
        ("same = (one.due == other.due) & (one.kinds == other.kinds)", "same = one.due == other.due"),
        ("own[places[first]] = False", "own[places] = False"),
        ("own[places[first]] = False", "own[places[:0]] = False"),
        ("np.where(same, right.size, other.due)", "other.due"),
    ],
}


def mutants() -> list[Mutant]:
    """Return all mutants, named by their file and number."""
    found = []
    for (file, tests), changes in CHANGES.items():
        for number, (old, new) in enumerate(changes, 1):
            found.append(Mutant(f"{Path(file).stem}-{number}", file, old, new, tests))
    return found


def check() -> int:
    """Print the mutants that do not apply to exactly one place; return how many."""
    bad = 0
    for mutant in mutants():
        count = (SOURCE / mutant.file).read_text().count(mutant.old)
        if count != 1:
            bad += 1
            print(f"{mutant.name}: found {count} times: {mutant.old!r}")
    print(f"{len(mutants())} mutants, {bad} do not apply")
    return bad


def survives(mutant: Mutant, folder: Path) -> bool:
    """Return whether all tests of its group pass on a copy of the package, in this folder, with the mutant in it."""
    package = folder / "delaytron"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / mutant.file
    path.write_text(path.read_text().replace(mutant.old, mutant.new))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *mutant.tests]
    environment = {
        **os.environ,
        "CI": "true",  # the same random examples every time
        "PYTHONPATH": str(folder),
        "NUMBA_CACHE_DIR": str(folder / "compiled"),  # by the digest of the sources: what is unchanged is compiled once
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples"),
    }
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode in (4, 5):  # a test file was renamed, for example
        raise RuntimeError(f"{mutant.name}: pytest ran no test: {done.stderr.decode() or done.stdout.decode()}")
    if done.returncode and not mutant.old:
        print(done.stdout.decode()[-5000:], flush=True)  # of the unchanged code
    return done.returncode == 0


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="mutants to run; all by default")
    parser.add_argument("--check", action="store_true", help="only see whether all apply")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    if asked.check:
        return int(check() > 0)
    chosen = [mutant for mutant in mutants() if not asked.names or mutant.name in asked.names]
    groups = dict.fromkeys(mutant.tests for mutant in chosen)
    unchanged = [Mutant(f"unchanged, {tests[0]}, ...", chosen[0].file, "", "", tests) for tests in groups]
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(asked.jobs) as pool:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.jobs):
            folders.put(Path(root, str(number)))

        def run(mutant: Mutant) -> bool:
            folder = folders.get()
            try:
                return survives(mutant, folder)
            finally:
                folders.put(folder)

        failing = [mutant.name for mutant, alive in zip(unchanged, pool.map(run, unchanged), strict=True) if not alive]
        if failing:
            print(f"tests fail without a mutant, which would kill all: {failing}")
            return 2
        survivors = []
        for mutant, alive in zip(chosen, pool.map(run, chosen), strict=True):
            print(f"{mutant.name}: {'SURVIVES' if alive else 'killed'}", flush=True)
            if alive:
                survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
