# Everything runs from .venv, which is built here from hash-locked versions.
# Needed: Python 3.11 or newer, pip and make.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	"$$name" -c '$(NEW_ENOUGH)' 2>/dev/null && echo "$$name" && break; done)

# A .venv whose Python has gone is not ready.
$(shell $(BIN)/python -c '' 2>/dev/null || rm -f $(READY))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo simulate replay test check fix bench docs storms image lock clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## An embedded cluster breaks, and the reconciler heals it [ARGS="--scenario NAME", ARGS=--list]
	@$(BIN)/poseidon-reconciler demo $(ARGS)

replay: $(READY) ## Verdicts and plan for a recording: FILE=recording.ndjson.gz [ARGS="--report out.html"]
	@test -n "$(FILE)" || { echo 'usage: make replay FILE=recording.ndjson.gz [ARGS="--json"]' >&2; exit 2; }
	@$(BIN)/poseidon-reconciler replay $(FILE) $(ARGS)

simulate: $(READY) ## Break embedded clusters in every way, against the promises [ARGS="--seeds 500"]
	@$(BIN)/poseidon-reconciler simulate $(ARGS)

test: $(READY) ## Run all tests [ARGS="-k name"]
	@$(BIN)/pytest -n auto --dist worksteal $(ARGS)

check: $(READY) ## Lint, format, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fix: $(READY) ## Let ruff mend and format what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY) ## Measure the way from bytes to verdicts [ARGS=--json]
	@$(BIN)/python benchmarks/ingest.py $(ARGS)

docs: $(READY) ## Write the generated pages anew
	@$(BIN)/python docs/generate.py --write

storms: $(READY) ## Measure the table of docs/storms.md anew, which takes minutes
	@$(BIN)/python docs/storms.py --write

image: ## Build the container image [ARGS="--tag registry/name:1"]
	@engine=$$(command -v docker || command -v podman) || { \
		echo "error: neither docker nor podman is on the PATH" >&2; exit 1; }; \
	"$$engine" info >/dev/null 2>&1 || { \
		echo "error: $$engine is there, but does not answer: is its daemon running, and may you use it?" >&2; exit 1; }; \
	"$$engine" build --tag poseidon-reconciler $(ARGS) .

lock: $(READY) ## Write the locks anew from pyproject.toml [ARGS=--upgrade]
	$(BIN)/pip-compile --quiet $(ARGS) --output-file requirements.txt pyproject.toml
	$(BIN)/pip-compile --quiet $(ARGS) --extra dev --constraint requirements.txt \
		--output-file requirements-dev.txt pyproject.toml
	$(BIN)/pip-compile --quiet --only-build-deps --build-deps-for wheel --constraint requirements-dev.txt \
		--output-file requirements-build.txt pyproject.toml

clean: ## Remove .venv and everything else that was made here
	rm -rf $(VENV) build dist htmlcov .coverage .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements-dev.txt pyproject.toml $(BIN)/python
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Where Python comes without ensurepip (Debian without python3-venv), the pip beside it fills the new .venv.
$(BIN)/python:
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo "error: no Python 3.11 or newer found; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Building $(VENV) with $(PYTHON) (once; it downloads packages, which takes a minute or two)"
	@if "$(PYTHON)" -c 'import ensurepip' 2>/dev/null; then \
		"$(PYTHON)" -m venv --clear $(VENV); \
	elif "$(PYTHON)" -m pip --version >/dev/null 2>&1; then \
		"$(PYTHON)" -m venv --clear --without-pip $(VENV) && \
		"$(PYTHON)" -m pip --python $@ install --quiet --require-hashes -r requirements-dev.txt; \
	else \
		echo "error: $(PYTHON) has neither ensurepip nor pip (on Debian: apt-get install python3-venv)" >&2; exit 1; \
	fi
