"""The programs in examples/: short, they run, and what they print is what they are there to show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from optional import REAL_DATA

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
real = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs the real data: DELAYTRON_DATA names no folder")


def output_of(name, folder, *args):
    """Run an example as a user does; return the lines that it prints."""
    source = str(EXAMPLES.parent / "src")
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *args]
    run = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return run.stdout.splitlines()


def numbers_in(lines, pattern):
    """Return the number that a pattern finds in each line where it finds one."""
    return [float(found[1]) for line in lines if (found := re.search(pattern, line))]


def test_all_of_them_are_tested():
    tested = set(re.findall(r'output_of\("(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in FILES} == tested


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_are_short(path):
    assert len(path.read_text().splitlines()) < 60


def test_the_router_earns_more_than_any_model_alone(tmp_path):
    lines = output_of("llm_router.py", tmp_path)
    rewards = numbers_in(lines, r"mean reward (\S+)")
    alone = numbers_in(lines, r"^always \w+: (\S+)")
    assert (len(rewards), len(alone)) == (6, 4)
    assert rewards[-1] > rewards[0]
    assert rewards[-1] > max(alone) + 0.05
    assert "proof goes to huge" in lines  # which came half way
    counts = re.fullmatch(r"6,000 decisions: (\S+) answered, (\S+) expired, (\S+) open", lines[-1]).groups()
    assert sum(int(count.replace(",", "")) for count in counts) == 6000


def test_users_of_a_service_get_better_answers(tmp_path):
    lines = output_of("service_client.py", tmp_path)
    shares = numbers_in(lines, r"user: (\d+)% good")
    assert len(shares) == 3
    assert shares[-1] > max(shares[0], 60)  # at random it would be 53 %, at best 90 %
    assert lines[3] == "960 decisions, 800 answered, 160 open"
    played = re.fullmatch(r"(\d+) for small, (\d+) for large, (\d+) for huge", lines[-1]).groups()
    assert sum(map(int, played)) == 960


@real
def test_messages_find_their_teams(tmp_path):
    lines = output_of("ticket_routing.py", tmp_path, "3000")
    majority, before, *after = numbers_in(lines, r"error (\S+)$")
    assert len(after) == 4
    assert min(majority, before) > 0.9
    assert after[-1] < 0.7
    assert re.fullmatch(r"a message of \S+ goes to \S+, for its words (\S+, ){4}\S+", lines[-1])


@real
def test_a_pipeline_sorts_messages(tmp_path):
    lines = output_of("news20_pipeline.py", tmp_path, "4000")
    assert lines[0] == "4,000 messages to learn from, 7,532 to be sorted afterwards"
    learning = numbers_in(lines, r"wrong while learning (\S+),")
    last = numbers_in(lines, r"in the last quarter (\S+)$")
    after = numbers_in(lines, r"wrong afterwards +(\S+)$")
    (full,) = numbers_in(lines, r"gets every label: wrong (\S+)$")
    assert len(learning) == len(last) == len(after) == 3
    assert learning == sorted(learning)  # the later the feedback, the more it costs
    assert all(end < whole for end, whole in zip(last, learning, strict=True))
    assert full < min(after)
    assert max(after) < 0.7  # always the most frequent group: 0.95


def test_estimates_on_a_log_agree_with_what_a_model_earns(tmp_path):
    lines = output_of("vowpal_log.py", tmp_path)
    values = numbers_in(lines, r": (\S+) sold, ")
    lows, highs = (numbers_in(lines, pattern) for pattern in (r"sold, (\S+) to", r" to (\S+)$"))
    truths = (0.6 * 0.35 + 0.4 * 0.3278, 0.3278, 0.3333)  # logged, uniform, always tea
    assert [low < truth < high for low, truth, high in zip(lows, truths, highs, strict=False)] == [True] * 3
    assert values[3] > 0.5  # the best is 0.6
    assert numbers_in(lines, r"guests: (\S+) sold$")[0] > 0.55


def test_a_killed_shop_goes_on(tmp_path):
    lines = output_of("web_shop.py", tmp_path)
    assert numbers_in(lines, r"knows of (\d+) decisions") == [0, 150, 300, 450]
    assert numbers_in(lines, r"which (\d+) wait") == [0, 43, 58, 73]
    shares = numbers_in(lines, r"(\d+)% bought")
    assert len(shares) == 3
    assert shares[-1] > 35  # at random it would be 26 %, at best 55 %
    assert lines[-1] == "the journal and the state agree"
