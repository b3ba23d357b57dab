#!/usr/bin/env bash
# Unpacks a MariaDB of our own under build/mariadb and the headers of exactly its source under build/mariadb-src.
#
# The version is the newest one whose source really downloads: a security archive may serve a binary whose source is
# gone, and a plugin built from other headers is refused by the server. A project-local apt configuration is used, with
# the machine's own archives plus their sources, so neither /etc nor the machine's package state is written.
# PERDURA_MARIADB_VERSION=... pins a version.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/mariadb-source.sh

top=$PWD
apt_dir=$top/build/apt
downloads=$top/build/downloads
packages=(
    mariadb-server-core mariadb-server mariadb-client-core mariadb-client mariadb-common libmariadb3
    libmariadb-dev libmariadbd-dev mariadb-test mariadb-test-data
)

# Done already, at the wanted version?
if [ -f build/mariadb/DEBIAN_VERSION ] && [ -f build/mariadb-src/DEBIAN_VERSION ] \
    && [ "$(cat build/mariadb/DEBIAN_VERSION)" = "$(cat build/mariadb-src/DEBIAN_VERSION)" ]; then
    [ -n "${PERDURA_MARIADB_VERSION:-}" ] || exit 0
    [ "$(cat build/mariadb/DEBIAN_VERSION)" != "$PERDURA_MARIADB_VERSION" ] || exit 0
fi

# Versions of the server, newest first.
versions() {
    if [ -n "${PERDURA_MARIADB_VERSION:-}" ]; then printf '%s\n' "$PERDURA_MARIADB_VERSION"; return; fi
    apt-cache -c "$apt_dir/apt.conf" madison mariadb-server-core | awk -F ' *\\| *' '{print $2}' | uniq
}

# Downloads the source and all packages of version $1; fails when any of them cannot be had.
download() {
    local version=$1 package wanted=()
    for package in "${packages[@]}"; do wanted+=("$package=$version"); done
    mkdir -p "$downloads/$version"
    (cd "$downloads/$version" \
        && apt_get source --download-only --only-source "mariadb=$version" \
        && apt_get download "${wanted[@]}") >"$downloads/$version.log" 2>&1
}

# The embedded server's tools, the manuals and the suites of clusters and of RocksDB are never used here.
unpack_server() {
    local version=$1 deb
    rm -rf build/mariadb.new
    mkdir -p build/mariadb.new
    for deb in "$downloads/$version"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C build/mariadb.new \
            --exclude='*-embedded' --exclude='*_embedded' --exclude='*/libmariadbd.a' --exclude='*/libmysqld.a' \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' \
            --exclude='*/mysql-test/suite/galera*' --exclude='*/mysql-test/suite/wsrep' \
            --exclude='*/mysql-test/plugin/wsrep_info' --exclude='*/mysql-test/plugin/rocksdb'
    done
    printf '%s\n' "$version" >build/mariadb.new/DEBIAN_VERSION
    rm -rf build/mariadb
    mv build/mariadb.new build/mariadb
}

mkdir -p "$downloads"
write_apt_configuration
for version in $(versions); do
    say "trying MariaDB $version"
    if download "$version"; then
        say "unpacking MariaDB $version"
        unpack_server "$version"
        unpack_headers "$version" "$downloads/$version" build/mariadb-src
        rm -rf "${downloads:?}/$version" "$apt_dir/lists"
        missing=$(ldd build/mariadb/usr/sbin/mariadbd | awk '/not found/ {print $1}')
        [ -z "$missing" ] || die "libraries of mariadbd are missing on this machine: $missing"
        exit 0
    fi
    say "MariaDB $version cannot be had whole ($(grep -m 1 -E '^(E|Err)' "$downloads/$version.log" || echo 'see its log')); trying the one before"
    rm -rf "${downloads:?}/$version"
done
die "no version of MariaDB in the configured archives has both packages and source; logs are in build/downloads"
