# Perdura's commands. `make setup` needs root or sudo once, for libraries from Debian; everything else is unprivileged.
# PERDURA_DIR=DIR names the directory on persistent memory (default /dev/shm/perdura, emulated).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup plugin demo demo-kv test test-long verify bench package

help:
	@echo "make setup      libraries, an unpacked MariaDB, the demo's data (all under build/)"
	@echo "make demo       real data in ENGINE=Perdura, beside MEMORY and InnoDB, through a crash"
	@echo "make test       every test (at most 25 minutes)"
	@echo "make test-long  the randomized tests for hours (MINUTES=$(MINUTES))"
	@echo "make verify     format, lints, layers, licences, docs"
	@echo "make bench      every benchmark, all peers (BENCH=load and the like for one)"
	@echo "make package    a tarball of the plugin for the server version set up"

setup:
	@scripts/setup.sh

plugin: setup
	@cargo xtask plugin

demo: setup
	@cargo xtask demo

demo-kv:
	@echo "demo-kv: the replicated key-value server is not built yet; make demo shows the SQL engine" >&2; exit 1

test: setup
	cargo test --workspace --exclude xtask --no-fail-fast
	cargo test --release --package xtask
	RUSTFLAGS="--cfg loom" cargo test --package perdura-map --lib --target-dir target/loom loom_tests
	cargo xtask explore
	cargo xtask mtr
	cargo xtask operations
	cargo xtask crash-server
	cargo xtask replication
	cargo xtask sqldiff

MINUTES ?= 120
test-long: setup
	PERDURA_SOAK=20 cargo test --release --package perdura-map --package perdura-engine
	cargo xtask explore --minutes $(MINUTES) --seed $$RANDOM
	cargo xtask crash-server --rounds 500 --seed $$RANDOM
	cargo xtask replication --rounds 100 --seed $$RANDOM
	cargo xtask sqldiff --statements 1000000 --seed $$RANDOM

verify:
	@scripts/setup-packages.sh
	@cargo xtask verify

BENCH ?= all
bench: setup
	@mkdir -p build
	@cargo xtask bench $(BENCH) --json build/bench-$(BENCH).json

package: setup
	@cargo xtask package
