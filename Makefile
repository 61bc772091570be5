# make help lists the targets. Everything happens in .venv, made on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The exact versions that are tested exist for some Pythons only; make dist DIST_PIP= takes the newest.
DIST_PIP ?= --constraint constraints.txt
FASHION := /usr/share/datasets/fashion-mnist
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format lint types layers bench peers bench-audits bench-bounds bench-exact bench-network bench-reasons bench-long bench-scaling bench-top5 faults fuzz mutants zoo paper docs site site-picture dist clean data

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[audit]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## audit a shipped network on shipped images: every claim, attacks, a page
	$(BIN)/python examples/demo.py

check: $(VENV)/.dev format lint types layers data ## everything CI runs: format, lint, types, layers, tests, doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' --numprocesses=2 --cov --cov-report=term

test: check ## the same as make check

test-slow: $(VENV)/.dev data ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

format: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

# CI must not skip tests on Fashion-MNIST or in a browser, so it installs both; elsewhere they skip.
data:
ifdef CI
	test -d $(FASHION) -a -x /usr/bin/chromium || \
	    (apt-get update -q && apt-get install -q -y dataset-fashion-mnist chromium)
endif

# Its dependencies would change the pinned set, so it has a folder of its own; without it bench says so.
PEERS := curvlinops-for-pytorch==3.0.1 backpack-for-pytorch einconv einops jaxtyping linear_operator \
    opt_einsum unfoldNd wadler_lindig
peers: $(VENV)/.dev ## install curvlinops, beside which bench measures the solver
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(VENV)/peers $(PEERS)

# As a processor without AVX-512, on which convolutions are nearer to the peak and less is gained.
AVX2 := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2

bench: $(VENV)/.dev data ## solver and attacks against what users have today, as ratios
	PYTHONPATH=$(VENV)/peers $(BIN)/python -u benchmarks/core.py | tee benchmarks/core.txt
	$(BIN)/python -u benchmarks/structured.py | tee benchmarks/structured.txt
	$(AVX2) $(BIN)/python -u benchmarks/structured.py | tee benchmarks/structured-avx2.txt
	$(BIN)/python -u benchmarks/attacks.py | tee benchmarks/attacks.txt
	$(BIN)/python -u benchmarks/training_steps.py | tee benchmarks/training.txt
	$(BIN)/python -u benchmarks/runner.py | tee benchmarks/runner.txt
	$(BIN)/python -u benchmarks/startup.py | tee benchmarks/startup.txt

# A quarter of an hour.
bench-scaling: $(VENV)/.dev ## products, time and memory against features, steps, batch and depth
	$(BIN)/python -u benchmarks/scaling.py | tee benchmarks/scaling.txt

# Minutes, most of them for one image of SmallCNN.
bench-exact: $(VENV)/.dev data ## exact integrated gradients of ReLU networks: regions, cost, claims
	$(BIN)/python -u benchmarks/exact_ig.py --cnn | tee benchmarks/exact_ig.txt

# Hours on one core for everything; killed, it goes on where it was.
bench-reasons: $(VENV)/.dev data ## reasons of the credit networks: how many stay, under each claim
	$(BIN)/python -u benchmarks/reasons.py | tee benchmarks/reasons.txt

# A quarter of an hour; killed, it goes on where it was. TOP5='--set mlp=4 --set cnn=1' for less.
bench-top5: $(VENV)/.dev data ## how many of the top 5 pixels provably stay, under every claim
	$(BIN)/python -u benchmarks/top5.py $(TOP5) | tee benchmarks/top5.txt

# Hours for everything; a case that is there is kept. AUDITS='--anew --protocols quick --images 16' for others.
bench-audits: $(VENV)/.dev data ## whole audits, an earlier commit against this one
	$(BIN)/python -u benchmarks/audits.py $(AUDITS)

