"""Run docs/howto/service.md like a reader; `python tests/service/service_page.py` writes the output into the page.

Blocks of `console` are typed into one shell: lines that begin with `$` are commands, those with `>` continue one,
and the others are output. Blocks of `python` are run as they are. The ports
8100 and 8101 of the page become ports that are free.
"""

import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "service.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PORT = re.compile(r"\b81\d\d\b")
END = "this was one command"
LONGEST = 300  # seconds
RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b")
VARYING = (  # parts that vary between runs
    (r'"digest":"[0-9a-f]{64}"', '"digest":"..."'),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(\+00:00|Z)", "a date"),
    (r'"(oldest_seconds|decisions_per_second|exploration)": [\d.e-]+', r'"\1": 0'),
    (r'"waits": \[.*?\]', '"waits": []'),
    (r"retry-after: (100|9\d)\b", "retry-after: soon"),
    (r"try again in (100|9\d) s", "try again soon"),
    (r"content-length: (167|168)\b", "content-length: short"),
)


class Shell:
    """A shell in a folder, and the services that were started in it."""

    def __init__(self, folder):
        tools = folder / "tools"
        tools.mkdir()
        (tools / "delaytron").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m delaytron "$@"\n')
        (tools / "delaytron").chmod(0o755)
        (tools / ".curlrc").write_text("silent\nshow-error\n")  # as at a terminal: no bar of progress
        (folder / "work").mkdir()
        changed = {"PATH": f"{tools}:{os.environ['PATH']}", "CURL_HOME": str(tools), "PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(
            ["bash", "--norc"],  # noqa: S607
            cwd=folder / "work",
            env=os.environ | changed,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._watch = Timer(LONGEST, self._kill)
        self._watch.start()
        self._ports = {}  # of the page -> of this machine

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._watch.cancel()
        self._kill()
        self._process.communicate()

    def _kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)

    def here(self, text):
        """Return text of the page with the ports of this machine; 0 for one whose service has not started."""
        return PORT.sub(lambda found: self._ports.get(found[0], "0"), text)

    def run(self, command):
        """Return what a command prints, with the ports of the page."""
        self._process.stdin.write(f"{self.here(command)}\n")
        if re.search(r"delaytron serve .*&$", command):
            printed = self._started(PORT.search(command)[0])
        else:
            self._process.stdin.write(f"echo; echo {END}\n")
            self._process.stdin.flush()
            printed = "".join(iter(self._line, f"{END}\n"))
        for known, own in self._ports.items():
            printed = re.sub(rf"\b{own}\b", known, printed)
        return printed.strip("\n") + "\n" if printed.strip("\n") else ""

    def _line(self):
        line = self._process.stdout.readline()
        assert line, "the shell has ended"
        return line

    def _started(self, port):
        """Wait until a service listens, and is ready."""
        self._process.stdin.flush()
        printed = ""
        while (found := re.search(r"serving on http://.*:(\d+)", printed)) is None:
            printed += self._line()
        self._ports[port] = found[1]
        self.run(f"until curl -f http://127.0.0.1:{port}/readyz > /dev/null 2>&1; do sleep 0.02; done")
        return printed


def run_page(text, folder):
    """Return the page with its present output; raise if Python prints something else than its comments say."""
    with Shell(folder) as shell:
        return BLOCK.sub(lambda found: _run_block(shell, *found.groups()), text)


def _run_block(shell, kind, block):
    if kind == "python":
        check_python(shell.here(block), block)
        return f"```python\n{block}```"
    typed = COMMAND.sub(lambda found: _run_command(shell, found[1]), block)
    return f"```console\n{typed}```"


def _run_command(shell, command):
    printed = shell.run(command.replace("\n> ", "\n"))
    return f"$ {command}\n{printed}"


def check_python(code, block):
    """Raise if a block does not print what its comments say; three dots match anything."""
    promised = re.findall(r"^ *print\(.*\)\s+# (.*)$", block, re.MULTILINE)
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, "docs/howto/service.md", "exec"), {})  # noqa: S102
    lines = out.getvalue().splitlines()
    assert len(lines) == len(promised), lines
    for line, promise in zip(lines, promised, strict=True):
        pattern = ".*".join(map(re.escape, promise.split("...")))
        assert re.fullmatch(pattern, line), f"{line} is printed, {promise} is promised"


def normalised(text):
    """Return a page without the parts that vary between runs; random ids are numbered in order."""
    ids = list(dict.fromkeys(RANDOM_ID.findall(text)))
    text = RANDOM_ID.sub(lambda found: f"id {ids.index(found[0])}", text)
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        page = PAGE.read_text()
        again = run_page(page, Path(place))
    if normalised(again) != normalised(page):
        PAGE.write_text(again)
