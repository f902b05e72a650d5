# Each target first makes sure of an environment: .venv, with this checkout installed in it.

EXTRAS := dev,cu13
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.hopper-numba-installed

.PHONY: help demo test forms mutants lint bench notebooks docs

help:  ## say what the targets do
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(INSTALLED)  ## multiply matrices with every stage and check them, on a Hopper GPU or in the interpreter
	@$(PYTHON) -m hopper_numba demo

test: $(INSTALLED)  ## run the tests; those that need a Hopper GPU are skipped where there is none
	$(PYTHON) -m pytest -n auto --maxprocesses 8

forms: $(INSTALLED)  ## assemble every form of WGMMA that there is, not only the sample of the tests
	HOPPER_NUMBA_FORMS=all $(PYTHON) -m pytest -n auto --maxprocesses 8 tests/intrinsics/test_wgmma_forms.py

mutants: $(INSTALLED)  ## delete or alter each synchronising call of every stage: does the interpreter report it?
	PYTHONPATH=tests $(PYTHON) -m mutants

# mypy cannot follow the mapping of intrinsics/ in an editable install, so it reads a real one.
lint: $(INSTALLED)  ## ruff check, ruff format --check, mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	rm -rf build
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --target build/typed .
	cd build/typed && ../../$(PYTHON) -m mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p hopper_numba

bench: $(INSTALLED)  ## time the stages against cuBLAS; needs a Hopper GPU
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(PYTHON) -m pytest benchmarks

notebooks: $(INSTALLED)  ## execute the notebooks; no GPU needed
	$(VENV)/bin/jupyter-execute notebooks/*.ipynb

docs: $(INSTALLED)  ## write docs/reference.md from the instruction registry
	mkdir -p docs
	$(PYTHON) -m hopper_numba reference --kernels tests/intrinsics/kernels > docs/reference.md.new
	mv docs/reference.md.new docs/reference.md

# An environment that is there already is installed into, not replaced.
$(INSTALLED): pyproject.toml
	@if ! $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	    for python in python3.12 python3.11 python3; do \
	        if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; then \
	            echo "making $(VENV) with $$python"; \
	            exec $$python -m venv $(VENV); \
	        fi; \
	    done; \
	    echo 'hopper_numba needs Python 3.11 or 3.12; neither python3.12, python3.11 nor python3 is one.' >&2; \
	    exit 1; \
	fi
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@
