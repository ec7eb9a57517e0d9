# Everything a newcomer needs: `make run` trains the example, `make install` puts `moor` on the PATH,
# `make test` runs all tests. What they need goes into .venv (and, as root on Debian, system packages).

# A Python for .venv, and a version of TensorFlow instead of the locked one; by default they are looked for.
PYTHON ?=
TENSORFLOW ?=
VENV ?= .venv
PREFIX ?= $(HOME)/.local
BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CHECK := sh requirements/check.sh
export PATH := $(BIN):$(PATH)
export MAKE_TARGET := $(MAKECMDGOALS)
export TENSORFLOW
STREAMS := test-kube test-node test-doctor test-local test-frameworks test-unit
# A pipe fails if its first part does.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

.PHONY: fuzz audit
.PHONY: help run install uninstall test $(STREAMS) test-fast test-faults test-mutants kube image lint bench docs lock clean
.PHONY: check-run check-lint check-test

help:
	@echo "make run        train examples/wide-deep on this machine (0.3 GB to download, 2 GB on disk)"
	@echo "make install    put moor into $(PREFIX)/bin, with an environment of its own; make uninstall"
	@echo "make test       all tests, with real frameworks (up to 3 GB to download, 10 GB on disk)"
	@echo "make test-X     one of its streams: kube, node, doctor, local, frameworks, unit"
	@echo "make test-fast  the tests of a minute: no framework, no long search (0.2 GB to download)"
	@echo "make test-faults  the operator killed at each of its writes, the queue 200 times (about 30 minutes)"
	@echo "make test-mutants  the tests of each defence, with that defence taken out (about 10 minutes)"
	@echo "make kube       get the Kubernetes that the tests run (once, about 5 minutes)"
	@echo "make image      build the image of Mooring (needs Docker)"
	@echo "make lint       style, types, layers"
	@echo "make fuzz       hostile input to everything that is read from outside (5 minutes; SECONDS_EACH=5)"
	@echo "make audit      known vulnerabilities of the locked versions, by PyPI's data"
	@echo "make bench      all benchmarks (docs/benchmarks.md says how to read them)"
	@echo "make docs       generate the reference pages from the code"
	@echo "make lock       bring the lock files up to requirements/*.in; UPGRADE=--upgrade: newer versions"
	@echo "make clean      remove .venv and caches, and what killed runs left"

# Before the first download: interpreter, owner of the files, free space. The figures are megabytes that
# the environment and pip's cache take.
check-run:
	@[ -e $(VENV)/.run ] || $(CHECK) ready frameworks 2000 $(VENV) "$(PYTHON)"

check-lint:
	@[ -e $(VENV)/.lint ] || $(CHECK) ready core 1000 $(VENV) "$(PYTHON)"

check-test:
	@[ -e $(VENV)/.test ] || { $(CHECK) ready frameworks 10000 $(VENV) "$(PYTHON)" && \
		echo "make test downloads 1 GB, and 2 GB of CUDA libraries unless pip finds a CPU build of PyTorch" && \
		echo "(PIP_EXTRA_INDEX_URL: PyTorch's index of them); make test-fast does without."; }

# The check of what was asked for comes before anything is made, also with -j and -k.
CHECKED := $(if $(filter test test-faults test-mutants bench $(STREAMS),$(MAKECMDGOALS)),check-test,$(if $(filter run,$(MAKECMDGOALS)),check-run,check-lint))
$(addprefix $(VENV)/.,made core run lint test): | $(CHECKED)

$(VENV)/.made:
	python=$$($(CHECK) python frameworks "$(PYTHON)" 2>/dev/null || $(CHECK) python core "$(PYTHON)") && "$$python" -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.made requirements/core.lock requirements/build.lock pyproject.toml
	@echo "installing Mooring into $(VENV) ..."
	$(PIP) -r requirements/core.lock
	$(PIP) -r requirements/build.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.run: $(VENV)/.core requirements/run.lock
	@echo "installing TensorFlow into $(VENV) (about 300 MB to download) ..."
	$(PIP) $(if $(TENSORFLOW),'.[tensorflow]' 'tensorflow==$(TENSORFLOW); platform_machine!="x86_64"' 'tensorflow-cpu==$(TENSORFLOW); platform_machine=="x86_64"',-r requirements/run.lock)
	touch $@

