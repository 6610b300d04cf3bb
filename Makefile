# Everything a newcomer needs: `make demo`, `make test`, `make docs`, `make bench`. Each first sets up what it uses.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/uv pip
COMPILE := $(PIP) compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
DELAYTRON := $(BIN)/delaytron
TESTED := --group dev --extra all
ENDS := --extra experiments --extra client  # what the oldest and the newest environment have
NUMBAS := .venv/numba-oldest/ready .venv/numba-newest/ready

.PHONY: setup features extras numbas demo test docs torture coverage bench contest-vowpal release pythons lock clean

setup: .venv/ready

.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
	$(PIP) install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(PIP) install --quiet --python $(BIN)/python --no-deps --editable .
	touch $@

# PyTorch turns images into features (`delaytron datasets build`). CI has it and the extras, so that no test is skipped.
features: .venv/features

.venv/features: .venv/ready
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check torch==2.13.0
	touch $@

# Dask, Ray, a browser and PostgreSQL, for the tests of clusters, of pages and of the service on many machines.
extras: .venv/extras

.venv/extras: .venv/ready requirements/extras.txt Makefile
	$(PIP) install --quiet --python $(BIN)/python --require-hashes -r requirements/extras.txt
	command -v chromium || (apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core)
	ls /usr/lib/postgresql/*/bin/postgres || (apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql)
	touch $@

# The oldest and the newest Numba that pyproject.toml allows, for the test that they compute the same bits; all else that
# the package needs at its oldest and newest, too, for the test that it works.
numbas: $(NUMBAS)

.venv/numba-%/ready: requirements/numba-%.txt | .venv/ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/numba-$*
	$(PIP) install --quiet --python .venv/numba-$*/bin/python --require-hashes -r requirements/numba-$*.txt
	$(PIP) install --quiet --python .venv/numba-$*/bin/python --no-deps --editable .
	touch $@

# A small version of the paper's experiments, with its report: results/demo/report.html.
demo: .venv/ready
	$(DELAYTRON) reproduce --quick --output results/demo

test: .venv/ready $(if $(CI),.venv/features .venv/extras .venv/docs $(NUMBAS))
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(CI),$(MAKE) --no-print-directory docs)
	$(BIN)/pytest --numprocesses 2 --dist loadgroup $(if $(CI),,-m "not cold")

# The documentation site, build/docs/index.html: offline, tutorials executed, warnings are errors. About a minute.
docs: .venv/docs
	rm -rf docs/reference/generated build/docs
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --jobs 2 -d build/doctrees docs build/docs

.venv/docs: .venv/ready requirements/docs.txt
	$(PIP) install --quiet --python $(BIN)/python --require-hashes -r requirements/docs.txt
	touch $@

# What takes longer than a landing may: the tests marked `torture`.
torture: .venv/ready
	DELAYTRON_TORTURE=1 $(BIN)/pytest -m torture --numprocesses 2 --dist loadgroup

coverage: .venv/ready
	$(BIN)/pytest --numprocesses 2 --dist loadgroup --cov --cov-report term

bench: .venv/ready
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/all_learners.py
	$(BIN)/python benchmarks/footprint.py

# Vowpal Wabbit tuned on the eight data sets, with scaling and on raw rows: about two hours on one core.
# What is finished is kept in results/vowpal.jsonl.
contest-vowpal: .venv/ready
	$(BIN)/python benchmarks/contest_vowpal.py --csv results/vowpal.csv
	$(BIN)/python benchmarks/contest_vowpal.py --raw --csv results/vowpal_raw.csv

# The source archive and the wheel in dist/, checked, installed into clean environments and tried without the repository.
release: .venv/release
	rm -rf dist
	$(BIN)/python -m build --installer uv --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(MAKE) --no-print-directory CLEAN=.venv/wheel EXTRAS= try-wheel
	$(MAKE) --no-print-directory CLEAN=.venv/wheel-experiments EXTRAS=experiments try-wheel
	cd .venv/wheel-experiments && env -u PYTHONPATH bin/delaytron reproduce --quick --output demo

try-wheel:
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(CLEAN)
	$(PIP) install --quiet --python $(CLEAN)/bin/python "delaytron$(EXTRAS:%=[%]) @ file://$$(ls $(CURDIR)/dist/*.whl)"
	cp tests/smoke.py $(CLEAN) && cd $(CLEAN) && env -u PYTHONPATH bin/python -I smoke.py $(EXTRAS)

.venv/release: .venv/ready requirements/release.txt
	$(PIP) install --quiet --python $(BIN)/python --require-hashes -r requirements/release.txt
	touch $@

# Every CPython that this machine has or, on Debian, can have, and the oldest and newest versions of all dependencies.
FETCHED := 3.14 3.15  # where the machine has none of its own

pythons: .venv/release $(FETCHED:%=.venv/pythons/%)
	PATH="$(CURDIR)/$(BIN):$$PATH:$(subst $() ,:,$(FETCHED:%=$(CURDIR)/.venv/pythons/%/usr/bin))" $(BIN)/nox

.venv/pythons/%:
	tools/fetch_python.sh $* $@ || echo "no CPython $* could be fetched: nox says whether it found one"

lock: .venv/ready
	$(COMPILE) $(TESTED) pyproject.toml -o requirements/dev.txt
	$(COMPILE) $(TESTED) --group extras pyproject.toml -o requirements/extras.txt
	$(COMPILE) $(TESTED) --group release pyproject.toml -o requirements/release.txt
	$(COMPILE) $(TESTED) --group docs pyproject.toml -o requirements/docs.txt
	$(COMPILE) $(ENDS) --group numba-oldest --resolution lowest-direct pyproject.toml -o requirements/numba-oldest.txt
	$(COMPILE) $(ENDS) --group numba-newest pyproject.toml -o requirements/numba-newest.txt

clean:
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache .nox .coverage build dist results docs/reference/generated
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
