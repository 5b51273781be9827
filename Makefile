# Everything a newcomer needs: `make demo` to see it run, `make test` to trust it, `make help` for the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

UV_VERSION := 0.13.9
ATHERIS_VERSION := 3.0.0
# Bytecode is kept, as Python does by default: else every process compiles all that it imports anew, which is more than
# half of a worker's start.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough; `make PYTHON=python3.13 …` chooses another.
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))

SOURCES := stream_tgat research deploy tests
# Files with loops that numba compiles; it keeps the machine code beside them.
LOOPS := $(shell grep -rlE '^@compiled|numba\.njit' stream_tgat --include='*.py') stream_tgat/graph/hashing.py
# Two cores are enough; more processes than four only wait for the one broker.
PYTEST_PROCESSES ?=
PYTEST_ARGS ?=

.PHONY: help
help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.PHONY: demo
demo: $(VENV)/compiled broker  ## Train on a real stream, replay the rest through Kafka and watch embeddings and alerts live
	@PYTHONPATH=. $(BIN)/python deploy/demo.py

.PHONY: screenshots
screenshots: $(VENV)/compiled broker  ## Take the pictures of the page in docs/ from a run of the demo (a quarter of an hour)
	@PYTHONPATH=. $(BIN)/python deploy/screenshots.py

.PHONY: test
test: lint $(VENV)/compiled  ## Linters, types and import contracts, then all tests, those against a real broker included
	@$(BIN)/python deploy/broker.py install >/dev/null
	$(BIN)/pytest -n $(or $(PYTEST_PROCESSES),auto) --maxprocesses 4 --dist loadgroup --cov=stream_tgat --cov=research $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: $(VENV)/compiled  ## The tests that need no broker and are not slow
	@# A third of these tests' time is waiting: one process more than there are cores.
	$(BIN)/pytest -n $(or $(PYTEST_PROCESSES),$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4 -q -m "not broker and not slow" tests/unit tests/contracts tests/parity $(PYTEST_ARGS)

.PHONY: wheel
wheel: install  ## Build the package into dist/
	@rm -rf build dist  # what an earlier build has left there would be packed again
	$(BIN)/uv build --quiet --wheel --no-build-isolation --out-dir dist
	@ls dist/*.whl

.PHONY: docs
docs: install  ## Build the pages of docs/ as a site into site/
	@DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html"

.PHONY: lint
lint: install  ## Formatting, linters, types and import contracts only
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/mypy --strict deploy
	$(BIN)/lint-imports

.PHONY: bench
bench: $(VENV)/compiled broker  ## Measure speed, latency and memory (BENCH="live engine" RUNS=3 SAVE=yes; BENCH=list tells all)
	@$(BIN)/python tests/benchmarks $(BENCH) $(if $(RUNS),--runs $(RUNS)) $(if $(SAVE),--save)

.PHONY: compare
compare: $(VENV)/compiled broker  ## Measure two commits in turns (A=main B=. BENCH=live TURNS=3); . is the folder as it is
	@$(BIN)/python tests/benchmarks/compare.py $(or $(A),main) $(or $(B),.) $(or $(BENCH),live) \
		$(if $(TURNS),--turns $(TURNS)) $(if $(OWN),--own)

.PHONY: faults
faults: $(VENV)/compiled broker  ## Let things go wrong at random (SEED=n MINUTES=m) and compare; writes docs/reliability.md
	@$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(LENGTH),--length $(LENGTH)) $(if $(PAGE),--page) $(FAULTS)

.PHONY: soak
soak: $(VENV)/compiled broker  ## Load a worker steadily (MINUTES=30 RATE=1000): memory, file handles and lag must not grow
	@$(BIN)/python -m tests.faults.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE))

.PHONY: rehearse
rehearse: $(VENV)/compiled broker  ## Rehearse what operators do, such as a rolling upgrade (REHEARSE="'rolling static'" RATE=500 WORKERS=3), and compare
	@$(BIN)/python -m tests.rehearsals $(REHEARSE) $(if $(RATE),--rate $(RATE)) $(if $(WORKERS),--workers $(WORKERS))

.PHONY: fuzz
fuzz: install  ## Fuzz all that reads foreign bytes, guided by coverage (MINUTES=m)
	@$(VENV)/bin/python -c 'import atheris' 2>/dev/null || $(BIN)/uv pip install --quiet --python $(BIN)/python atheris==$(ATHERIS_VERSION)
	@$(BIN)/python -m tests.fuzz $(if $(MINUTES),--minutes $(MINUTES))

.PHONY: audit
audit: install  ## Look for known vulnerabilities in what requirements.lock pins; passes where the network is away
	@$(BIN)/python deploy/audit.py

.PHONY: install
install: $(VENV)/installed  ## Make .venv with what requirements.lock pins

.PHONY: broker
broker: install  ## Fetch Apache Kafka with Maven
	@$(BIN)/python deploy/broker.py install >/dev/null

.PHONY: lock
lock: $(VENV)/uv  ## Pin what pyproject.toml asks for in requirements.lock (LOCK_ARGS=--upgrade takes newer versions)
	$(BIN)/uv pip compile --quiet $(LOCK_ARGS) --universal --python-version 3.11 --generate-hashes --all-extras \
		--no-header pyproject.toml -o requirements.lock

.PHONY: clean
clean:  ## Remove what the demo, tests and benchmarks wrote, the broker's data included; keeps .venv, downloads and releases
	@for data in runs/demo/broker runs/broker; do \
		if [ -f $$data/broker.pid ]; then $(PYTHON) deploy/broker.py stop --data $$data; fi; done
	rm -rf runs/demo runs/broker .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* build dist site *.egg-info
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f $(VENV)/compiled

.PHONY: distclean
distclean: clean  ## Also remove .venv and the downloaded broker
	rm -rf $(VENV) .cache

$(VENV)/uv:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; on Debian or Ubuntu:" \
		"sudo apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "error: $(PYTHON) cannot make virtual environments;" \
		"on Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(VENV)/synced: requirements.lock $(VENV)/uv
	$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	@touch $@

$(VENV)/installed: pyproject.toml $(VENV)/synced
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# numba looks at the file of a loop, not at those of the loops that it calls, so what is there is thrown away first.
$(VENV)/compiled: $(VENV)/installed deploy/warm.py $(LOOPS)
	@find stream_tgat -name '*.nb[ic]' -delete
	@$(BIN)/python deploy/warm.py
	@touch $@
