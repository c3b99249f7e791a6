# Everything runs in .venv, which the first target that needs it sets up.
PYTHON ?= python3
BIN := .venv/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help demo test test-process test-spark test-bench lint check-slow check-ledger bench \
	bench-speed bench-guard bench-guard-update docs lock release nightly mutate coverage clean

help:
	@echo "make demo         fit private models to an example table: odds ratios, effects, budgets"
	@echo "make test         run the tests (at most 4 minutes on two idle cores)"
	@echo "make test-process tests that start other processes or a browser"
	@echo "make test-spark   tests on Spark; installs Debian's OpenJDK if there is no java"
	@echo "make lint         ruff, mypy --strict on trusted packages, and the import contracts"
	@echo "make check-slow   statistical and real-data checks (DISCREET_DATA=folder for the latter)"
	@echo "make check-ledger kill and race 10,000 processes on a ledger (about an hour; needs PostgreSQL)"
	@echo "make test-bench   run the tests of the benchmark (discreet-bench)"
	@echo "make bench        run the quick form of every experiment and make a page of the results"
	@echo "make bench-speed  speed and memory against NumPy, SciPy and pandas; fails if a bar is missed"
	@echo "make bench-guard  fail if scores, seconds or memory of a small suite got worse (5 minutes)"
	@echo "make bench-guard-update  write what bench-guard compares with: bench/results/guard.parquet"
	@echo "make lock         write requirements.lock: versions and hashes of all dependencies"
	@echo "make release      build, check, materials and checksums in out/release (REPOSITORY=https://…)"
	@echo "make nightly      what is too long for a test, in small forms (hours; tools/commands.toml)"
	@echo "make mutate       break trusted code on purpose and see whether its tests fail (half an hour)"
	@echo "make coverage     lines and branches that the tests run, without compiled kernels (10 minutes)"
	@echo "make docs         build the documentation into out/docs: runs all tutorials, checks all links"

.venv/bin/python:
	@echo "== Setting up a Python environment in .venv (once)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --upgrade "pip>=25.1"

.venv/.demo: .venv/bin/python pyproject.toml
	@echo "== Installing discreet, its command and matplotlib (once): 250 MB to download, 800 MB on disk"
	$(BIN)/python -m pip install --editable ".[cli,report]"
	@touch $@

.venv/.bench: .venv/.demo bench/pyproject.toml
	@echo "== Installing the benchmark (once)"
	$(BIN)/python -m pip install --editable bench
	@touch $@

.venv/.developer: .venv/.bench
	@echo "== Installing the tools for tests and checks (once)"
	$(BIN)/python -m pip install --group dev
	@touch $@

.venv/.spark: .venv/.developer
	@echo "== Installing Spark (once): 450 MB to download"
	$(BIN)/python -m pip install --editable ".[spark]"
	@touch $@

.venv/.release: .venv/bin/python
	@echo "== Installing the tools for a release (once)"
	$(BIN)/python -m pip install --group release
	@touch $@

.venv/.docs: .venv/.demo
	@echo "== Installing the tools for the documentation (once)"
	$(BIN)/python -m pip install --group docs
	@touch $@

demo: .venv/.demo
	@echo "== Fitting private models to the example table (half a minute)"
	$(BIN)/discreet demo

test: .venv/.developer  # bytecode of the tests, whatever the caller's setting: it saves 10 s
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test-process: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "process or browser" tests bench/tests

test-spark: .venv/.spark
	@command -v java >/dev/null || { \
		echo "== Installing OpenJDK (once)"; \
		$(SUDO) apt-get update && \
		$(SUDO) apt-get install --yes --no-install-recommends default-jre-headless; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m spark tests/engines

test-bench: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest bench/tests -n 2 --dist loadfile

lint: .venv/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -q
	$(BIN)/python -m coverage report --skip-covered

check-slow: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests bench/tests

check-ledger: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python tools/check_ledger.py

bench: .venv/.bench
	$(BIN)/discreet bench run all --quick
	$(BIN)/discreet bench report out/bench --output out/bench/report.html --force

bench-speed: .venv/.bench
	$(BIN)/python -m discreet_bench.speed

bench-guard: .venv/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m discreet_bench.guard

bench-guard-update: .venv/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m discreet_bench.guard --update

lock: .venv/.release
	UV_EXTRA_INDEX_URL= UV_FIND_LINKS= UV_INDEX= $(BIN)/uv --no-config pip compile pyproject.toml \
		--extra cli --extra report --universal --upgrade --python-version 3.11 \
		--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --output-file requirements.lock

release: .venv/.release
	rm -rf out/release
	DISCREET_REPOSITORY=$(REPOSITORY) $(BIN)/python tools/release.py out/release

nightly: .venv/.developer .venv/.docs .venv/.release
	OMP_NUM_THREADS=1 $(BIN)/python tools/nightly.py

mutate: .venv/.developer
	$(BIN)/python tools/mutate.py

docs: .venv/.docs
	rm -rf docs/generated out/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -d out/doctrees docs out/docs
	$(BIN)/python tools/check_site.py out/docs

clean:
	rm -rf .venv docs/generated out