$(VENV)/.lint: $(VENV)/.core requirements/kubernetes.lock requirements/test.lock
	$(PIP) -r requirements/kubernetes.lock
	$(PIP) -r requirements/test.lock
	touch $@

$(VENV)/.test: $(VENV)/.run $(VENV)/.lint requirements/torch.txt requirements/keras2.txt
	@echo "installing PyTorch, and Open MPI if it is missing ..."
	$(PIP) --no-deps -r requirements/torch.txt
	$(PIP) --no-deps -r requirements/keras2.txt
	@python -c 'import torch' 2>/dev/null || { echo "this PyTorch is built for CUDA: its libraries follow (2 GB) ..."; $(PIP) -r requirements/torch.txt; }
	sh requirements/system.sh
	touch $@

run: $(VENV)/.run
	moor run examples/wide-deep/job.yaml --nodes auto
	@echo "moor is $(VENV)/bin/moor; make install puts it on your PATH"

install:
	@$(CHECK) ready core 300 $(PREFIX)/share/mooring "$(PYTHON)"
	@python=$$($(CHECK) python core "$(PYTHON)") && "$$python" -m venv --clear $(PREFIX)/share/mooring
	$(PREFIX)/share/mooring/bin/python -m pip install --quiet --disable-pip-version-check .
	@mkdir -p $(PREFIX)/bin
	ln -sf ../share/mooring/bin/moor $(PREFIX)/bin/moor
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) moor=moor ;; *) moor=$(PREFIX)/bin/moor; \
		echo "$(PREFIX)/bin is not on your PATH: put this line into your shell's start-up file"; \
		echo '  export PATH="$(PREFIX)/bin:$$PATH"' ;; esac; echo "next: $$moor init pytorch"

uninstall:
	rm -rf $(PREFIX)/share/mooring
	@[ ! -L $(PREFIX)/bin/moor ] || [ -e $(PREFIX)/bin/moor ] || rm $(PREFIX)/bin/moor

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
	MOORING_ALL_KILLS=1 pytest tests/kube/faults tests/faults/test_service_killed.py -s

# Patches of tests/mutants that take one defence out each: docs/reliability.md. ONLY=TEXT: with that in their names.
test-mutants: $(VENV)/.test
	PYTHONPATH=tests python -m mutants $(ONLY)

kube: $(VENV)/.core
	PYTHONPATH=tests python -m kube.cluster build

image: $(VENV)/.core
	rm -rf dist
	hatchling build -t wheel -d dist
	docker build -f images/Dockerfile -t mooring:$$(python -c 'from mooring.version import VERSION; print(VERSION)') .

# Without real processes but for those of the contract of backends.
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

# Each entry point in a process of its own; `make test` tries a few inputs of each.
SECONDS_EACH ?= 5
fuzz: $(VENV)/.lint
	cd tests/unit && PYTHONPATH=. python -m fuzz --seconds $(SECONDS_EACH)

audit: $(VENV)/.core
	python requirements/audit.py

bench: $(VENV)/.test
	-@$(MAKE) --no-print-directory kube
	$(PIP) -r requirements/versus.txt
	for each in fresh versus overhead pinning threads stacks ps remedies start end brain quality simulator doctor kube; do \
		python benchmarks/$$each.py || exit 1; \
	done

docs: $(VENV)/.core
	python docs/generate.py

lock: $(VENV)/.lint
	for each in core run build kubernetes test; do \
		uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header --no-annotate $(UPGRADE) \
			requirements/$$each.in -o requirements/$$each.lock || exit 1; \
	done

clean:
	-[ -x $(BIN)/moor ] && moor clean
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
