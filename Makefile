# `make run` sets everything up and shows what it does, `make serve` starts the service. `make quick` is for while you work, `make test` for before
# you commit, `make long` has the rest of what CI runs, and `make test-all` has all: docs/explanation/testing.md. Real data are taken from the folder named by ONEBIT_DATA; tests that need some which are not there are skipped.
# Where bytecode is not kept, every process compiles all sources anew: a fifth of a second for a command, seven to collect the tests.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
# What `make lowest` runs: what the extras are used by. `make lowest LOWEST=` runs all tests.
LOWEST ?= tests/experiments/test_run.py tests/engine/test_compile_cache.py tests/learner/storage/test_storage.py tests/features/test_features.py tests/data tests/experiments/report \
  tests/experiments tests/client tests/theory/test_margins.py tests/service/http/test_bodies.py tests/service/http/test_errors.py \
  tests/service/http/test_without_proxy.py tests/service/test_export.py tests/experiments/executors/test_executors.py \
  tests/experiments/executors/cluster/test_dask.py tests/experiments/executors/cluster/test_ray.py

# What `make quick` runs: what the papers say of the rules, on plain Python and slow twins, the contract, and the habits of the whole project.
QUICK ?= tests/contract tests/rules tests/project tests/test_documentation.py tests/test_imports.py tests/learner/test_class_names.py
# One worker more than there are cores: many tests wait for a service, and need no core for that. A worker gets all tests of a rule: conftest.py.
WORKERS ?= $$(($$(getconf _NPROCESSORS_ONLN) + 1))
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadgroup

.PHONY: run serve examples quick test types suite long test-all lowest browser postgres reproduction bench docs clean

run: .venv/ready
	$(BIN)/onebit run digits --order resample --rounds 20_000 --explain
	$(BIN)/onebit compare digits iris synsep9 --prepare unit-norm --rounds 20_000

# The service, with its memory in a folder here, and data to play with.
serve: .venv/ready-serve
	$(BIN)/onebit serve --data ./onebit-data --log-format text

# The pictures of the page of the examples: `make examples PICTURES=docs/how-to/examples` draws those that are shown there.
PICTURES ?= pictures
examples: .venv/ready
	$(BIN)/python examples/ticket_routing.py $(PICTURES)
	$(BIN)/python examples/model_choice.py $(PICTURES)
	$(BIN)/python examples/ocr_checking.py $(PICTURES)
	MPLBACKEND=agg $(BIN)/python tools/notebook.py examples/papers.ipynb FOLDER=$(PICTURES)

quick: .venv/ready-test
	$(BIN)/ruff check .
	$(PYTEST) -m 'not long' -k 'not compiled' $(QUICK)

test: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --jobs=2 --keep-going --no-print-directory types suite

types: .venv/ready-test
	$(BIN)/mypy

suite: .venv/ready-test
	$(PYTEST) -m 'not long'

# The longer tier: clusters, GPU code, kills, long fuzzing, browsers, other libraries. What no machine at hand has is skipped, and says why.
# What starts a Ray runs in a process of its own: one finds the Ray of another, and takes it.
RAY := tests/experiments/executors/cluster/test_ray.py
long: .venv/ready-test-all
	$(BIN)/pytest $(RAY)
	$(PYTEST) -m long --ignore=$(RAY)

test-all: test
	ONEBIT_SLOW=1 $(MAKE) --no-print-directory long

# The tests once with the lowest versions that pyproject.toml allows, in an environment of its own. With packages of several years
# newer ones warn of what is deprecated, which is not ours to mend; style and types are for the newest.
lowest: .venv-lowest/ready
	.venv-lowest/bin/pytest -W ignore::DeprecationWarning -n $$(getconf _NPROCESSORS_ONLN) --dist loadgroup $(LOWEST)

# The test that opens a page needs a browser, here from Debian's packages, as root; without one it is skipped.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else echo "there is no apt-get: install Chromium yourself, or the test of the page is skipped" >&2; fi

# The tests of a log in PostgreSQL start servers of their own, here from Debian's packages, as root; without them they are skipped.
postgres:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null; \
	else echo "there is no apt-get: install PostgreSQL yourself, or the tests of a log in it are skipped" >&2; fi

# Every published experiment with the paper's number of runs; 3 means that some data are not to be had, and the file says so.
reproduction: .venv/ready
	$(BIN)/onebit reproduce all --markdown docs/explanation/reproduction.md || [ $$? -eq 3 ]

bench: .venv/ready-bench
	$(BIN)/python -m benchmarks throughput

docs: .venv/ready-docs
	$(BIN)/sphinx-build -b html -W --keep-going -q docs site

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "onebit needs Python 3.11 or newer; say make PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[experiments,theory]'
	@touch $@

.venv/ready-serve: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[serve,client,experiments]'
	@touch $@

.venv/ready-test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

.venv/ready-test-all: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test-all]'
	@touch $@

.venv/ready-bench: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,bench]'
	@touch $@

.venv/ready-docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# What the tests themselves need is as new as pip finds it to fit.
.venv-lowest/ready: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tools/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/lowest.txt \
	  -e '.[experiments,theory,serve,client,gpu,dask,ray]' pytest pytest-xdist hypothesis cvxpy
	@touch $@

clean:
	rm -rf .venv .venv-lowest site onebit-results pictures .pytest_cache .mypy_cache .ruff_cache .hypothesis
