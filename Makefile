# Everything runs in .venv, which the first target that needs it sets up.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-bench lint check-slow bench bench-speed clean

help:
	@echo "make demo         train private models on generated data and show what the budget bought"
	@echo "make test         run the tests"
	@echo "make lint         ruff, mypy and the import contract"
	@echo "make check-slow   statistical and real-data checks (DISCREET_DATA=folder for the latter)"
	@echo "make test-bench   run the tests of the benchmark (discreet-bench)"
	@echo "make bench        run the quick form of every experiment and make a page of the results"
	@echo "make bench-speed  speed and memory against NumPy, SciPy and pandas, as ratios in one run"

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

.venv/.user: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[cli,report]" --editable bench
	@touch $@

.venv/.developer: .venv/.user
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: .venv/.user
	$(BIN)/discreet demo

test: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-slow: .venv/.developer
	$(BIN)/python -m pytest -m slow

.venv/.bench: .venv/.user bench/pyproject.toml
	$(BIN)/python -m pip install --quiet --editable bench
	@touch $@

test-bench: .venv/.developer .venv/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest bench/tests -n 2 --dist loadfile -m "not slow"

bench: .venv/.bench
	$(BIN)/discreet bench run all --quick
	$(BIN)/discreet bench report out/bench --output out/bench/report.html --force

bench-speed: .venv/.bench
	$(BIN)/python -m discreet_bench.speed

clean:
	rm -rf .venv out
