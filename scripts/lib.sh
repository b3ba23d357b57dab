# Shared by the set-up scripts: messages, checks of tools and of room. Sourced, from the top of the checkout.

PERDURA_DIR_DEFAULT=/dev/shm/perdura
RUST_LEAST=1.88
GXX_LEAST=12
ROOM_MIB_LEAST=${ROOM_MIB_LEAST:-4096}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo -- "$@"
    else die "this step needs root: run 'make setup' as root or install sudo ($*)"
    fi
}

# True when version $1 is at least version $2.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

check_rust() {
    command -v cargo >/dev/null || die "cargo is missing: install Rust $RUST_LEAST or newer (rustup, stable)"
    local found
    found=$(rustc --version | awk '{print $2}')
    version_at_least "$found" "$RUST_LEAST" || die "Rust $found is too old: $RUST_LEAST or newer is needed"
}

check_compiler() {
    local compiler=${CXX:-g++} found
    command -v "$compiler" >/dev/null || die "$compiler is missing: install g++ $GXX_LEAST or newer"
    found=$("$compiler" -dumpfullversion 2>/dev/null || "$compiler" -dumpversion)
    version_at_least "$found" "$GXX_LEAST" || die "$compiler $found is too old: $GXX_LEAST or newer is needed"
}

# The directory pools and test servers live in must be writable and have room; $1 need not exist yet.
check_room() {
    local dir=$1 existing=$1 free_mib medium
    while [ ! -e "$existing" ]; do existing=$(dirname "$existing"); done
    [ -d "$existing" ] || die "PERDURA_DIR=$dir: $existing is not a directory"
    [ -w "$existing" ] || die "PERDURA_DIR=$dir: $existing is not writable by $(id -un)"
    free_mib=$(df --output=avail -B 1M "$existing" | tail -n 1 | tr -d ' ')
    medium=$(df --output=fstype "$existing" | tail -n 1 | tr -d ' ')
    [ "$free_mib" -ge "$ROOM_MIB_LEAST" ] || die "PERDURA_DIR=$dir has $free_mib MiB free ($medium), $ROOM_MIB_LEAST MiB are needed: free some, or name another directory with PERDURA_DIR=..."
    say "PERDURA_DIR=$dir: $free_mib MiB free, $medium"
}
