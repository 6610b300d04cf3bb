"""A reference model in plain Python: a dict of ids, and lists of classes. It knows no learner."""

from dataclasses import dataclass

import delaytron as dt


@dataclass
class Entry:
    round: int
    label: object
    at: int
    given: tuple = ()
    decision: object = None
    correctable: bool = False
    status: str = "open"
    value: float | None = None


class Account:
    """The status of every id, and the replies to answers."""

    def __init__(self, classes, expire_after, on_expiry, clock):
        self.names = list(classes)
        self.retired = set()
        self.entries = {}
        self.rounds = expire_after if isinstance(expire_after, int) else None
        self.time = 60 * 10**9 if expire_after == "60s" else None
        self.takes_late_answers = on_expiry == "wrong"  # until ten times the limit has passed since the expiry
        self.clock = clock
        self.n_expired = 0
        self.n_corrected = 0
        self.n_late = 0

    def ids(self, status):
        return [issued for issued, entry in self.entries.items() if entry.status == status]

    def active(self):
        return [name for name in self.names if name not in self.retired]

    def allows(self, allowed, id=None):
        """Whether a request names active classes only; one with a known id may be a retry and name retired ones."""
        return allowed is None or set(allowed) <= set(self.names if id in self.entries else self.active())

    def error_of(self, ids, inputs):
        """Return the error of a request for decisions with these ids, or None: a retry must have the same input."""
        if len(ids) != len(inputs) or len(set(ids)) < len(ids):
            return dt.InvalidInput
        known = [
            (self.entries[issued], given) for issued, given in zip(ids, inputs, strict=True) if issued in self.entries
        ]
        return dt.ConflictingDecision if any(entry.given != given for entry, given in known) else None

    def decided(self, decision, allowed, given=()):
        """Note a decision, or compare it with the noted one; others expire when its round begins."""
        if decision.id in self.entries:
            assert decision == self.entries[decision.id].decision
            return
        number = len(self.entries) + 1
        assert decision.round == number
        assert decision.label in (self.active() if allowed is None else allowed)
        assert 0 < decision.prob <= 1
        if self.rounds is not None:
            self._expire(lambda entry: number - entry.round, self.rounds)
        self.entries[decision.id] = Entry(number, decision.label, self.clock.uptime, given, decision)

    def expire_by_time(self):
        if self.time is not None:
            self._expire(lambda entry: self.clock.uptime - entry.at, self.time)

    def _expire(self, age_of, limit):
        for entry in self.entries.values():
            if entry.status == "open" and age_of(entry) >= limit:
                entry.status = "expired"
                entry.correctable = self.takes_late_answers
                self.n_expired += 1
            if age_of(entry) >= 11 * limit:
                entry.correctable = False

    def answered(self, id, answer):
        """Return the reply to an answer."""
        if "label" in answer and answer["label"] not in self.names:
            return dt.InvalidInput
        entry = self.entries.get(id)
        if entry is None:
            return dt.UnknownDecision
        ((form, given),) = answer.items()
        value = float(entry.label == given) if form == "label" else float(given)
        if entry.status == "cancelled":
            return "cancelled"
        if entry.value is not None:
            return "duplicate" if entry.value == value else dt.ConflictingFeedback
        entry.value = value
        if entry.status == "expired" and not entry.correctable:
            self.n_late += 1
            return "late"
        self.n_corrected += entry.status == "expired"
        reply = "corrected" if entry.status == "expired" else "accepted"
        entry.status = "answered"
        return reply

    def cancelled(self, id):
        """Return the reply to a cancellation."""
        entry = self.entries.get(id)
        if entry is None:
            return dt.UnknownDecision
        if entry.status == "open":
            entry.status = "cancelled"
            return "cancelled"
        return "duplicate" if entry.status == "cancelled" else dt.ConflictingFeedback

    def added(self, name):
        """Add a class; return the error, None if there is none."""
        is_name = isinstance(name, int | str) and name is not True and name != ""
        if not is_name or name in self.active():
            return dt.InvalidInput
        if name in self.names:
            self.retired.discard(name)
        else:
            self.names.append(name)
        return None

    def retired_now(self, name):
        """Retire a class; return the error, None if there is none."""
        if name is True or name not in self.active() or len(self.active()) == 1:
            return dt.InvalidInput
        self.retired.add(name)
        return None
