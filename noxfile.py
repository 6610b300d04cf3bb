"""Tests of the installed wheel on every CPython that this machine has, and at both ends of the allowed versions.

`nox` runs what it finds and says what it does not; `nox -s tests-3.13`, `nox -s oldest`, `nox -s newest` run one.
"""

import nox

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
TOOLS = ["pytest>=8.3,<9.2", "pytest-xdist>=3.6", "hypothesis>=6.100", "pandas>=2.2", "polars>=1.20"]
PART = [  # what depends most on the interpreter and on other packages: code, files, tables, figures, the command line
    "tests/learners/test_reference_traces.py",
    "tests/learners/test_files.py",
    "tests/model/test_model.py",
    "tests/model/test_encoding.py",
    "tests/model/test_journal_model.py",
    "tests/journal/test_store.py",
    "tests/delays",
    "tests/simulation/test_results.py",
    "tests/datasets/test_user_files.py",
    "tests/experiments/test_results_folder.py",
    "tests/cli/test_cli.py",
    "tests/cli/test_doctor.py",
    "tests/doors",
    "tests/service/test_service_answers.py",
    "tests/test_plotting.py",
]


@nox.session(python=PYTHONS)
def tests(session):
    """The part of the tests that depends on the interpreter; `nox -s tests-3.13 -- tests` for all of them."""
    session.install(".[all]", *TOOLS)
    check(session)


@nox.session(python=PYTHONS[0])
def oldest(session):
    """The same with the oldest versions that pyproject.toml allows."""
    lock = f"{session.create_tmp()}/oldest.txt"
    session.run_install(
        "uv", "pip", "compile", "-q", "--resolution", "lowest-direct", "--extra", "all", "pyproject.toml", "-o", lock
    )
    session.install("-r", lock)
    session.install("--resolution", "lowest-direct", "-c", lock, *TOOLS)  # scikit-learn 1.6 knows no frames of polars 2
    session.install("--no-deps", ".")
    check(session, "-W", "ignore::DeprecationWarning")  # of old libraries about the new ones that they use


@nox.session(python=PYTHONS[0])
def newest(session):
    """The same with the newest versions that there are."""
    session.install("--upgrade", ".[all]", *TOOLS)
    check(session)


def check(session, *options):
    """Try the installed package without the repository, then run the tests."""
    session.run("python", "-I", "tests/smoke.py", "experiments")
    session.run("python", "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", *options, *(session.posargs or PART))
