# make demo    rebuild the axioms dataset from the samples, offline
# make test    lint and the tests of functions, stages and small builds (minutes)
# make check   kills, databases, Prefect's server, Dask, installations, benchmarks, the documented commands (half an hour)
# make test-ray  the tests of the runner ray, with its extra, which is large
# make test-train  the preference model, and TRL's trainers on a published version, in an environment of their own (.venv-train, 2.4 GB)
# make soak    the checks at full size, and properties with examples never drawn before (an hour or two)
# make format  put the code in its form
# make server  Prefect's server and its page; PREFECT_API_DATABASE_CONNECTION_URL names its database, else SQLite
# make worker  deploy every flow on the server of PREFECT_API_URL, detect crashes, and run what is asked for

PYTHON ?= python3
BIN := .venv/bin
LIMIT ?= 2
PREFECT := DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false $(BIN)/prefect --no-prompt
worker: export PREFECT_API_URL ?= http://127.0.0.1:4200/api

quick check soak: export PYTHONDONTWRITEBYTECODE =
.PHONY: demo test quick check test-ray test-train soak lint format server worker clean

demo: .venv/.installed
	@$(BIN)/longform build axioms

test: .venv/.installed-dev
	@$(MAKE) -j 2 --no-print-directory lint quick

quick:
	$(BIN)/pytest -n 3 --dist loadfile -m "not soak and not check and not train"

check: .venv/.installed-dev
	$(BIN)/pytest -n 2 --dist loadfile -m "check and not soak"

test-ray: .venv/.installed-dev
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[ray]"
	$(BIN)/pytest tests/builds/test_engines.py -k ray

test-train: .venv-train/.installed
	.venv-train/bin/pytest -m train tests/tasks/axioms/test_trainers.py tests/tasks/axioms/training

soak: .venv/.installed-dev
	$(BIN)/pytest -m soak -s
	$(BIN)/pytest -n 2 --dist loadfile -m "not soak and not train" --hypothesis-profile soak

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

server: export PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE ?= 8
server: export PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL ?= 1
server: .venv/.installed
	PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS=20 $(PREFECT) server start

worker: .venv/.installed
	@$(PREFECT) server status --wait --timeout 120
	@$(PREFECT) work-pool inspect local > /dev/null 2>&1 || $(PREFECT) work-pool create local --type process
	@mkdir -p data && $(BIN)/longform prefect deployments > data/prefect.yaml
	@$(PREFECT) deploy --all --prefect-file data/prefect.yaml
	@$(BIN)/longform prefect automations
	$(PREFECT) worker start --pool local --type process --limit $(LIMIT)

format: .venv/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11, 5) <= sys.version_info < (3, 14) and "longform needs Python 3.11.5 to 3.13: make PYTHON=python3.11 demo")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing the pinned versions into .venv (about a minute, once)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.installed-dev: .venv/.installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

.venv-train/.installed: pyproject.toml constraints.txt
	@test -x .venv-train/bin/python || $(PYTHON) -m venv .venv-train
	@echo "installing trainers into .venv-train (minutes, once; torch as pip finds it, its CPU build is enough)"
	@.venv-train/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[train]" hypothesis pytest
	@touch $@

clean:
	rm -rf .venv .venv-train data/stages data/datasets data/llm data/runs data/locks
