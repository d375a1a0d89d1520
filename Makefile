# Two targets do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fedcbs-flower-oldest# outside the repository

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-report check lint format types imports bench bench-balance bench-engine bench-rounds bench-noise bench-audit bench-data bench-private fuzz reproduction clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip<27"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

setup: $(READY) ## make the virtual environment

demo: $(READY) ## train with four selectors on digits: a table, and a figure in demo-out/
	@mkdir -p demo-out && rm -rf demo-out/runs
	@$(BIN)/fedcbs compare --partition case1-5to1 --selectors uniform,pow-d,fed-cucb,fedcbs-sharp --rounds 50 --seeds 3 \
		--out demo-out/runs --plot demo-out/compare.png

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

bench: $(READY) ## speed of selection and of import beside their yardsticks; rewrites benchmarks/results/
	$(BIN)/python benchmarks/selection.py --json benchmarks/results/selection.json
	$(BIN)/python benchmarks/import_time.py --json benchmarks/results/import_time.json

bench-balance: $(READY) ## the QCID table beside the paper's; rewrites benchmarks/results/balance.* (minutes)
	$(BIN)/python benchmarks/balance.py

bench-engine: $(READY) ## speed and memory of training beside the plain loop; rewrites benchmarks/results/engine.*
	$(BIN)/python benchmarks/engine.py --json benchmarks/results/engine.json

bench-rounds: $(READY) ## what a round's time goes to, and memory over many; rewrites benchmarks/results/rounds.* (minutes)
	$(BIN)/python benchmarks/rounds.py

bench-noise: $(READY) ## what noise on label counts costs in balance; rewrites benchmarks/results/noise.*
	$(BIN)/python benchmarks/noise.py

bench-audit: $(READY) ## what a selector recovers from a Gram matrix; rewrites benchmarks/results/audit.* (minutes)
	$(BIN)/python benchmarks/audit.py

.PHONY: bench-flower test-flower test-flower-oldest
bench-flower: $(READY) ## what selection costs a Flower server; rewrites benchmarks/results/flower.*
	$(BIN)/python benchmarks/flower.py --json benchmarks/results/flower.json

test-flower: $(READY) ## real federations on the loopback interface: TLS, kills, restarts (minutes)
	$(BIN)/python -m pytest tests/flower_e2e

test-flower-oldest: ## the same with the oldest Flower that is supported, in an environment of its own (minutes)
	test -d $(OLDEST) || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet "flwr[simulation]==1.23.0" -e ".[private,serve]" \
		hypothesis pytest scikit-learn
	$(OLDEST)/bin/python -m pytest tests/flower
	$(OLDEST)/bin/python -m pytest tests/flower_e2e -k one_process

bench-private: $(READY) ## what the private protocol costs each party; rewrites benchmarks/results/private.* (minutes)
	-$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[bench]" # without it, SEAL alone is the yardstick
	$(BIN)/python benchmarks/private.py --json benchmarks/results/private.json

fuzz: $(READY) ## 100,000 damaged inputs for everything that decodes what others send
	$(BIN)/python -m tests.private.fuzz --inputs 100000

bench-data: $(READY) ## memory and time of loading 800,000 images; rewrites benchmarks/results/data.* (minutes)
	$(BIN)/python benchmarks/data.py

reproduction: $(READY) ## docs/reproduction.md from the committed results of experiments
	$(BIN)/python experiments/make_page.py

clean: ## remove what make made
	rm -rf $(VENV) demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
