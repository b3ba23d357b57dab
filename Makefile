# Perdura's commands. `make setup` needs root or sudo once, for libraries from Debian; everything else is unprivileged.
# PERDURA_DIR=DIR names the directory on persistent memory (default /dev/shm/perdura, emulated). SERVER=11.8 takes the MariaDB of that series, which
# is unpacked beside the one of this machine's Debian.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
ifneq ($(SERVER),)
export PERDURA_SERVER := $(SERVER)
endif
.PHONY: help setup plugin server demo demo-kv test test-long verify bench package

help:
	@echo "make setup      libraries, an unpacked MariaDB, the demo's data (all under build/)"
	@echo "make server     a MariaDB with ENGINE=Perdura to work with; keeps its data (DIR=..., PORT=...)"
	@echo "make demo       real data in ENGINE=Perdura, beside MEMORY and InnoDB, through a crash"
	@echo "make demo-kv    a replicated key-value server: a leader killed, a replica wiped and caught up"
	@echo "make test       every test (30 minutes from a warm tree; STEPS=... for some)"
	@echo "make test-long  the randomized tests for hours, the SQL suites of both series (MINUTES=$(MINUTES))"
	@echo "make verify     format, lints, layers, licences, docs"
	@echo "make bench      every benchmark, all peers (BENCH=load and the like for one)"
	@echo "make package    a tarball of the plugin for the server version set up"

setup:
	@scripts/setup.sh

plugin: setup
	@cargo xtask plugin

# The server checks its own directory for room. DIR and PORT count on the command line only: environments often have a PORT.
server:
	@ROOM_MIB_LEAST=0 scripts/setup.sh
	@cargo xtask server $(if $(filter command,$(origin DIR)),--dir "$(DIR)") $(if $(filter command,$(origin PORT)),--port "$(PORT)")

demo: setup
	@cargo xtask demo

demo-kv:
	@scripts/setup-packages.sh
	@cargo xtask demo-kv

# STEPS names single steps, such as "unit mtr"; `cargo xtask test` says which there are.
STEPS ?=
test: setup
	@cargo xtask test $(STEPS)

MINUTES ?= 120
SIM_SEEDS ?= 200000
DISK ?= $(or $(PERDURA_DISK_DIR),$(CURDIR)/build/disk)
# The SQL suites run with both series. Of one that cannot be had the set-up says why, and ends with 3.
test-long: setup
	PERDURA_SOAK=20 cargo test --release --package perdura-map --package perdura-engine
	PERDURA_GENERATIONS_MINUTES=60 cargo test --release --package perdura-engine --test main generations::
	PERDURA_QUARANTINE_MINUTES=10 cargo test --release --package perdura-engine --test main quarantine:: -- --nocapture
	PERDURA_SERVER= cargo xtask mtr
	scripts/setup-mariadb-series.sh 11.8 && PERDURA_SERVER=11.8 cargo xtask mtr || [ $$? = 3 ]
	cargo xtask explore --minutes $(MINUTES) --seed $$RANDOM
	cargo xtask sim --seed $$RANDOM$$RANDOM --seeds $(SIM_SEEDS) --no-plants
	cargo xtask kv-chaos --seconds 300 --seed $$RANDOM
	cargo xtask crash-server --rounds 500 --seed $$RANDOM
	cargo xtask crash-server --placement page --rounds 100 --seed $$RANDOM
	cargo xtask crash-server --placement split --rounds 100 --seed $$RANDOM
	cargo xtask crash-server --log-path classic,nf,write_ahead,persist,direct --rounds 100 --seed $$RANDOM
	cargo xtask crash-server --placement page --log-path classic,nf,direct --rounds 50 --seed $$RANDOM
	cargo xtask replication --rounds 100 --seed $$RANDOM
	cargo xtask sqldiff --statements 1000000 --seed $$RANDOM
	cargo xtask sqldiff --placement page --statements 20000 --seed $$RANDOM
	cargo xtask sqldiff --placement split --statements 20000 --seed $$RANDOM
	cargo xtask sqldiff --log-path classic,nf --statements 100000 --seed $$RANDOM
	cargo xtask sqldiff --placement page --log-path classic,nf --statements 20000 --seed $$RANDOM
	PERDURA_DIR=$(DISK) cargo xtask bench restart
	PERDURA_DIR=$(DISK) cargo xtask bench soak
	PERDURA_DIR=$(DISK) PERDURA_LOG_DIR=/dev/shm/perdura-log cargo xtask bench soak
	cargo xtask dax --seed $$RANDOM
	cargo xtask power-cut --seed $$RANDOM
	cargo xtask tpcds
	cargo xtask django
	cargo xtask sqlalchemy

verify:
	@scripts/setup-packages.sh
	@cargo xtask verify

BENCH ?= all
bench: setup
	@mkdir -p build
	@cargo xtask bench $(BENCH) --json build/bench-$(BENCH).json

package: setup
	@cargo xtask package
