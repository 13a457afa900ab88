SHELL := /bin/bash
BIN := .venv/bin
DEMO := build/demo
TARGETS := mysql,mysql9,duckdb
MINUTES := 1
RUNS := 20
TIMES := 10
UPSTREAM := file://$(CURDIR)/fixtures/cdc/demo?protocol=canal-json
DOWNSTREAM := duckdb:///$(DEMO)/replica.duckdb

.DEFAULT_GOAL := help
.PHONY: help setup demo test azurite mysql check simulate properties histories faults soak corpus bench differences lock

help: ## Show what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## Install what is missing: Java, MariaDB, and the Python packages into .venv
	@bash scripts/setup.sh

demo: setup ## Apply a small changefeed to a DuckDB file and show the tables
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@$(BIN)/storage-consumer once --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)' --tz UTC
	@$(BIN)/python scripts/show_tables.py $(DEMO)/replica.duckdb
	@printf '%s\n' 'Try next, and see that nothing is applied twice:' \
	  "  $(BIN)/storage-consumer once --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)' --tz UTC" \
	  "  $(BIN)/storage-consumer status --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)'"

test: setup azurite mysql ## Run the tests
	@bash scripts/test.sh

azurite: ## Install Azure's storage emulator, for its tests, where npm is there
	@if command -v npm >/dev/null && [ ! -d build/azurite ]; then npm install --silent --no-fund --no-audit --prefix build/azurite azurite; fi

mysql: ## Unpack a MySQL server under build/mysql, for the tests, where apt can get one
	@bash scripts/mysql.sh

check: setup ## Lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

simulate: setup ## Play random histories against the driver: make simulate MINUTES=10 SEED=1
	$(BIN)/python -m tests.simulate --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

properties: setup mysql ## Try many more examples of each property than the tests do: make properties TIMES=10
	EXAMPLES=$(TIMES) $(BIN)/python -m pytest -n 4 --dist load tests/property

histories: setup mysql ## Play random statements on each target: make histories MINUTES=10 SEED=1
	$(BIN)/python -m tests.support.random_ddl --minutes $(MINUTES) --target $(TARGETS) $(if $(SEED),--seed $(SEED))

faults: setup mysql ## Kill, freeze and cut off the consumer at each point of a round: make faults RUNS=20
	$(BIN)/python -m tests.faults --runs $(RUNS) --targets $(TARGETS) $(if $(SPARK),--spark) $(if $(RESULTS),--results $(RESULTS))

soak: MINUTES := 30
soak: setup mysql ## Run it beside a live changefeed, kill it again and again, watch what grows: make soak MINUTES=30 TARGET=duckdb
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(TARGET),--target $(TARGET)) $(if $(SEED),--seed $(SEED))

corpus: setup mysql ## Compare with recorded changefeeds on all targets: make corpus CORPUS=path
	@test -n "$(CORPUS)" || { echo "name the folder of recorded changefeeds: make corpus CORPUS=path" >&2; exit 2; }
	$(BIN)/python -m tests.e2e.corpus_report "$(CORPUS)" --target $(TARGETS)

bench: setup ## Measure throughput on a MariaDB of its own
	$(BIN)/python -m tests.bench.run

differences: setup ## See verify find a cell, a missing and an extra row among 1 M rows: make differences SEED=1
	$(BIN)/python -m tests.bench.differences $(if $(SEED),--seed $(SEED))

lock: ## Resolve the dependencies anew and write requirements.lock
	@bash scripts/lock.sh
