# The verbs are the habits. Each makes the virtual environment it needs, once, and then does its job.
#   PYTHON=python3.12 make test     another interpreter (3.11 or newer; `make clean` first)
#   make test ARGS="-k ledger -x"   arguments for pytest

PYTHON ?= python3
ARGS ?=
OLD ?= HEAD
NEW ?= .
VENV := .venv
VENV_SB3 := .venv-sb3
VENV_RAY := .venv-ray
VENV_MJX := .venv-mjx
VENV_RSL := .venv-rsl-rl
VENV_LEROBOT := .venv-lerobot
VENV_STUDENTS := .venv-students
VENV_AUDIT := .venv-audit
VENV_PACKAGE := .venv-package
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))
PINS := requirements/constraints.txt
# A room stays on one worker, where its tests share compiled programs (conftest.py). `ARGS=-n0` runs everything in one process.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PIP = -m pip install --quiet --disable-pip-version-check
INSTALL = $(PIP) --constraint $(PINS) --editable
# Where there is a lock for this Python and platform, every file must have the hash that is in it.
TAG = import platform, sys; print("cp%d%d-" % sys.version_info[:2] + sys.platform + "-" + platform.machine())

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-sb3 test-ray test-mjx test-rsl-rl test-lerobot test-students bench-rsl-rl goldens mutants torture torture-certificates audit package lint bench bench-imitation paper docs clean
.DELETE_ON_ERROR:

help: ## list the verbs
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | \
	while IFS="$$(printf '\t')" read -r verb text; do printf '  make %-20s %s\n' "$$verb" "$$text"; done

demo: $(VENV)/.run ## the main job, start to finish, with a table and a plot
	$(VENV)/bin/understudy demo $(ARGS)

test: $(VENV)/.dev ## the tests and the examples in docstrings (MuJoCo and Atari included, no PyTorch)
	$(VENV)/bin/python -m pytest $(PARALLEL) --doctest-modules $(ARGS)

test-slow: $(VENV)/.dev ## the tests that take long, and those of equal bytes, compiled as users compile
	$(VENV)/bin/python -m pytest $(PARALLEL) -m slow tests $(ARGS)
	XLA_FLAGS= $(VENV)/bin/python -m pytest -m bits tests $(ARGS)

test-sb3: $(VENV_SB3)/.train ## the tests against Stable-Baselines3 and SBX (installs PyTorch in its own environment)
	$(VENV_SB3)/bin/python -m pytest -m sb3 tests/sb3 $(ARGS)

test-ray: $(VENV_RAY)/.ray ## the engine ray, on a cluster of two nodes of which one is killed (in its own environment)
	$(VENV_RAY)/bin/python -m pytest -m "not slow" tests/ray tests/studies/test_tables.py $(ARGS)

test-mjx: $(VENV_MJX)/.mjx ## pure environments of MJX, Brax, Playground and gymnax (their own MuJoCo, so their own environment)
	$(VENV_MJX)/bin/python -m pytest -m "mjx or not slow" tests/mjx tests/envs/test_pure.py tests/runs/test_device.py $(ARGS)

test-rsl-rl: $(VENV_RSL)/.rsl ## the plug-in for rsl_rl, through rsl_rl's own runner (installs PyTorch in its own environment)
	$(VENV_RSL)/bin/python -m pytest -m rsl_rl tests/distillation $(ARGS)

test-lerobot: $(VENV_LEROBOT)/.lerobot ## exports, read by the packages lerobot, Minari and onnxruntime (in its own environment)
	HF_HUB_OFFLINE=1 $(VENV_LEROBOT)/bin/python -m pytest -m "lerobot or not slow" tests/lerobot tests/exports $(ARGS)

test-students: $(VENV_STUDENTS)/.students ## students in PyTorch and scikit-learn, with their recipe and example (in its own environment)
	$(VENV_STUDENTS)/bin/python -m pytest -m students tests/students tests/docs/test_examples.py $(ARGS)

mutants: $(VENV)/.dev ## lines made wrong, one after another, each of which the tests must notice (ARGS="--only regret/")
	$(VENV)/bin/python tests/mutants/run.py $(ARGS)

goldens: $(VENV)/.dev ## the same runs with two trees, and their files compared (OLD=main NEW=. ARGS="--only 'room-*'")
	$(VENV)/bin/python tests/goldens/compare.py "$(OLD)" "$(NEW)" $(ARGS)

torture: $(VENV)/.dev ## the worst day: kills, damage, full disks, failing experts, fuzzing (ARGS="--scale 0.1")
	$(VENV)/bin/python tests/torture/run.py $(ARGS)

torture-certificates: $(VENV)/.dev ## a long search for a regret above its certified bound (ARGS="--minutes 60")
	$(VENV)/bin/python tests/torture/certificates.py $(ARGS)

audit: $(VENV_AUDIT)/.audit ## known vulnerabilities of what development installs (pip-audit, on the lock)
	@for lock in requirements/lock-*.txt; do echo "== $$lock"; \
	$(VENV_AUDIT)/bin/pip-audit --strict --requirement "$$lock" --require-hashes --disable-pip $(ARGS) || exit 1; done

