#!/usr/bin/env bash
# Installs, by apt, the libraries and tools that are missing: libpmem2, pkg-config, what the benchmarks use, what the
# unpacked MariaDB links against and what its test driver runs on; and the packages that it is given. Does nothing, and asks
# for no root, when all are there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

packages=(
    libpmem2-dev pkg-config make python3 xz-utils unzip ca-certificates     # build and data
    libpmemobj-dev sysbench redis-server redis-tools etcd-server            # peers and a driver of the benchmarks
    libaio1 liburing2 libnuma1 libpcre2-8-0 libpcre2-posix3 libedit2        # the unpacked server and clients
    libncurses6 libssl3 libsystemd0 libssl-dev zlib1g-dev
    iproute2 nftables util-linux faketime                                   # faults of perdura-kv's network and clocks
    chromium                                                                # shows perdura-kv's page to its test
    perl libdbi-perl procps patch                                           # mysql-test-run
    elfutils                                                                # stacks of a test that hangs
)
packages+=("$@")
command -v pip3 >/dev/null || packages+=(python3-pip)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v go >/dev/null || packages+=(golang-go)                           # a client of perdura-kv

# Debian's newer releases rename a library when its ABI grows (libaio1 -> libaio1t64): take the name apt knows.
known_name() {
    local name
    for name in "$1" "$1t64"; do
        if apt-cache show "$name" >/dev/null 2>&1; then printf '%s\n' "$name"; return; fi
    done
    printf '%s\n' "$1"
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for package in "${packages[@]}"; do
    installed "$package" || installed "${package}t64" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || die "not a Debian machine (no apt-get): install by hand: ${missing[*]}"

policy=/usr/sbin/policy-rc.d
saved=$(mktemp)
had_policy=no
restore_policy() {
    if [ "$had_policy" = yes ]; then as_root cp -p "$saved" "$policy"; else as_root rm -f "$policy"; fi
    rm -f "$saved"
}

say "installing ${missing[*]}"
# A third-party archive that does not answer is no reason to stop: what counts is whether the packages are found.
as_root apt-get update -qq || say "apt-get update reported an error; going on with the lists at hand"
names=()
for package in "${missing[@]}"; do names+=("$(known_name "$package")"); done

if [ -e "$policy" ]; then had_policy=yes; cp -p "$policy" "$saved"; fi
trap restore_policy EXIT
printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
as_root chmod 755 "$policy"
as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
    apt-get install -y -qq --no-install-recommends "${names[@]}" >/dev/null
