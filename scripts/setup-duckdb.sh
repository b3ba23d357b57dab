#!/usr/bin/env bash
# Unpacks DuckDB's wheel from PyPI under build/duckdb: it has the generators of TPC-H and TPC-DS
# built in, with their queries and answers. It is never installed. A Python that the pinned version
# has no wheel for goes without, and without the bench `tpch`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

python3 -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 12))' || exit 0

# Done already, by this list of wheels?
mark=$(sha256sum scripts/duckdb.txt)
[ "$(cat build/duckdb/FETCHED 2>/dev/null)" != "$mark" ] || exit 0

staging=$PWD/build/duckdb.new
rm -rf "$staging"
mkdir -p "$staging/unpacked"
say "fetching DuckDB's wheel from PyPI"
if pip3 download -q --no-deps --only-binary :all: --require-hashes -d "$staging" -r scripts/duckdb.txt >"$staging/log" 2>&1; then
    unzip -q -o "$staging"/duckdb-*.whl -d "$staging/unpacked"
    printf '%s\n' "$mark" >"$staging/unpacked/FETCHED"
    rm -rf build/duckdb
    mv "$staging/unpacked" build/duckdb
else
    say "no wheel of DuckDB for $(python3 --version) on $(uname -m): the bench tpch cannot run ($(tail -n 1 "$staging/log"))"
fi
rm -rf "$staging"
