SHELL := /bin/bash
BIN := .venv/bin
DEMO := build/demo
UPSTREAM := file://$(CURDIR)/fixtures/cdc/demo?protocol=canal-json
DOWNSTREAM := duckdb:///$(DEMO)/replica.duckdb

.DEFAULT_GOAL := help
.PHONY: help setup tools lakes demo test proof check bench docs lock

help: ## Show what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## Install what is missing: Java, and the program's Python packages into .venv
	@bash scripts/setup.sh

tools: ## Install what only tests need, too: MariaDB, linters, emulators of clouds
	@bash scripts/setup.sh tools

lakes: setup ## Fetch the jars that lakes as targets need
	@$(BIN)/python -m consumer.sink.lake.fetch

demo: ## Apply a small changefeed to a DuckDB file and show the tables
	@bash scripts/setup.sh demo
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@$(BIN)/storage-consumer once --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)' --tz UTC
	@$(BIN)/python scripts/show_tables.py $(DEMO)/replica.duckdb
	@printf '%s\n' 'Try next, and see that nothing is applied twice:' \
	  "  $(BIN)/storage-consumer once --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)' --tz UTC" \
	  "  $(BIN)/storage-consumer status --upstream-uri '$(UPSTREAM)' --downstream-uri '$(DOWNSTREAM)' --tz UTC"

test: tools ## Run the tests that every change must pass
	$(BIN)/python -m pytest --group test -n 2 --dist loadfile --no-loadscope-reorder

proof: tools ## Run all other tests, by group: make proof GROUP=mysql9 (docs/testing.md)
	$(BIN)/python -m tests.proof $(GROUP) $(ARGS)

check: tools ## Lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: tools ## Measure throughput on a MariaDB of its own
	$(BIN)/python -m tests.bench.run

docs: setup ## Build the site of README and docs into build/site
	@bash scripts/docs.sh

lock: ## Resolve the dependencies anew and write the two lock files
	@bash scripts/lock.sh
