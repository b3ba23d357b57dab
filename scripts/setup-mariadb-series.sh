#!/usr/bin/env bash
# Unpacks the MariaDB of a series that the machine's own Debian does not have (SERVER=11.8) under build/mariadb-SERIES, with the libraries that it
# runs on, and the headers of exactly its source under build/mariadb-src-SERIES.
#
# The version is the newest one whose packages and source can both be downloaded: what the archive offers, then those known to be kept in its pool.
# Programs of that server are started by the dynamic linker of their own Debian, so the machine needs none of its packages. Ends with 3 if there is
# no such version, which is for the archive to mend.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/mariadb-source.sh

series=$1
case $series in
    11.8) suite=trixie kept="1:11.8.6-0+deb13u1" ;;
    *) die "SERVER=$series: only 11.8 is known beside the MariaDB of this machine's Debian" ;;
esac
top=$PWD
apt_dir=$top/build/apt-$series
downloads=$top/build/downloads-$series
server=build/mariadb-$series
headers=build/mariadb-src-$series
packages=(
    mariadb-server-core mariadb-server mariadb-client-core mariadb-client mariadb-common libmariadb3
    libmariadb-dev libmariadbd-dev mariadb-test mariadb-test-data
)
libraries=(
    libc6 libstdc++6 libgcc-s1 libssl3t64 zlib1g liblz4-1 liblzma5 libzstd1 libpcre2-8-0 libnuma1 liburing2 libsystemd0 libcap2 libcrypt1
    libaio1t64 libsnappy1v5 libfmt10 libncurses6 libtinfo6 libedit2 libbsd0 libmd0
)

[ ! -f "$server/DEBIAN_VERSION" ] || [ ! -f "$headers/DEBIAN_VERSION" ] || exit 0

archive=$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)' 'Created-By: Packages' | awk -F'|' '$2 == "Debian" && $1 !~ /security/ {print $1; exit}')
[ -n "$archive" ] || die "no Debian archive is configured in apt: see /etc/apt/sources.list"

configure_apt() {
    mkdir -p "$apt_dir/lists/partial"
    printf 'deb [trusted=yes] %s %s main\n' "$archive" "$suite" >"$apt_dir/sources.list"
    cat >"$apt_dir/apt.conf" <<CONF
Dir::State::lists "$apt_dir/lists";
Dir::Etc::sourcelist "$apt_dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
APT::Update::Post-Invoke "";
CONF
    apt_get update
}

# Downloads file $1 of the pool of MariaDB's packages.
fetch() { curl -sSf --retry 3 -o "$downloads/${1//%2b/+}" "${archive%/}/pool/main/m/mariadb/$1"; }

# Downloads the source and all packages of version $1; fails when any of them cannot be had.
download() {
    local version=${1#*:} package
    local upstream=${version%-*} pool=${version//+/%2b}
    fetch "mariadb_${upstream//+/%2b}.orig.tar.gz" || fetch "mariadb_${upstream//+/%2b}.orig.tar.xz" || return 1
    for package in "${packages[@]}"; do
        fetch "${package}_${pool}_amd64.deb" || fetch "${package}_${pool}_all.deb" || return 1
    done
}

# Has program $1 started by the linker of its own Debian; $2 is the way from it to the top.
wrap() {
    local dir=${1%/*} name=${1##*/}
    mkdir -p "$dir/.elf"
    mv "$1" "$dir/.elf/$name"
    printf '#!/bin/sh\nd=${0%%/*}\nr=$d/%s/runtime\nexec "$r/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$r" "$d/.elf/%s" "$@"\n' "$2" "$name" >"$1"
    chmod +x "$1"
}

is_program() { [ -f "$1" ] && [ ! -L "$1" ] && [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

unpack_server() {
    local new=$server.new deb file
    rm -rf "$new"
    mkdir -p "$new/runtime" "$downloads/libraries"
    for deb in "$downloads"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$new" --exclude='*-embedded' --exclude='*_embedded' --exclude='*/libmariadbd.a' \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='*/suite/galera*' --exclude='*/suite/wsrep' --exclude='*/plugin/wsrep_info'
    done
    (cd "$downloads/libraries" && apt_get download "${libraries[@]}")
    for deb in "$downloads"/libraries/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$new/runtime" --strip-components=4 --wildcards './usr/lib/x86_64-linux-gnu/*'
    done
    for file in "$new"/usr/bin/* "$new"/usr/sbin/*; do
        if is_program "$file"; then wrap "$file" ../..; fi
    done
    wrap "$new/usr/share/mariadb/mariadb-test/lib/My/SafeProcess/my_safe_process" ../../../../../../..
    printf '%s\n' "$1" >"$new/DEBIAN_VERSION"
    rm -rf "$server"
    mv "$new" "$server"
}

configure_apt
offered=$(apt-cache -c "$apt_dir/apt.conf" madison mariadb-server-core | awk -F ' *\\| *' '{print $2}' | uniq)
for version in $offered $kept; do
    say "trying MariaDB $version"
    rm -rf "$downloads"
    mkdir -p "$downloads"
    if download "$version" 2>"$top/build/downloads-$series.log"; then
        unpack_server "$version"
        unpack_headers "$version" "$downloads" "$headers"
        rm -rf "$downloads" "$apt_dir/lists"
        say "MariaDB $version in $server"
        exit 0
    fi
    say "MariaDB $version cannot be had whole ($(tail -n 1 "$top/build/downloads-$series.log"))"
done
(die "no version of MariaDB $series has both packages and source in $archive, so its tests cannot run: try again later, or with another archive") || exit 3
