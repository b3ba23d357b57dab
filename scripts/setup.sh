#!/usr/bin/env bash
# Makes a fresh Debian machine ready: system libraries by apt; a MariaDB of our own, unpacked (never installed) under
# build/; the headers of exactly that server; the demo's real data; the generators of TPC-H. Quick and silent when all is in place.
#
# Invariants:
# - No package of a MariaDB server is installed, so no server of the machine is ever started, stopped, upgraded or
#   configured. (sysbench brings the client library.)
# - Packages that are installed are shared libraries, build tools and sysbench only; a policy-rc.d keeps their scripts
#   from starting services while that happens, and is put back as it was.
# - All else is written under build/, which is git-ignored.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

scripts/setup-packages.sh
scripts/setup-mariadb.sh
scripts/setup-data.sh
scripts/setup-duckdb.sh
check_rust
check_compiler
check_room "${PERDURA_DIR:-$PERDURA_DIR_DEFAULT}"
if [ -n "${PERDURA_SERVER:-}" ]; then scripts/setup-mariadb-series.sh "$PERDURA_SERVER"; fi
say "ready: MariaDB $(cat build/mariadb/DEBIAN_VERSION) in build/mariadb"
[ -e target/release/xtask ] || say "the build comes next, silent except for errors: some minutes the first time"
