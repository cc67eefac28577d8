# One verb per command. PYTHON=python3.13 make test  uses another Python, in a virtual environment of its own.
PYTHON ?=
ARGS ?=
export PYTHON ARGS
VENV := .venv
ifneq ($(PYTHON),)
VENV := .venv-$(or $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),unknown)
endif
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run check test lint format bench bench-peers docs wheel clean install install-dev faults soak model

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18
	@echo "  Extra words go in ARGS, for example: make run ARGS='--port 8080', make test ARGS='tests/store -x'"

run: install ## install what is missing and start Frontdesk on http://127.0.0.1:8000
	@exec $(BIN)/frontdesk serve $(ARGS)

check: install ## check the agent files
	@$(BIN)/frontdesk check $(ARGS)

test: install-dev ## run every test (installs Debian's chromium and redis-server when they are missing)
	@scripts/ensure-chromium
	@scripts/ensure-redis
	FRONTDESK_TEST_SERVERS=$${FRONTDESK_TEST_SERVERS:-embedded,redis7,sentinel,cluster,tls} $(BIN)/python -m pytest $(ARGS)

lint: install-dev ## ruff (rules and format) and mypy (strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install-dev ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev ## measure: round trips and CPU per turn, beside the SDK's own session
	$(BIN)/python -m bench $(ARGS)

bench-peers: install-dev ## measure the handoff turn beside langgraph-swarm and agent-squad too (installs them elsewhere)
	@peers=$$(scripts/ensure-peers $(BIN)/python) && $(BIN)/python -m bench.peers --environment "$$peers" $(ARGS)

docs: install ## write the pages that are generated from code (settings, commands, HTTP, protocol)
	$(BIN)/python -m scripts.settings_reference
	$(BIN)/python -m scripts.docs_reference

wheel: install-dev ## build dist/frontdesk-*.whl
	$(BIN)/python -m build --wheel --no-isolation

install:
	@scripts/ensure-venv $(VENV)

install-dev:
	@scripts/ensure-venv $(VENV) dev

clean: ## remove virtual environments, builds and caches (keeps .frontdesk, where conversations are)
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

faults: install-dev ## kill, stop and restart real processes for a minute, mutate the scripts, check every promise
	$(BIN)/python -m pytest tests/faults -m "slow or not slow" -rs $(ARGS)

MINUTES ?= 60
soak: install-dev ## the fault harness for MINUTES=n, a new seed each minute
	$(BIN)/python -m tests.faults.harness --minutes $(MINUTES) $(ARGS)

model: ## check docs/model/own.pml with Spin: a counter breaks, a counter with a nonce does not
	@docs/model/check
