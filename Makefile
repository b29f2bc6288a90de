# Two commands: `make run` sets everything up and shows what it does, `make test` sets up and runs everything that CI runs.
PYTHON ?= python3
BIN := .venv/bin
DATA ?= ../shared/data
export ONEBIT_DATA ?= $(realpath $(DATA))

.PHONY: run test bench docs clean

run: .venv/ready
	$(BIN)/onebit compare synsep10 --runs 2

test: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

bench: .venv/ready-bench
	$(BIN)/python benchmarks/throughput.py

docs: .venv/ready-docs
	$(BIN)/mkdocs build --strict

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "onebit needs Python 3.11 or newer; say make PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/ready-test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

.venv/ready-bench: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,bench]'
	@touch $@

.venv/ready-docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