# A quarter of an hour.
bench-long: $(VENV)/.dev ## 20,000 samples in one audit, killed at half: throughput, memory, resuming, the page
	PYTHONPATH=benchmarks $(BIN)/python -u benchmarks/runner.py --long 20000 | tee benchmarks/long.txt

# Half an hour; killed, it goes on where it was. FAULTS='--only Ray' for some. Trials that are stored are kept.
faults: $(VENV)/.dev ## kill -9, full disks, hangs, crashes, ... of audits and trainings: what is lost?
	OMP_NUM_THREADS=1 $(BIN)/python -u benchmarks/faults.py $(FAULTS)

# A few minutes.
fuzz: $(VENV)/.dev ## hostile files and wrong uses: each refused in one line, within 5 seconds and 500 MB
	bash -o pipefail -c '$(BIN)/python -u benchmarks/fuzz.py | tee benchmarks/fuzz.txt'

# Days for all mutants; killed, it goes on where it was. MUTANTS='--set spectral=50 --set store=20' for some,
# '--next --set spectral=90' for a new round of fresh ones after laws were written.
mutants: $(VENV)/.dev data ## small faults in what proves things: does a test see each?
	OMP_NUM_THREADS=1 $(BIN)/python -u benchmarks/mutants.py $(MUTANTS)

# Hours for everything; killed, it goes on where it was. BOUNDS='--set tests=25 --set calibrations=25' for less.
bench-bounds: $(VENV)/.dev data ## every claim against attacks; goes on where it was stopped
	$(BIN)/python -u benchmarks/bounds.py --jobs 2 $(BOUNDS)
	$(BIN)/python -u benchmarks/bounds.py --deeper

# Hours for everything; killed, it goes on where it was. NETWORK='--set mlp=8 --set wide=0' for less.
bench-network: $(VENV)/.dev data ## what claims are worth for ReLU networks as they are run
	$(BIN)/python -u benchmarks/network.py --jobs 2 $(NETWORK)

# Many hours for everything; killed, it goes on where it was. ZOO='fashion-mnist/at' for one model.
zoo: $(VENV)/.dev data ## train, measure and add the models of the zoo that are not there yet
	$(BIN)/python -u -m reproduction.zoo.train --jobs 2 $(ZOO)

# Hours for everything; killed, it goes on where it was. PAPER='table3 --samples 4' for less.
paper: $(VENV)/.dev data ## the paper's tables, figures and claims, from audits of the zoo
	$(BIN)/python -m reproduction.paper $(or $(PAPER),all) --jobs 2

docs: $(VENV)/.dev ## put the output of example and demo, claims and measurements into README and docs
	$(BIN)/python docs/render.py
	$(BIN)/python docs/screenshot.py runs/demo/report.html docs/images/report.png docs/images/views.png

# Beside what make test installs, so that tests need none of it.
site: $(VENV)/.demo ## the documentation as a folder that opens without a server: build/site/index.html
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[audit,demo,site]'
	$(BIN)/python docs/site.py

site-picture: $(VENV)/.dev site ## a picture of the site: desktop, phone, dark
	$(BIN)/python docs/screenshot.py build/site docs/images/site.png

dist: ## wheel and sdist of attribound and attribound-zoo, installed into a new environment and tried
	rm -rf dist build/dist
	$(PYTHON) -m venv build/dist/tools
	build/dist/tools/bin/pip install --quiet --constraint constraints.txt hatchling
	build/dist/tools/bin/hatchling build --directory $(CURDIR)/dist
	cd zoo && $(CURDIR)/build/dist/tools/bin/hatchling build --directory $(CURDIR)/dist
	$(PYTHON) -m venv build/dist/new
	build/dist/new/bin/pip install --quiet $(DIST_PIP) "$$(echo dist/attribound-*.whl)[audit]" dist/attribound_zoo-*.whl
	cp examples/smoke.py build/dist/ && cd build/dist && new/bin/attribound --version && new/bin/python smoke.py

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
