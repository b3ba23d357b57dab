# Fetches the source of a MariaDB from the machine's own archives. Sourced, by the set-up and by the package's `perdura-plugin`; whoever sources it
# has `die`, and has set apt_dir to a directory for apt's lists. Neither /etc nor the machine's package state is written.

apt_get() { apt-get -qq -c "$apt_dir/apt.conf" "$@"; }

# The machine's Debian archives as one-line sources, each once with its sources beside it.
write_apt_configuration() {
    mkdir -p "$apt_dir/lists/partial"
    apt-get indextargets --format '$(REPO_URI)|$(BASE_URI)|$(COMPONENT)|$(SIGNED_BY)|$(TRUSTED)|$(ORIGIN)' \
        'Created-By: Packages' | grep -E '\|(Debian|Ubuntu)$' | sort -u \
        | while IFS='|' read -r repo base component key trusted _; do
            options=
            case $key in /*) options="signed-by=$key" ;; esac
            [ "$trusted" != yes ] || [ -n "$options" ] || options="trusted=yes"
            suite=${base#"$repo"dists/}
            for kind in deb deb-src; do
                printf '%s %s%s %s %s\n' "$kind" "${options:+[$options] }" "$repo" "${suite%/}" "$component"
            done
        done >"$apt_dir/sources.list"
    [ -s "$apt_dir/sources.list" ] || die "no Debian archive is configured in apt: see /etc/apt/sources.list"
    cat >"$apt_dir/apt.conf" <<CONF
Dir::State::lists "$apt_dir/lists";
Dir::Etc::sourcelist "$apt_dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Update::Post-Invoke "";
CONF
    apt_get update
}

# Unpacks, of version $1 downloaded to $2, what a storage engine includes into $3; `generated` holds the one header that the server's build makes
# and no package has.
unpack_headers() {
    local version=$1 headers=$3 tarball root
    tarball=$(echo "$2"/mariadb_*.orig.tar.*z)
    root=$(tar -tf "$tarball" | sed -n '1s,/.*,,p')
    rm -rf "$headers.new"
    mkdir -p "$headers.new/generated"
    tar -x -C "$headers.new" --strip-components=1 -f "$tarball" \
        "$root/include" "$root/libservices" "$root/wsrep-lib/include" "$root/wsrep-lib/wsrep-API"
    tar -x -C "$headers.new" --strip-components=1 --wildcards -f "$tarball" "$root/sql/*.h"
    cp "$headers.new/include/probes_mysql_nodtrace.h.in" "$headers.new/generated/probes_mysql_nodtrace.h"
    printf '%s\n' "$version" >"$headers.new/DEBIAN_VERSION"
    rm -rf "$headers"
    mv "$headers.new" "$headers"
}
