# Every target makes the virtual environment that it needs by itself, in .venv.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# What needs more than Python and a Docker engine has a target of its own.
ORDINARY := not interop and not browser and not cluster and not kubernetes and not training

.DEFAULT_GOAL := help
.PHONY: help demo test interop training-tests faults cluster lint bench image docs clean

help:
	@echo "make demo    play an episode: in a container where a Docker engine answers, else in a child process"
	@echo "make test    the tests; those that need Docker say so and skip where no engine answers"
	@echo "make interop tests against released clients and servers of others (installs them, in environments of their own)"
	@echo "make training-tests   short trainings with released trainers (installs them, gigabytes)"
	@echo "make faults  half an hour of kills, cuts and freezes on a Docker engine (ARGS='--minutes 5 --seed 7')"
	@echo "make cluster tests on a Docker Swarm of two nodes that have echo-env:latest (set it up first)"
	@echo "make lint    ruff and mypy --strict"
	@echo "make bench   benchmarks, as ratios within one run"
	@echo "make image   build echo-env:latest"
	@echo "make docs    check the links and the Python examples in README.md and docs/"
	@echo "make clean   remove what these targets made"

# base: what runs; dev: what checks it as well. Both depend on what is declared, not on the sources (installed editable).
$(VENV)/base: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[server]'
	@touch $@

$(VENV)/dev: $(VENV)/base
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/base
	@$(RUN) examples/demo.py

test: $(VENV)/dev
	$(RUN) -m pytest -n auto --dist worksteal -m "$(ORDINARY)" $(ARGS)

interop: $(VENV)/dev
	$(RUN) -m pytest -n auto --dist worksteal -m interop $(ARGS)

training-tests: $(VENV)/dev
	$(RUN) -m pytest -n 2 -m training $(ARGS)

faults: image $(VENV)/dev
	$(RUN) -m tests.faults $(ARGS)

cluster: $(VENV)/dev
	$(RUN) -m pytest -n 0 -m cluster $(ARGS)

lint: $(VENV)/dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(VENV)/dev
	$(RUN) -m benchmarks $(ARGS)

image: $(VENV)/base
	$(VENV)/bin/openenv build echo_env

docs: $(VENV)/dev
	$(RUN) -m pytest -n 0 tests/unit/test_docs.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	find openenv envs tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
