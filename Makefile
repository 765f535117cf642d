# Everything sets itself up: a virtual environment in .venv, the installation, then the job.
# `make test VENV=/somewhere/else` uses another environment.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test check network processors versions coverage chaos bench site clean

demo: $(VENV)/.demo-ready
	$(BIN)/dkdist demo

test: check

# Format, lint, types, the contract between rooms, then tests and doctests with warnings as errors.
check: $(VENV)/.dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

# Object stores, clusters of several hosts, a batch queue, a browser: what of them this machine lacks is named and skipped.
network: $(VENV)/.dev-ready
	$(BIN)/pytest -n 3 --dist loadfile -m "network and not chaos and not slow"

# The rooms that compute with the kernels that other processors take; those that this one cannot run are named and skipped.
processors: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 -rs -m processors tests/test_every_processor.py

# A short set of tests on the other Pythons of this machine, each with the newest of all that is needed, and with the lowest.
versions:
	.ci/versions

# Lines of the package that the suite runs, compiled loops aside: at least 97 % of them.
coverage: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --cov --cov-report=term

# Kills and corruptions at full length.
chaos: $(VENV)/.dev-ready
	$(BIN)/pytest -m "(chaos or slow) and not processors"

# The site with its tutorials, which run as it is built: build/site/index.html.
site: $(VENV)/.site-ready
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site

bench: $(VENV)/.dev-ready
	$(BIN)/python benchmarks/speed.py

$(VENV)/.dev-ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]'
	touch $@

$(VENV)/.site-ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
