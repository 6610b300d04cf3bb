"""A shop shows one of three banners. Buyers answer late, from another process; the shop is killed, and continues."""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import delaytron as dt

BANNERS = ["shoes", "books", "garden"]
BUYS = {"shoes": {"young": 0.5, "old": 0.1}, "books": {"young": 0.1, "old": 0.2}, "garden": {"young": 0.05, "old": 0.6}}
VISITORS = 450
LATE = 30  # visitors who come before one is known to have bought or not


def shop(journal: str) -> None:
    """Decide for every visitor that a line of the input names; this process gets no answers."""
    model = dt.Model(classes=BANNERS, journal=journal, seed=3)
    print(model.stats().decisions, len(model.open_decisions()), flush=True)
    for line in sys.stdin:
        name, age = line.split()
        print(model.decide({"age": age}, id=name).label, flush=True)  # on disk before it is printed


def start(journal: Path) -> subprocess.Popen[str]:
    """Start the shop as a process of its own."""
    command = [sys.executable, __file__, str(journal)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    decisions, waiting = process.stdout.readline().split()
    print(f"the shop starts: it knows of {decisions} decisions, of which {waiting} wait for an answer")
    return process


def main() -> None:
    rng = random.Random(1)
    bought = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "shop.db")
        process = start(journal)
        for number in range(VISITORS):
            age = rng.choice(["young", "old"])
            print(f"visitor-{number}", age, file=process.stdin, flush=True)
            bought.append(rng.random() < BUYS[process.stdout.readline().strip()][age])
            if number >= LATE and number % 10:  # one in ten never answers
                with dt.Journal(journal) as answers:
                    answers.feedback(f"visitor-{number - LATE}", correct=bought[number - LATE])
            if number % 150 == 149:
                print(f"the last 150 visitors: {sum(bought[-150:]) / 150:.0%} bought; now the shop is killed")
                process.communicate(process.kill())  # as kill -9: no close, no goodbye
                process = start(journal)
        process.communicate()
        check = [sys.executable, "-m", "delaytron", "verify", str(journal)]
        print(subprocess.run(check, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


if __name__ == "__main__":
    shop(sys.argv[1]) if len(sys.argv) > 1 else main()
