# Everything runs with Python 3.11 or newer and a JDK 17 or newer.  `make help` lists it.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(if $(wildcard $(BIN)/pip),$(BIN)/python,python3)
STAMP := $(VENV)/.installed
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# A seed for what is searched, new each time; `make test` and `make test-all` draw by tests/round.txt.
SEED := $(or $(SEED),$(shell date +%s))
MINUTES ?= 20
PART ?= 1/1

# Each worker and each command of the tests would otherwise compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all planted-faults check dist lint format fuzz crash-test test-versions test-tables test-kafka test-cluster test-serverless test-engines bench clean java python

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(STAMP) ## make data, run a band join through the optimizer, and show what it did
	$(BIN)/dovetail demo

test: java lint ## what CI runs, the same each time: linter, types, and tests of every kind
	PYTHONHASHSEED=0 $(PYTEST) -m "not thorough" --durations=10

test-all: java $(STAMP) ## every test, with four times the examples; PART=2/5 for the second of five parts
	PYTHONHASHSEED=0 $(PYTEST) --hypothesis-profile=all --part=$(PART) --durations=10

fuzz: java $(STAMP) ## random tests with new examples, for MINUTES=20; SEED=… repeats a run
	@echo "make fuzz SEED=$(SEED) repeats this run"
	DOVETAIL_ROUNDS=20 DOVETAIL_SEED=$(SEED) $(PYTEST) -m hypothesis --hypothesis-profile=fuzz --minutes=$(MINUTES)

planted-faults: $(STAMP) ## wrong rewritings, planted one at a time: tests have to notice each of them
	$(BIN)/python tests/planted_faults_main.py

check: lint ## linter, types and all golden plans, in 20 seconds once mypy has a cache
	$(PYTEST) -q golden_plans/cases

dist: $(STAMP) ## sdist and wheel, in dist/, tried in an environment that has nothing else
	$(BIN)/python tests/dist_main.py

format: $(STAMP) ## lay out the code and mend what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

crash-test: java $(STAMP) ## joins of streams, killed 50 times, KILLS=… another number; and ended at each call for files
	DOVETAIL_KILLS=$(or $(KILLS),50) DOVETAIL_SEED=$(SEED) $(BIN)/python -m pytest -q tests/streams/test_killed.py
	DOVETAIL_POINTS=$(or $(POINTS),::) $(BIN)/python -m pytest -q -s tests/streams/test_crash_points.py

test-versions: $(STAMP) ## every kind of rewriting on other versions of PySpark; VERSIONS="3.5.9 4.0.5"
	$(BIN)/python tests/versions.py $(VERSIONS)

test-tables: java $(STAMP) ## Delta Lake and Iceberg by jars from Maven: features, KILLS=10 of a driver, golden cases, PART=1/8
	DOVETAIL_KILLS=$(or $(KILLS),10) $(BIN)/python tests/tables/run.py features killed goldens $(PART)

test-kafka: java $(STAMP) ## joins of Kafka topics, on a broker that the test starts, by jars from Maven; KILLS=10 of a driver
	DOVETAIL_KILLS=$(or $(KILLS),10) $(BIN)/python tests/tables/run.py kafka kills

test-cluster: java $(STAMP) ## a standalone cluster of two worker processes, one of which is killed; GROUPS="statements lookups kills"
	$(BIN)/python tests/cluster/compare.py $(GROUPS)

test-serverless: java $(STAMP) ## golden cases on a Spark Connect server that refuses what serverless offers refuse; FOLDERS="keys"
	$(BIN)/python tests/serverless/serverless_main.py $(FOLDERS)

test-engines: java $(STAMP) ## every kind of rewriting on Comet, Gluten and Sail: rows, native operators, time; ENGINES="comet sail"
	$(BIN)/python tests/engines/engines_main.py $(ENGINES)

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
	$(BIN)/mypy & all=$$!; $(BIN)/mypy --python-version 3.10 dovetail && wait $$all

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