package: $(VENV_PACKAGE)/.tools ## sdist and wheel in dist/, looked into: contents, size, metadata
	rm -rf dist
	$(VENV_PACKAGE)/bin/python -m build --quiet
	$(VENV_PACKAGE)/bin/python -m twine check --strict dist/*
	$(VENV_PACKAGE)/bin/python tests/package.py dist

lint: $(VENV)/.dev ## ruff, ruff format and pyright
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

bench: $(VENV)/.dev ## every benchmark, one after the other
	@test -n "$(BENCHMARKS)" || { echo "there is no benchmarks/bench_*.py" >&2; exit 1; }
	@for file in $(BENCHMARKS); do echo "== $$file"; $(VENV)/bin/python "$$file" $(ARGS) || exit 1; done

bench-imitation: $(VENV)/.dev ## against the package imitation, in an environment of its own (long; ARGS="--jobs 14" on 16 cores)
	$(VENV)/bin/python benchmarks/peers/against_imitation.py $(ARGS)

bench-rsl-rl: $(VENV_RSL)/.rsl ## against rsl_rl's own distillation, with equal steps
	$(VENV_RSL)/bin/python benchmarks/peers/against_rsl_rl.py $(ARGS)

paper: $(VENV)/.run ## the paper's figures and claims
	$(VENV)/bin/python -m paper theorem $(ARGS)

docs: $(VENV)/.docs ## the documentation, as a website in site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

clean: ## remove the environments and everything that can be made again
	rm -rf $(VENV) $(VENV_SB3) $(VENV_RAY) $(VENV_MJX) $(VENV_RSL) $(VENV_LEROBOT) $(VENV_STUDENTS) $(VENV_AUDIT) $(VENV_PACKAGE) .venv-imitation site dist build .pytest_cache .ruff_cache .hypothesis
	find src tests paper -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. A stamp is newer than what it was made from, so nothing is installed twice.

$(VENV)/.made $(VENV_SB3)/.made $(VENV_RAY)/.made $(VENV_MJX)/.made $(VENV_RSL)/.made $(VENV_LEROBOT)/.made $(VENV_STUDENTS)/.made $(VENV_AUDIT)/.made $(VENV_PACKAGE)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "understudy needs Python 3.11 or newer; say which, as in: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making $(@D)"
	$(PYTHON) -m venv --clear $(@D)
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extra mujoco"
	$(VENV)/bin/python $(INSTALL) '.[mujoco]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extras dev, mujoco, atari, person, browser"
	@lock="requirements/lock-$$($(VENV)/bin/python -c '$(TAG)').txt"; test ! -f "$$lock" || \
	$(VENV)/bin/python $(PIP) --require-hashes --requirement "$$lock"
	$(VENV)/bin/python $(INSTALL) '.[dev,mujoco,atari,person,browser]'
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extra docs"
	$(VENV)/bin/python $(INSTALL) '.[docs]'
	@touch $@

$(VENV_SB3)/.train: $(VENV_SB3)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extras dev, mujoco, sb3, train (this brings PyTorch)"
	$(VENV_SB3)/bin/python $(INSTALL) '.[dev,mujoco,sb3,train]'
	@touch $@

$(VENV_RAY)/.ray: $(VENV_RAY)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extras dev, ray, tables"
	$(VENV_RAY)/bin/python $(INSTALL) '.[dev,ray,tables]'
	@touch $@

# Without the pins, which are for the MuJoCo of the other environments.
$(VENV_MJX)/.mjx: $(VENV_MJX)/.made pyproject.toml
	@echo "installing understudy with the extras dev, gymnax, mjx, brax"
	$(VENV_MJX)/bin/python $(PIP) --editable '.[dev,gymnax,mjx,brax]'
	@touch $@

$(VENV_RSL)/.rsl: $(VENV_RSL)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extras dev, rsl-rl (this brings PyTorch)"
	$(VENV_RSL)/bin/python $(INSTALL) '.[dev,rsl-rl]'
	@touch $@

$(VENV_STUDENTS)/.students: $(VENV_STUDENTS)/.made pyproject.toml $(PINS)
	@echo "installing understudy with the extras dev, mujoco, onnx, torch, sklearn (this brings PyTorch)"
	$(VENV_STUDENTS)/bin/python $(INSTALL) '.[dev,mujoco,onnx,torch,sklearn]' onnxruntime
	@touch $@

# lerobot asks for an older PyTorch and for everything that robots need; its datasets run with less, which is named here.
$(VENV_LEROBOT)/.lerobot: $(VENV_LEROBOT)/.made pyproject.toml
	@echo "installing understudy with the extras dev, mujoco, tables, minari, onnx, and lerobot (this brings PyTorch)"
	$(VENV_LEROBOT)/bin/python $(PIP) --editable '.[dev,mujoco,tables,minari,onnx]' \
	onnxruntime torch==2.13.0 'datasets>=4,<5' 'accelerate>=1.10' 'av>=15,<16' jsonlines
	$(VENV_LEROBOT)/bin/python $(PIP) --no-deps lerobot==0.4.4 torchvision==0.25.0
	@touch $@

$(VENV_AUDIT)/.audit: $(VENV_AUDIT)/.made
	@echo "installing pip-audit"
	$(VENV_AUDIT)/bin/python $(PIP) pip-audit
	@touch $@

$(VENV_PACKAGE)/.tools: $(VENV_PACKAGE)/.made
	@echo "installing build and twine"
	$(VENV_PACKAGE)/bin/python $(PIP) build twine
	@touch $@
