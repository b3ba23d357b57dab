#!/usr/bin/env bash
# For `cargo xtask dax` and `power-cut`: QEMU and the tools of its guest by apt, and Debian's kernel, which is unpacked under build/dax and
# never installed. Quick and silent when all is in place.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ "$(uname -m)" = x86_64 ] || die "a virtual NVDIMM is an x86-64 machine's; this is $(uname -m)"
scripts/setup-packages.sh qemu-system-x86 busybox-static ndctl e2fsprogs xfsprogs cpio
[ ! -e build/dax/kernel/modules/drivers/block ] || exit 0

# The metapackage depends on the newest kernel that the archive has.
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || die "apt knows no linux-image-amd64: run apt-get update"
staging=$PWD/build/dax/new
rm -rf "$staging"
mkdir -p "$staging/unpacked"
say "fetching $kernel, the kernel of a virtual machine"
# apt's own user may not write here.
(cd "$staging" && apt-get download -qq -o APT::Sandbox::User=root "$kernel") ||
    { as_root apt-get update -qq && cd "$staging" && apt-get download -qq -o APT::Sandbox::User=root "$kernel"; }
dpkg-deb -x "$staging"/linux-image-*.deb "$staging/unpacked"
mkdir -p "$staging/kernel/modules"
mv "$staging"/unpacked/boot/vmlinuz-* "$staging/kernel/vmlinuz"
# Of 400 MB of modules only folders that the guest loads from.
target=$staging/kernel/modules
(cd "$staging"/unpacked/lib/modules/*/kernel &&
    cp -r --parents crypto lib fs/mbcache.ko fs/jbd2 fs/ext4 fs/xfs drivers/nvdimm drivers/acpi drivers/virtio drivers/block/virtio_blk.ko "$target")
rm -rf build/dax/kernel
mv "$staging/kernel" build/dax/kernel
rm -rf "$staging"
