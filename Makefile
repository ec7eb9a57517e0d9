# Everything a newcomer needs: `make run` trains the example, `make test` runs all tests.
# Both set up what they need in .venv (and, as root on Debian, the system packages).

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export PATH := $(BIN):$(PATH)
STREAMS := test-kube test-node test-doctor test-local test-frameworks test-unit
# A pipe fails if its first part does.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

.PHONY: help run test $(STREAMS) test-fast test-faults kube image lint bench docs lock clean

help:
	@echo "make run        train examples/wide-deep on this machine"
	@echo "make test       all tests, with real frameworks; at the end it names the streams that failed"
	@echo "make test-X     one of its streams: kube, node, doctor, local, frameworks, unit"
	@echo "make test-fast  the tests of a minute: no framework, no long search"
	@echo "make test-faults  the operator killed at each of its writes (about 20 minutes)"
	@echo "make kube       get the Kubernetes that the tests run (once, about 5 minutes)"
	@echo "make image      build the image of Mooring (needs Docker)"
	@echo "make lint       style, types, layers"
	@echo "make bench      all benchmarks (docs/benchmarks.md says how to read them)"
	@echo "make docs       generate the reference pages from the code"
	@echo "make lock       renew the lock files"
	@echo "make clean      remove .venv and caches, and what killed runs left"

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit("Mooring needs Python 3.11 or later, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.run: $(VENV)/.made requirements/run.lock requirements/build.lock pyproject.toml
	@echo "installing Mooring and TensorFlow into $(VENV) (about 300 MB to download) ..."
	$(PIP) -r requirements/run.lock
	$(PIP) -r requirements/build.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.lint: $(VENV)/.run requirements/kubernetes.lock requirements/test.lock
	$(PIP) -r requirements/kubernetes.lock
	$(PIP) -r requirements/test.lock
	touch $@

$(VENV)/.test: $(VENV)/.lint requirements/torch.txt
	@echo "installing PyTorch, and Open MPI if it is missing ..."
	$(PIP) --no-deps -r requirements/torch.txt
	@python -c 'import torch' 2>/dev/null || { echo "this PyTorch is built for CUDA: its libraries follow (gigabytes) ..."; $(PIP) -r requirements/torch.txt; }
	sh requirements/system.sh
	touch $@

run: $(VENV)/.run
	moor run examples/wide-deep/job.yaml --nodes auto

# The contract's tests compare real time with simulated: nobody else runs meanwhile. Then four streams
# at a time, as most wait now and then; those of frameworks and units give way where CPUs are short.
# Tests that call `moor clean` are all in one stream. Tests of real processes may be slowed down by
# whoever else uses the machine: they have a second try, which the summary names. Without a
# Kubernetes its tests say so: they are skipped, or fail where CI=true.
test: $(VENV)/.test
	-@$(MAKE) --no-print-directory kube
	pytest tests/contract --reruns 1
	@rm -f $(VENV)/.failed
	@$(MAKE) --no-print-directory -k -j4 $(STREAMS) || { echo "failed: $$(xargs < $(VENV)/.failed)"; exit 1; }

# sed keeps the lines of streams apart.
lines = | sed -u '' || { echo "$@$$([ ! -f $(VENV)/.running-$@ ] || echo " (died in $$(cat $(VENV)/.running-$@))")" >> $(VENV)/.failed; exit 1; }
# A stream that is killed, or that crashes, leaves the name of its test behind.
$(STREAMS): export MOORING_TESTS_RUNNING_FILE = $(abspath $(VENV))/.running-$@
OTHERS := tests --ignore=tests/unit --ignore=tests/kube --ignore=tests/contract --ignore-glob='tests/local/test_doctor*'

test-kube: $(VENV)/.test
	pytest tests/kube -m "not real_node" --reruns 1 $(lines)

test-node: $(VENV)/.test
	pytest tests/kube -m real_node --reruns 1 $(lines)

test-doctor: $(VENV)/.test
	pytest tests/local/test_doctor*.py --reruns 1 $(lines)

test-local: $(VENV)/.test
	pytest $(OTHERS) -m "not framework" --reruns 1 $(lines)

test-frameworks: $(VENV)/.test
	nice -n 5 pytest $(OTHERS) -m framework --reruns 1 $(lines)

test-unit: $(VENV)/.test
	nice -n 10 pytest tests/unit -n 2 --dist worksteal $(lines)

# Of the operator killed at its writes `make test` runs a selection: docs/reliability.md.
test-faults: $(VENV)/.test
	-@$(MAKE) --no-print-directory kube
	MOORING_ALL_KILLS=1 pytest tests/kube/faults -s

kube: $(VENV)/.run
	PYTHONPATH=tests python -m kube.cluster build

image: $(VENV)/.run
	rm -rf dist
	hatchling build -t wheel -d dist
	docker build -f images/Dockerfile -t mooring:$$(python -c 'from mooring.version import VERSION; print(VERSION)') .

# Without real processes but for those of the bodies' contract.
test-fast: $(VENV)/.lint
	pytest tests/unit -m "not framework and not slow and not kube" -n auto --dist worksteal
	pytest tests/contract -m "not framework and not slow and not kube"

lint: $(VENV)/.lint
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	vermin --quiet --no-tips --target=3.8- --violations src/mooring/launcher src/mooring/inside
	python docs/generate.py --check

bench: $(VENV)/.test
	-@$(MAKE) --no-print-directory kube
	$(PIP) -r requirements/versus.txt
	for each in versus overhead pinning threads stacks ps remedies start end brain quality simulator doctor kube; do \
		python benchmarks/$$each.py || exit 1; \
	done

docs: $(VENV)/.run
	python docs/generate.py

lock:
	uv pip compile -q --generate-hashes --python-version 3.11 --no-header --no-annotate --upgrade requirements/run.in -o requirements/run.lock
	uv pip compile -q --generate-hashes --python-version 3.11 --no-header --no-annotate --upgrade requirements/build.in -o requirements/build.lock
	uv pip compile -q --generate-hashes --python-version 3.11 --no-header --no-annotate --upgrade requirements/kubernetes.in -o requirements/kubernetes.lock
	uv pip compile -q --generate-hashes --python-version 3.11 --no-header --no-annotate --upgrade requirements/test.in -o requirements/test.lock

clean:
	-[ -x $(BIN)/moor ] && moor clean
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
