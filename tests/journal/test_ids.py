"""Ids of decisions, and the steady clock of a journal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.journal.ids import Clock, check_id, new_id, new_ids

SECOND = 10**9
YEAR = 365 * 24 * 3600 * SECOND

# Ids


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_text_of_up_to_200_bytes_is_an_id(id):
    assert check_id(id) == id


def test_the_limit_counts_bytes():
    assert check_id("ä" * 100) == "ä" * 100
    with pytest.raises(dt.InvalidInput, match="201"):
        check_id("ä" * 100 + "a")


@pytest.mark.parametrize("bad", ["", "a" * 201, "\ud800", "a\0b", b"a", 17, None, True, ["a"]])
def test_anything_else_is_refused(bad):
    with pytest.raises(dt.InvalidInput, match=r"^id must") as caught:
        check_id(bad)
    assert "\n" not in str(caught.value)


def test_random_ids_are_hexadecimal_and_differ():
    ids = {new_id() for _ in range(1000)} | set(new_ids(1000))
    assert len(ids) == 2000
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in ids)


# The clock


class Machine:
    """A machine whose clocks the test sets."""

    def __init__(self):
        self.wall = 1_700_000_000 * SECOND
        self.uptime = 1000 * SECOND
        self.boot = "first"

    def clock(self, previous=None):
        return Clock(
            None if previous is None else json.loads(json.dumps(previous)),
            wall=lambda: self.wall,
            uptime=lambda: self.uptime,
            boot_id=lambda: self.boot,
        )

    def pass_time(self, ns):
        self.wall += ns
        self.uptime += ns

    def reboot(self, off):
        self.wall += off
        self.uptime = SECOND
        self.boot = f"after {self.boot}"


def test_it_starts_at_the_wall_clock_and_counts_what_passes():
    machine = Machine()
    clock = machine.clock()
    assert clock.now() == (machine.wall, machine.wall)
    machine.pass_time(5)
    assert clock.now().clock == machine.wall


def test_jumps_of_the_wall_clock_do_not_move_it():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    for jump in (YEAR, -2 * YEAR):
        machine.wall += jump
        machine.pass_time(SECOND)
    assert clock.now().clock == start + 2 * SECOND
    assert clock.now().wall == machine.wall


def test_after_a_restart_of_the_process_it_continues_by_the_time_since_boot():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    machine.pass_time(7 * SECOND)
    machine.wall += YEAR
    assert machine.clock(clock.state()).now().clock == start + 7 * SECOND


def test_a_sleeping_machine_counts():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    machine.pass_time(8 * 3600 * SECOND)  # the time since boot continues in a sleep
    assert clock.now().clock == start + 8 * 3600 * SECOND


def test_after_a_reboot_it_continues_by_the_wall_clocks():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    machine.reboot(off=60 * SECOND)
    assert machine.clock(clock.state()).now().clock == start + 60 * SECOND


def test_after_a_reboot_into_the_past_it_stays():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    machine.reboot(off=-YEAR)
    later = machine.clock(clock.state())
    assert later.now().clock == start
    machine.pass_time(3)
    assert later.now().clock == start + 3


def test_a_machine_without_a_boot_id_is_as_after_a_reboot():
    machine = Machine()
    machine.boot = None
    clock = machine.clock()
    start = clock.now().clock
    machine.wall += 9
    assert machine.clock(clock.state()).now().clock == start + 9


def test_a_time_since_boot_that_went_back_is_not_used():
    machine = Machine()
    clock = machine.clock()
    start = clock.now().clock
    machine.uptime -= 500 * SECOND
    machine.wall += 4
    assert machine.clock(clock.state()).now().clock == start + 4


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass_time"), st.integers(0, YEAR)),
        st.tuples(st.just("jump"), st.integers(-YEAR, YEAR)),
        st.tuples(st.just("reboot"), st.integers(-YEAR, YEAR)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_it_never_goes_back_and_counts_at_least_what_passed(steps):
    machine = Machine()
    clock = machine.clock()
    last = clock.now().clock
    for what, ns in steps:
        if what == "jump":
            machine.wall += ns
        elif what != "restart":
            getattr(machine, what)(ns)
        if what in ("reboot", "restart"):
            clock = machine.clock(clock.state())
        now = clock.now().clock
        expected = {"pass_time": now == last + ns, "jump": now == last, "reboot": now >= last, "restart": now == last}
        assert expected[what]
        last = now


def test_the_real_clock_continues():
    clock = Clock()
    first = clock.now()
    assert Clock(clock.state()).now().clock >= first.clock
    assert abs(clock.now().clock - clock.now().wall) < 3600 * SECOND
