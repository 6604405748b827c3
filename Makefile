# make demo    rebuild the axioms dataset from the samples, offline
# make test    every check, small sizes
# make soak    the checks at full size, and properties with examples never drawn before (an hour or two)
# make format  put the code in its form

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak lint format clean

demo: .venv/.installed
	@$(BIN)/longform build axioms

test: lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not soak"

soak: .venv/.installed-dev
	$(BIN)/pytest -m soak -s
	$(BIN)/pytest -n 2 --dist loadfile -m "not soak" --hypothesis-profile soak

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "longform needs Python 3.11 or newer: make PYTHON=python3.11 demo")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing the pinned versions into .venv (about a minute, once)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.installed-dev: .venv/.installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

clean:
	rm -rf .venv data/stages data/datasets data/llm data/runs data/locks
