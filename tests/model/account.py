"""A plain account of what a model was told: a dict of ids, and lists of classes. It knows no learner."""

from dataclasses import dataclass

import delaytron as dt


@dataclass
class Entry:
    round: int
    label: object
    at: int
    status: str = "open"
    value: float | None = None


class Account:
    """What became of every id, and the words that are said."""

    def __init__(self, classes, expire_after, on_expiry, clock):
        self.names = list(classes)
        self.retired = set()
        self.entries = {}
        self.rounds = expire_after if isinstance(expire_after, int) else None
        self.time = 60 * 10**9 if expire_after == "60s" else None
        self.takes_late_answers = on_expiry == "wrong"
        self.clock = clock
        self.n_expired = 0
        self.n_late = 0

    def ids(self, status):
        return [issued for issued, entry in self.entries.items() if entry.status == status]

    def active(self):
        return [name for name in self.names if name not in self.retired]

    def allows(self, allowed):
        return allowed is None or set(allowed) <= set(self.active())

    def are_new(self, ids, n):
        return len(ids) == n == len(set(ids)) and not set(ids) & self.entries.keys()

    def decided(self, decision, allowed):
        """Write a decision down; as its round begins, others expire."""
        number = len(self.entries) + 1
        assert decision.round == number
        assert decision.id not in self.entries
        assert decision.label in (self.active() if allowed is None else allowed)
        assert 0 < decision.prob <= 1
        if self.rounds is not None:
            self._expire(lambda entry: number - entry.round >= self.rounds)
        self.entries[decision.id] = Entry(number, decision.label, self.clock.uptime)

    def expire_by_time(self):
        if self.time is not None:
            self._expire(lambda entry: self.clock.uptime - entry.at >= self.time)

    def _expire(self, is_due):
        for entry in self.entries.values():
            if entry.status == "open" and is_due(entry):
                entry.status = "expired"
                self.n_expired += 1

    def answered(self, id, answer):
        """Return what is said to an answer."""
        if "label" in answer and answer["label"] not in self.names:
            return dt.InvalidInput
        entry = self.entries.get(id)
        if entry is None:
            return dt.UnknownDecision
        ((form, given),) = answer.items()
        value = float(entry.label == given) if form == "label" else float(given)
        if entry.status == "answered":
            return "duplicate" if entry.value == value else dt.ConflictingFeedback
        if entry.status == "cancelled" or (entry.status == "expired" and not self.takes_late_answers):
            return entry.status
        self.n_late += entry.status == "expired"
        entry.status, entry.value = "answered", value
        return "accepted"

    def cancelled(self, id):
        """Return what is said to one who wants no answer."""
        entry = self.entries.get(id)
        if entry is None:
            return dt.UnknownDecision
        if entry.status == "open":
            entry.status = "cancelled"
            return "cancelled"
        return "duplicate" if entry.status == "cancelled" else dt.ConflictingFeedback

    def added(self, name):
        """Return the error for a class that comes, None if there is none."""
        is_name = isinstance(name, int | str) and name is not True and name != ""
        if not is_name or name in self.active():
            return dt.InvalidInput
        if name in self.names:
            self.retired.discard(name)
        else:
            self.names.append(name)
        return None

    def retired_now(self, name):
        """Return the error for a class that goes, None if there is none."""
        if name is True or name not in self.active() or len(self.active()) == 1:
            return dt.InvalidInput
        self.retired.add(name)
        return None
