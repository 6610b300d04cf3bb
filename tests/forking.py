"""Child processes that tests kill."""

import os
import signal
import subprocess
import sys


class Forker:
    """A program that forks children on request, so that kernels are compiled once; each child can be killed."""

    def __init__(self, program, *arguments, log=None):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
        command = [sys.executable, program, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
        )
        self.living = set()
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, line):
        number = self.ask(line)
        self.living.add(number)
        return number

    def kill(self, number):
        self.living.remove(number)
        os.kill(number, signal.SIGKILL)
        assert self.ask(f"wait {number}") == -signal.SIGKILL, "it had ended by itself"

    def close(self):
        for number in self.living:  # of a test that failed
            os.kill(number, signal.SIGKILL)
        self.process.communicate()
