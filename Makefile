# Every target sets itself up from nothing but Python 3.11 or newer, git and make.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	&& echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo quick check test test-campaigns test-fleet test-long test-sdks test-web nightly pictures kills machines lint bench wheel-check bundles man clean

demo: $(VENV)/installed  ## Show the whole product on a copy of sample-vault.
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

quick: $(VENV)/installed-test  ## Run the tests of rules and formats, under 20 seconds.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 2 -k "not quadratic and not takes_long" \
		tests/core tests/documents tests/test_documents.py

check: lint quick  ## Check style and types, and run the quick tests.

# Byte code is kept even where the environment says not to: without it, each process of the suite
# compiles all tests in each run. Tests wait for other processes a third of their time, so four at
# once keep two cores busy.
test: $(VENV)/installed-test  ## Run the whole test suite.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder

test-campaigns: $(VENV)/installed-web  ## Run each campaign in its short form: kills, storms, many writers.
	$(BIN)/python -m pytest -q -n 4 -m campaign

test-fleet: $(VENV)/installed-fleet  ## Run the tests on a cluster of several nodes, all on this machine.
	$(BIN)/python -m pytest -q -m 'fleet and not long' tests/fleet $(FLEET)

test-long: $(VENV)/installed-test  ## Run the campaigns that take minutes.
	$(BIN)/python -m pytest -q -m long --hypothesis-profile=default

test-sdks: $(VENV)/installed-test  ## Run the tests by other SDKs, each in an environment of its own.
	$(BIN)/python -m pytest -q -m sdks tests/sdks $(SDKS)

test-web: $(VENV)/installed-web  ## Run the tests in a real browser, Debian's chromium.
	$(BIN)/python -m pytest -q -n 2 -m 'browser and not campaign' tests/browser $(WEB)

nightly: test-campaigns test-fleet test-sdks  ## Run the groups that take too long for each change.

pictures: $(VENV)/installed-web  ## Take the pictures in docs/pictures anew.
	$(BIN)/python tests/transcripts/recording.py
	PYTHONPATH=tests $(BIN)/python tests/browser/pictures.py

kills: $(VENV)/installed-test  ## Kill each command that writes at its calls, and fail them.
	$(BIN)/python tests/kills/campaign.py $(or $(KILLS),--kills 10000 --faults 2000)

machines: $(VENV)/installed-test  ## Let clones of one vault live through rounds of work and trouble.
	$(BIN)/python tests/machines_campaign/campaign.py $(or $(MACHINES),--rounds 50)

lint: $(VENV)/installed-test  ## Check style, types and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/hadolint Dockerfile

bench: $(VENV)/installed  ## Measure beside SQLite FTS5, plain Whoosh, ripgrep and git.
	$(BIN)/python benchmarks/run.py $(BENCH)

wheel-check: $(VENV)/installed-packages  ## Build sdist and wheel, check them, and use them where nothing else is.
	sh tests/wheel_check.sh "$(BIN)/python"

bundles: $(VENV)/installed-test  ## Build dist/: wheel, Claude Code plugin, MCP bundle, server.json.
	rm -f dist/*.whl
	$(BIN)/python -m build -q --wheel --outdir dist .
	$(BIN)/python docs/bundles.py dist/*.whl $(BUNDLES)

man: $(VENV)/installed  ## Write dist/vaultmem.1, the manual page.
	$(BIN)/python docs/man.py

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=..."; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --upgrade pip
	@$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@$(BIN)/python -m pip install -q --group test --group lint build
	@touch $@

$(VENV)/installed-packages: $(VENV)/installed-test
	@$(BIN)/python -m pip install -q --group packages
	@touch $@

$(VENV)/installed-fleet: $(VENV)/installed-test
	@$(BIN)/python -m pip install -q --group fleet
	@touch $@

$(VENV)/installed-web: $(VENV)/installed-test
	@$(BIN)/python -m pip install -q --group browser
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
		|| { apt-get update -q && apt-get install -yq --no-install-recommends chromium; } >/dev/null
	@touch $@

clean:  ## Remove everything that the other targets made.
	rm -rf $(VENV) .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
