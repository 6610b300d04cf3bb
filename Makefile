# Everything a newcomer needs: `make demo`, `make test`, `make bench`. Each sets up what it uses first.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv pip

.PHONY: setup demo test bench lock clean

setup: .venv/ready

.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(UV) install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) install --quiet --python $(BIN)/python --no-deps --editable .
	touch $@

lock: setup
	$(UV) compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --group dev pyproject.toml -o requirements/dev.txt
	$(UV) compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --group dev --group bench pyproject.toml -o requirements/bench.txt

clean:
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache results
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
