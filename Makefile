# Every target makes its own environment in .venv; the second time it is quick.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out/paper
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# Tests start hundreds of processes: what they import is compiled once, also where the variable is set for containers.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup run test serve lint docs bench lock wheel integrations coverage jepsen clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: pyproject.toml requirements/dev.txt
	@echo "== environment for running, in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q -c requirements/dev.txt -e '.[reproduce]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "== environment for development, in $(VENV)"
	@$(BIN)/pip install -q -r requirements/dev.txt
	@touch $@

$(VENV)/.serve: $(VENV)/.base
	@echo "== environment for the service, in $(VENV)"
	@$(BIN)/pip install -q -c requirements/dev.txt -e '.[reproduce,service]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base requirements/docs.txt
	@echo "== environment for the documentation, in $(VENV)"
	@$(BIN)/pip install -q -c requirements/dev.txt -r requirements/docs.txt -e '.[docs]'
	@touch $@

setup: $(VENV)/.dev ## make the development environment

run: $(VENV)/.base ## reproduce the paper into out/paper/index.html
	@echo "== reproducing the paper into $(OUT)"
	@$(BIN)/bot-orch reproduce --out $(OUT) --force
	@echo "== open $(OUT)/index.html"

test: $(VENV)/.dev ## run the tests
	@echo "== tests"
	@$(BIN)/python -m pytest -n 2

serve: $(VENV)/.serve ## start the service on SQLite, with simulated agents and traffic
	@$(BIN)/python examples/demo/traffic.py

lint: $(VENV)/.dev ## style, types, import contracts
	@echo "== ruff";  $(BIN)/ruff check src tests benchmarks examples docs/site && $(BIN)/ruff format --check src tests benchmarks examples docs/site
	@echo "== mypy";  $(BIN)/mypy
	@echo "== import contracts"; $(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs ## build the documentation site into out/site/index.html
	@echo "== documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "== open out/site/index.html; search needs a server: python -m http.server -d out/site"

# Scripts that take long, and those that are called with data sets.
BENCH_APART = gateway long_stream anchors arena aslib attempts paretobandit

bench: $(VENV)/.dev ## run every benchmark beside its peers (apart: those that take minutes, and those that need data sets)
	@for script in $(filter-out $(BENCH_APART:%=benchmarks/%.py),$(wildcard benchmarks/[a-z]*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

wheel: $(VENV)/.dev ## build the wheel and the source archive into dist/, and try the wheel in an empty environment
	@rm -rf dist build && $(BIN)/pip install -q build && $(BIN)/python -m build -o dist . >/dev/null && rm -rf build && ls dist
	@$(BIN)/python -m pytest -q -n 0 tests/wheel

integrations: ## test every adapter against the real package, each in an environment of its own
	@$(PYTHON) tests/integrations/run.py $(NAMES)

jepsen: $(VENV)/.dev ## play 200 histories of replicas under faults and check each (about 40 minutes; ONLY=SEED plays one again, JOBS=1 one at a time)
	@$(BIN)/python tests/histories/jepsen.py $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

coverage: $(VENV)/.dev ## run the tests and print which lines they reach, by package
	@$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered

lock: ## write the versions of a fresh environment to requirements/dev.txt and docs.txt
	@rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/pip install -q -e '.[dev]'
	@$(VENV)-lock/bin/pip freeze --exclude-editable > requirements/dev.txt
	@$(VENV)-lock/bin/pip install -q -c requirements/dev.txt -e '.[docs]'
	@$(VENV)-lock/bin/pip freeze --exclude-editable | grep -vxFf requirements/dev.txt > requirements/docs.txt
	@rm -rf $(VENV)-lock

clean: ## remove what was made
	rm -rf $(VENV) $(VENV)-integrations out .mypy_cache .ruff_cache .pytest_cache .hypothesis
