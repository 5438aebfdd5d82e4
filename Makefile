# make demo: run the main job on generated data and leave an HTML report.   make test: run the tests.
# Both set everything up by themselves (uv when present, else venv and pip); a second call starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?=
EXTRAS := test,docs,test-oracles,engines,geo,kafka,delta,postgres

.PHONY: help demo test slow lint types site check bench clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,2s/^# //p' Makefile

$(VENV)/.run: pyproject.toml constraints.txt
	@./.ci/setup $(PYTHON) $(VENV) .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@./.ci/setup $(PYTHON) $(VENV) '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@./.ci/setup $(PYTHON) $(VENV) '.[$(EXTRAS),dev]'
	@touch $@

demo: $(VENV)/.run
	@$(BIN)/tailrace demo --to demo

test: $(VENV)/.test
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS)

slow: $(VENV)/.test
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(TESTS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev
	@$(BIN)/pyright

site: $(VENV)/.test
	@$(BIN)/python docs/make_site.py

check:
	@.ci/run

bench: $(VENV)/.test
	@$(BIN)/python benchmarks/runner.py
	@$(BIN)/tailrace experiments --to benchmarks/results

clean:
	rm -rf $(VENV) demo site
