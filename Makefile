# Every target creates the virtual environment and installs the package if needed.
# `make test VENV=/somewhere/else` uses another environment.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALL = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable

# Some environments forbid bytecode, so that each process of the tests would compile the package.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check network processors versions coverage chaos bench site clean

demo: $(VENV)/.demo-ready
	$(BIN)/dkdist demo

test: check

# Format, lint, types, the import contracts of packages, then tests and doctests with warnings as errors.
check: $(VENV)/.dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

# Tests with object stores, clusters of several hosts, a batch queue and a browser; what is missing is skipped by name.
network: $(VENV)/.dev-ready
	$(BIN)/pytest -n 3 --dist loadfile -m "network and not chaos and not slow"

# Tests of numerical packages with the BLAS and Numba code of other processors; unsupported ones are skipped by name.
processors: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 -rs -m processors tests/test_every_processor.py

# Main tests on the other Pythons of this machine with the newest dependencies, and on this one with the lowest.
versions:
	.ci/versions

# Line coverage of the suite, compiled functions aside: at least 97 %.
coverage: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --cov --cov-report=term

# Long tests of kills and corruptions.
chaos: $(VENV)/.dev-ready
	$(BIN)/pytest -m "(chaos or slow) and not processors"

# Build the site and run its tutorials: build/site/index.html.
site: $(VENV)/.site-ready
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site

bench: $(VENV)/.dev-ready
	$(BIN)/python benchmarks/speed.py

$(VENV)/.dev-ready: pyproject.toml | $(BIN)/uv
	$(INSTALL) '.[dev]'
	touch $@

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/uv
	$(INSTALL) '.[plots]'
	touch $@

$(VENV)/.site-ready: pyproject.toml | $(BIN)/uv
	$(INSTALL) '.[docs]'
	touch $@

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
