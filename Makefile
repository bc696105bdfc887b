# Two commands to begin with: `make conformance` and `make test`. `make help` lists the others.

SCOPE   ?= idempotent-default
OUT     ?= $(if $(filter idempotent-default,$(SCOPE)),out/conformance,out/conformance-$(SCOPE))
WORKERS ?= 2

VENV   := .venv
PYTHON := $(VENV)/bin/python
WANTED := $(shell cat pyproject.toml scripts/setup.sh | cksum | tr ' ' '-')
READY  := $(VENV)/.ready-$(WANTED)
JUDGE  := $(VENV)/.judge-$(WANTED)

# Each worker and each process that a test starts would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

BENCHMARKS := $(filter-out __init__ measuring peers,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: help setup conformance check fast test full compiled prove explore bench docs evidence-docs lint clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 15

setup: $(READY)  ## build .venv and what it needs of the system; nothing when up to date

# The stamp is named by what it installs: an older .venv, or a checkout of other times, is no excuse.
$(READY):
	scripts/setup.sh $(VENV) all
	@rm -f $(VENV)/.ready* $(VENV)/.judge*
	@touch $@ $(JUDGE)

# What the judge needs alone: a part of the above, and there with it.
$(JUDGE):
	scripts/setup.sh $(VENV) judge
	@rm -f $(VENV)/.judge*
	@touch $@

conformance: $(JUDGE)  ## judge impl against the model (SCOPE=idempotent-default OUT=out/conformance)
	$(PYTHON) -m conformance run --system impl --scope $(SCOPE) --out $(OUT)

check: $(READY)  ## lint, types and the fast tests of every room, at each save (WORKERS=2)
	@$(MAKE) --no-print-directory --jobs=2 lint fast  # mypy uses one core

fast: $(READY)
	$(PYTHON) -m pytest -q -m fast -n $(WORKERS) --dist loadgroup

# One worker more than cores: while the tests of one worker wait for brokers, two others compute.
ALL_TESTS := $(PYTHON) -m pytest -n $(shell expr $(WORKERS) + 1) --dist loadgroup

test: $(READY)  ## all tests (WORKERS=2)
	$(ALL_TESTS)

full: $(READY)  ## all tests, and the larger sizes of some (WORKERS=2)
	$(ALL_TESTS) --full

compiled: $(READY)  ## the tests of impl on its compiled form (WORKERS=2)
	KAFKA_EOS_FORM=compiled $(PYTHON) -m pytest -n $(WORKERS) --dist loadgroup tests/impl

prove: $(READY)  ## check the theorems
	$(PYTHON) -m proofs prove

explore: $(READY)  ## explore every scope
	$(PYTHON) -m proofs explore --all

bench: $(READY)  ## all benchmarks, one after the other
	@set -e; for name in $(BENCHMARKS); do \
		echo "== $$name"; $(PYTHON) -m benchmarks.$$name; done

docs: $(READY)  ## build the site into build/docs, from kept evidence
	@$(PYTHON) -m proofs docs --kept
	@$(PYTHON) docs/build.py

evidence-docs: $(READY)  ## gather the evidence of the site; minutes, once for each text of the model
	$(PYTHON) -m proofs docs

lint: $(READY)  ## ruff, mypy --strict, the arrows between the rooms
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy --strict
	$(VENV)/bin/lint-imports

clean:  ## remove what was built and cached; .venv stays
	rm -rf out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find model proofs impl conformance tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
