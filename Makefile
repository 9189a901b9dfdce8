# Two commands do all: `make mnist` climbs the first rung, `make test` checks everything. Each makes .venv if it is not there.
.PHONY: mnist test lint bench clean
.DEFAULT_GOAL := mnist
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

mnist: $(VENV)/.ladder
	$(BIN)/ladder run mnist $(ARGS)

test: lint # two processes: a file's tests stay in one, since they share servers and compiled programs
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(ARGS)

lint: $(VENV)/.ladder-dev
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/ladder platforms --check

bench: $(VENV)/.ladder-dev
	$(BIN)/python -m tests.bench $(ARGS)

$(VENV)/bin/python:
	@python=$$(sh scripts/find_python.sh) && echo "creating $(VENV) with $$python" && "$$python" -m venv $(VENV)

$(VENV)/.ladder: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.ladder-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.ladder

clean:
	rm -rf $(VENV) build *.egg-info
