"""Policies as probabilities for every decision of a log, and learners that learn from a log."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.checks import check_choice, check_matrix, is_sparse
from delaytron.errors import InvalidInput
from delaytron.formats import plain_value
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.arguments import as_row
from delaytron.learners.book import Kept
from delaytron.learners.files import make_named
from delaytron.learners.predictions import look, private_scratch
from delaytron.model.encoders import make_encoder
from delaytron.records import Array, Bools, Ints, Row

if TYPE_CHECKING:
    from delaytron.checks import Matrix
    from delaytron.logs.log import Log
    from delaytron.model.model import Model


class NamedPolicy(NamedTuple):
    """The name of a policy, and the parameters of the learner that it names."""

    name: str
    parameters: dict[str, Any]


def read_name(policy: Any, parameters: dict[str, Any]) -> NamedPolicy | None:
    """Return a policy that is given by its name, or None; `parameters` win over those in the policy.

    Raises InvalidInput if the parameters in the text cannot be parsed.

    Examples
    --------
    >>> read_name("gap:gamma=0.1,eta=2", {})
    NamedPolicy(name='gap', parameters={'gamma': 0.1, 'eta': 2})
    >>> read_name(("gap", {"gamma": 0.1}), {}) == read_name("gap", {"gamma": 0.1})
    True
    """
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[0], str) and isinstance(policy[1], dict):
        return NamedPolicy(policy[0], policy[1] | parameters)
    if not isinstance(policy, str):
        return None
    name, colon, rest = policy.partition(":")
    if not colon or name not in LEARNERS:
        return NamedPolicy(policy, parameters)
    pairs = [part.partition("=") for part in rest.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise InvalidInput(
            f"the parameters of a policy must be NAME:PARAMETER=VALUE,...; got {policy!r}",
            "give them as in gap:gamma=0.1,eta=2",
        )
    given = {parameter.strip(): plain_value(value) for parameter, _, value in pairs}
    return NamedPolicy(name, given | parameters)


BITS = 18  # of hashed features, as a model has them by default
FEWEST_BITS = 10  # a learner of fewer features has learned from vectors, not from hashed names


def rows_of(log: "Log", bits: int = BITS) -> "Matrix":
    """Return the features of a log as a matrix; those with names are hashed as a model hashes them."""
    if not isinstance(log.features, list):
        matrix: Matrix = log.features
        return matrix
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    encoder = make_encoder("hashed", bits)
    rows = [encoder.encode(one) for one in log.features]
    ends = np.concatenate([[0], np.cumsum([row.values.size for row in rows])])
    values = np.concatenate([row.values for row in rows])
    indices = np.concatenate([np.asarray(row.indices, np.int32) for row in rows])
    return csr_array((values, indices, ends.astype(np.int32)), shape=(len(rows), 2**bits))


def bits_for(n_features: int) -> int:
    """Return the number of bits of hashed rows with this many features; raise if a learner of them takes vectors.

    Examples
    --------
    >>> bits_for(2**18)
    18
    """
    bits = n_features.bit_length() - 1
    if n_features != 2**bits or bits < FEWEST_BITS:
        raise InvalidInput(
            f"the log's features have names, and this learner takes rows of {n_features} numbers",
            "make a log of such rows, or give a learner by its name",
        )
    return bits


CLOSE = 1e-6  # tolerance for the sum of probabilities
MOST_LISTED = 8  # classes in a message
LOGGED, UNIFORM, ALWAYS = "logged", "uniform", "always:"

Advance = Callable[[int], object]


class Policy(NamedTuple):
    """A policy with a name: its probabilities on a log, or a learner that is to learn from the log."""

    name: str
    probabilities: Array | None = None
    learner: Learner | None = None


def read_policy(log: "Log", policy: Any, seed: int, parameters: dict[str, Any], advance: Advance) -> Policy:
    """Return the policy that a user asks for; raise InvalidInput if it does not fit the log."""
    named = read_name(policy, parameters)
    fixed = None if named is None else _fixed(log, named.name)
    if named is not None and fixed is None:
        name, given = named
        check_choice("policy", name, (*LEARNERS, UNIFORM, LOGGED, f"{ALWAYS}CLASS"))
        n_features = 2**BITS if log.n_features is None else log.n_features
        learner = make_named(name, given, log.n_classes, n_features, seed)
        title = ",".join(f"{parameter}={value}" for parameter, value in given.items())
        return Policy(f"{name}:{title}" if title else name, learner=check_learner(log, learner))
    unused = parameters if named is None else named.parameters
    if unused:
        raise InvalidInput(
            f"parameters are for a learner that is given by its name, got {', '.join(unused)}", "leave them out"
        )
    if named is not None:
        return Policy(named.name, fixed)
    if isinstance(policy, Learner):
        return Policy(policy.name, learner_probabilities(log, policy, advance))
    from delaytron.model.model import Model  # noqa: PLC0415 - slow to import

    if isinstance(policy, Model):
        return Policy("model", _model_probabilities(log, policy, advance))
    return Policy("array", check_probabilities(log, policy))


def _fixed(log: "Log", name: str) -> Array | None:
    """Return the probabilities of a policy that is not a learner, None for another name."""
    if name.startswith(ALWAYS):
        names = [str(one) for one in log.classes]
        label = names.index(check_choice("the class of a policy", name.removeprefix(ALWAYS), names))
        found = np.zeros((len(log), log.n_classes))
        found[:, label] = 1.0
        if log.allowed is None:
            return found
        return np.where(log.allowed[:, [label]], found, _uniform(log))  # where it is not allowed, another at random
    if name == UNIFORM:
        return _uniform(log)
    if name != LOGGED:
        return None
    # A log may have the probability of its label only; those of the others are then 0 here.
    found = np.zeros((len(log), log.n_classes)) if log.probabilities is None else np.array(log.probabilities)
    found[np.arange(len(log)), log.labels] = log.probs
    return found


def _uniform(log: "Log") -> Array:
    if log.allowed is None:
        return np.full((len(log), log.n_classes), 1.0 / log.n_classes)
    return np.asarray(log.allowed / log.allowed.sum(axis=1, keepdims=True))


def check_learner(log: "Log", learner: Learner) -> Learner:
    """Return a learner; raise InvalidInput if it cannot learn from a log."""
    if learner.rule.peek is None:
        raise InvalidInput(
            f"{learner.name} plays sets of labels, and no single label has a probability", "take another learner"
        )
    if learner.feedback_type == "label":
        raise InvalidInput(f"{learner.name} learns from the true label, a log has rewards", "take another learner")
    known = log.outcomes[~np.isnan(log.outcomes)]
    between = known[(known > 0) & (known < 1)]
    if between.size and not learner.takes_rewards:
        raise InvalidInput(f"{learner.name} takes rewards of 0 and 1 only, got {between[0]}", "take another learner")
    return learner


def check_probabilities(log: "Log", given: Any) -> Array:
    """Return an array of probabilities, one row for each decision; raise InvalidInput if it is not one."""
    shape = (len(log), log.n_classes)
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != shape:
        kinds = f"a learner, a model, a name, or an array of probabilities of shape {shape}"
        got = f"shape {found.shape}" if found.size and found.ndim else type(given).__name__
        raise InvalidInput.of("policy", kinds, got=got)
    fine = (found >= 0).all(axis=1) & (abs(found.sum(axis=1) - 1) <= CLOSE)
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidInput.of("probabilities", "at least 0 and sum to 1", got=f"{str(found[row])[:100]} in row {row}")
    if log.allowed is not None and (found[~log.allowed] > 0).any():
        row, label = np.argwhere((found > 0) & ~log.allowed)[0]
        raise InvalidInput(
            f"label {label} was not allowed in row {row}, got probability {found[row, label]}", "make it 0"
        )
    return found


def learner_probabilities(log: "Log", learner: Learner, advance: Advance) -> Array:
    """Return the probabilities of a learner as it is now, without further learning."""
    if learner.n_classes != log.n_classes:
        raise InvalidInput(
            f"the log has {log.n_classes} classes, this learner has {learner.n_classes}", "give one with as many"
        )
    bits = bits_for(learner.n_features) if log.n_features is None else BITS
    X: Any = check_matrix(rows_of(log, bits), learner.n_features)
    scratch = private_scratch(learner)
    found = np.empty((len(log), log.n_classes))
    with learner._lock:  # so that no other thread changes the weights between two rows
        for t, labels in enumerate(allowed_labels(log)):
            x = X[t : t + 1] if is_sparse(X) else X[t]
            _, found[t] = look(learner, as_row(x, learner.n_features, None), labels, scratch)
            advance(1)
    return found


def _model_probabilities(log: "Log", model: "Model", advance: Advance) -> Array:
    """Return the probabilities of a model as it is now; its classes are matched to those of the log by name."""
    places = {name: label for label, name in enumerate(log.classes)}
    found = np.zeros((len(log), log.n_classes))
    for t, labels in enumerate(allowed_labels(log)):
        names = [log.classes[label] for label in labels.tolist() if log.classes[label] in model.classes]
        if not names:
            has, allows = _first(model.classes), _first(log.classes[label] for label in labels.tolist())
            raise InvalidInput(
                f"the model has the classes {has}, and row {t} of the log allows {allows}: none of them",
                "give the classes of the log their names, as in dt.logs.from_arrays(classes=[...])",
            )
        for name, prob in model.probabilities(log.features[t], allowed=names).items():
            found[t, places[name]] = prob
        advance(1)
    return found


def _first(names: Iterable[Any]) -> str:
    several = [repr(name) for name in names]
    return ", ".join(several[:MOST_LISTED]) + (", ..." if len(several) > MOST_LISTED else "")


def allowed_labels(log: "Log") -> list[Ints]:
    """Return for each decision the labels that were allowed, ascending."""
    if log.allowed is None:
        return [np.arange(log.n_classes)] * len(log)
    return [np.flatnonzero(mask) for mask in log.allowed]


# Learners that learn from a log: from all of it, or only from the decisions that they would have made themselves.
#
# `learn_along` lets a learner learn from every decision of the log, with the label and the probability of the log. Its
# probabilities in round t depend on earlier rounds and on outcomes that had arrived by then, so given the past
# w r - sum over labels of pi r has expectation 0: the estimate is that of the mean value of the policies that the
# learner went through.
#
# `play_by_rejection` (Li, Chu, Langford and Wang, 2011) lets it play: round t is accepted with probability
# least pi(label) / prob, where `least` is the smallest probability in the log. A round with label a is then accepted
# with probability least pi(a): every round as often as any other, with the labels that the learner would play. The
# accepted rounds are a run of the learner itself, and it learns from nothing else.
#
# In both, an outcome is applied before the first decision that was made after it arrived; in a log without times,
# before the next decision.
NOW = int(np.iinfo(np.int64).min)  # the time of everything in a log without times


class Replayed(NamedTuple):
    """The probabilities in every round, and which rounds were accepted."""

    probabilities: Array
    accepted: Bools


def time_order(log: "Log") -> Ints:
    """Return the rounds in the order in which they were decided."""
    if log.decided_at is None:
        return np.arange(len(log))
    return np.argsort(log.decided_at, kind="stable")


def learn_along(log: "Log", learner: Learner, advance: Advance) -> Array:
    """Return the probabilities, round by round, of an untrained learner that learns from all decisions of a log."""
    student = _Student(log, learner)
    for t, row, labels in student.rounds():
        greedy, _ = student.look(t, row, labels)
        student.take(t, row, labels, greedy, float(log.probs[t]))
        advance(1)
    return student.probabilities


def play_by_rejection(log: "Log", learner: Learner, draws: Array, advance: Advance) -> Replayed:
    """Let a learner play on a log by rejection sampling; return its probabilities and the accepted rounds."""
    student = _Student(log, learner)
    accepted = np.zeros(len(log), np.bool_)
    share = acceptance(log)
    for t, row, labels in student.rounds():
        greedy, p = student.look(t, row, labels)
        prob = float(p[log.labels[t]])
        accepted[t] = draws[t] < prob * share[t]
        if accepted[t]:
            student.take(t, row, labels, greedy, prob)
        advance(1)
    return Replayed(student.probabilities, accepted)


def acceptance(log: "Log") -> Array:
    """Return the probability that a round is accepted if the policy plays its label with probability 1."""
    every = log.probs if log.probabilities is None else log.probabilities[log.probabilities > 0]
    return np.minimum(1.0, min(float(every.min()), float(log.probs.min())) / log.probs)


class _Student:
    """A learner that learns from decisions of a log as if it had made them."""

    def __init__(self, log: "Log", learner: Learner) -> None:
        self.log = log
        self.learner = learner
        self.X: Any = check_matrix(rows_of(log), learner.n_features)
        learner._reset_state(sparse=is_sparse(self.X))
        self.scratch = private_scratch(learner)
        self.probabilities = np.empty((len(log), log.n_classes))
        self.pending: list[tuple[int, int, float]] = []  # outcomes, a heap: time of arrival, round, reward

    def rounds(self) -> Iterator[tuple[int, Row, Ints]]:
        """Iterate over the rounds in the order of time; outcomes that arrived before one are learned first."""
        allowed = allowed_labels(self.log)
        for t in time_order(self.log).tolist():
            now = NOW if self.log.decided_at is None else int(self.log.decided_at[t])
            if self.pending and self.pending[0][0] <= now:
                while self.pending and self.pending[0][0] <= now:
                    _, round_number, reward = heappop(self.pending)
                    self.learner.answer(round_number, reward if self.learner.takes_rewards else int(reward))
                self.learner.flush()
            x = self.X[t : t + 1] if is_sparse(self.X) else self.X[t]
            yield t, as_row(x, self.learner.n_features, self.learner.sparse), allowed[t]

    def look(self, t: int, row: Row, labels: Ints) -> tuple[int, Array]:
        """Return the greedy label and the probabilities of a round."""
        greedy, p = look(self.learner, row, labels, self.scratch)
        self.probabilities[t] = p
        return greedy, p

    def take(self, t: int, row: Row, labels: Ints, greedy: int, prob: float) -> None:
        """Let the learner play the label of the log with this probability; its outcome arrives later."""
        label = int(self.log.labels[t])
        play = self.learner.play_chosen(row, labels, label)._replace(greedy=greedy, label=label, prob=prob)
        self.learner.book.replace(Kept(play))
        reward = float(self.log.outcomes[t])
        if not np.isnan(reward):
            times = self.log.decided_at if self.log.received_at is None else self.log.received_at
            received = NOW if times is None or self.log.decided_at is None else int(times[t])
            heappush(self.pending, (received, play.round, reward))
