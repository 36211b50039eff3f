# Everything runs with Python 3.11 or newer and a JDK 17 or newer.  `make help` lists it.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(if $(wildcard $(BIN)/pip),$(BIN)/python,python3)
STAMP := $(VENV)/.installed
# New examples with each change of a Python file; the same tree draws the same ones, so that a failure in CI is there again.
SOURCES = $(shell find dovetail optimizer rules planner golden_plans tests -name '*.py' | LC_ALL=C sort)
ifndef SEED
SEED := $(shell cat $(SOURCES) | cksum | cut -d ' ' -f 1)
NEW_SEED := $(shell date +%s)
else
NEW_SEED := $(SEED)
endif
# Tests that have not begun after so many minutes are skipped, others with each seed: CI takes twice as long on a busy machine.
MINUTES ?= 8
FIXED_MINUTES ?= 30
FRESH = DOVETAIL_SEED=$(SEED) $(BIN)/python -m pytest $(WORKERS) --hypothesis-profile=fresh --hypothesis-seed=$(SEED)
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

# Each worker and each command of the tests would otherwise compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all planted-faults check dist lint format fuzz crash-test test-versions bench clean java python

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(STAMP) ## make data, run a band join through the optimizer, and show what it did
	$(BIN)/dovetail demo

test: java lint ## linter, types, and tests of every kind: 8 to 12 minutes on two cores
	$(BIN)/python -m pytest $(WORKERS) -m "not thorough" --hypothesis-profile=quick --durations=10

test-all: java $(STAMP) ## what make test leaves out, the random tests from a new seed, some planted faults; SEED=… repeats a run
	@echo "make test-all SEED=$(SEED) repeats this run"
	$(FRESH) -m "thorough and not hypothesis" --minutes=$(FIXED_MINUTES) --durations=10
	$(FRESH) -m hypothesis --minutes=$(MINUTES) --durations=10
	$(BIN)/python tests/planted_faults_main.py 6 $(SEED)

planted-faults: $(STAMP) ## wrong rewritings, planted one at a time: tests have to notice each of them
	$(BIN)/python tests/planted_faults_main.py

check: lint ## linter, types and all golden plans, in 20 seconds once mypy has a cache
	$(BIN)/python -m pytest -q golden_plans/cases $(WORKERS)

dist: $(STAMP) ## sdist and wheel, in dist/, tried in an environment that has nothing else
	$(BIN)/python tests/dist_main.py

format: $(STAMP) ## lay out the code and mend what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

fuzz: java $(STAMP) ## the property tests, longer, and elsewhere each time; SEED=… repeats a run
	@echo "make fuzz SEED=$(NEW_SEED) repeats this run"
	DOVETAIL_ROUNDS=20 DOVETAIL_SEED=$(NEW_SEED) $(BIN)/python -m pytest -m hypothesis $(WORKERS) --hypothesis-profile=fuzz --hypothesis-seed=$(NEW_SEED)

crash-test: java $(STAMP) ## joins of streams, killed 50 times, KILLS=… another number; and ended at each call for files
	DOVETAIL_KILLS=$(or $(KILLS),50) DOVETAIL_SEED=$(SEED) $(BIN)/python -m pytest -q tests/streams/test_killed.py
	DOVETAIL_POINTS=$(or $(POINTS),::) $(BIN)/python -m pytest -q -s tests/streams/test_crash_points.py

test-versions: $(STAMP) ## every kind of rewriting on other versions of PySpark; VERSIONS="3.5.9 4.0.5"
	$(BIN)/python tests/versions.py $(VERSIONS)

.PHONY: docs docs-serve
docs: $(STAMP) ## the pictures, and the site into build/site; every link is checked, and nothing is loaded
	$(BIN)/python -m docs.programs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: $(STAMP) ## the site while you write, on port 8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

bench: java $(STAMP) ## the benchmarks, as tables
	$(BIN)/python -m benchmarks

clean: ## remove caches, builds and made data; the virtual environment stays
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	rm -rf .data dovetail-data artifacts derby.log metastore_db spark-warehouse
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 dovetail optimizer rules planner

$(STAMP): pyproject.toml constraints.txt | python
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev,docs]'
	@touch $@

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no $(PYTHON) here; name a Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is too old; name a Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }

java: python
	@$(PYTHON) -c 'import runpy, sys; java = runpy.run_path("optimizer/doctor.py")["java"](); sys.exit(None if java.ok else str(java))'
