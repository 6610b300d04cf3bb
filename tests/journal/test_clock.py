"""The clock of a journal: steady, whatever the wall clock does."""

import json

from hypothesis import given
from hypothesis import strategies as st

from delaytron.journal import Clock

SECOND = 10**9
YEAR = 365 * 24 * 3600 * SECOND


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


def test_a_restart_of_the_process_goes_on_by_the_time_since_boot():
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
    machine.pass_time(8 * 3600 * SECOND)  # the time since boot goes on in a sleep
    assert clock.now().clock == start + 8 * 3600 * SECOND


def test_after_a_reboot_the_wall_clocks_tell_what_passed():
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


def test_a_machine_that_does_not_tell_its_boot_is_as_after_a_reboot():
    machine = Machine()
    machine.boot = None
    clock = machine.clock()
    start = clock.now().clock
    machine.wall += 9
    assert machine.clock(clock.state()).now().clock == start + 9


def test_a_time_since_boot_that_went_back_is_not_believed():
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


def test_the_real_clock_goes_on():
    clock = Clock()
    first = clock.now()
    assert Clock(clock.state()).now().clock >= first.clock
    assert abs(clock.now().clock - clock.now().wall) < 3600 * SECOND
