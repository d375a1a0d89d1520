# Two targets do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-report check lint format types imports bench bench-balance clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip<27"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

setup: $(READY) ## make the virtual environment

demo: $(READY) ## compare the selectors on labels alone: a table, and a figure in demo-out/
	@mkdir -p demo-out
	@$(BIN)/fedcbs balance --plot demo-out/balance.png --out demo-out/balance.json

test: $(READY) check ## lint, types, import directions, and the whole test suite
	$(BIN)/python -m pytest -n 2

test-report: $(READY) ## reports alone, in a real browser where one is installed (Debian: chromium)
	$(BIN)/python -m pytest tests/report

check: lint types imports ## the static checks only

lint: $(READY) ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## rewrite the files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## strict static types
	$(BIN)/mypy

imports: $(READY) ## imports go one way
	$(BIN)/lint-imports

bench: $(READY) ## speed of selection beside its yardsticks; rewrites benchmarks/results/selection.*
	$(BIN)/python benchmarks/selection.py --json benchmarks/results/selection.json

bench-balance: $(READY) ## the QCID table beside the paper's; rewrites benchmarks/results/balance.* (minutes)
	$(BIN)/python benchmarks/balance.py

clean: ## remove what make made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
