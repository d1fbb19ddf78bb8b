#!/bin/bash
# bench.sh [ROUNDS [BOOTS]] - the newest packaged cloud-init and ours side by side: the same seed, the same
# kind of root, the same measuring. Prints figures, ratios and the bars that they must reach; exits with 1
# when one is not reached. Needs root. BIN is the directory with the release binaries.
#   ROUNDS  how often each stage is measured (9)
#   BOOTS   how often each container is booted (5)
#   FIRSTLIGHT_BENCH=large|growth|stages  only the part with large user-data, only that of ten times the input, or
#                    all but the former
#   FIRSTLIGHT_REFERENCE_SUITE  the Debian release with the packaged cloud-init (the newest that the mirror has)
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/lib/common.sh"
need_root
need strace=strace time=time systemd-nspawn=systemd-container
top=$(cd "$lib/../.." && pwd)
BIN=$(readlink -f "${BIN:-$top/build/bin}")
[ -x "$BIN/cloud-init-generator" ] || die "no binaries in $BIN: run \"make release\""

peer=''
for suite in ${FIRSTLIGHT_REFERENCE_SUITE:-sid forky trixie}; do
  if peer=$("$lib/root" "$suite" cloud-init cloud-guest-utils); then break; fi
  echo "bench: $suite is not available from the mirror" >&2
done
[ -n "$peer" ] || die "no Debian release can be had from the mirror"
bare=$("$lib/root" "$suite")
work=$(mktemp -d "$cache/bench.XXXXXX")
finish() {
  umount -l "$work/disk" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
# A file system of its own: ext4 examines every inode that was freed in the last minutes before it reuses one, and what
# an earlier run removed made the next one's large user-data cost up to 2.7 times as much.
mkdir "$work/disk"
truncate -s 16G "$work/disk.img"
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$work/disk.img"
mount -o loop "$work/disk.img" "$work/disk"
# Stripped, as packages install them.
make -s -C "$top" install BIN="$BIN" DESTDIR="$work/tree" FAMILY=debian STRIP=strip >&2
# A merged-/usr root: nothing may go to a real /lib.
[ ! -e "$work/tree/lib" ] || die "make install made a /lib"
# The root without cloud-init gets a network configuration and a host key, as an image without cloud-init has them.
mkdir -p "$work/static/etc/ssh" "$work/static/etc/systemd/network"
ssh-keygen -q -t ed25519 -N '' -f "$work/static/etc/ssh/ssh_host_ed25519_key"
printf '[Match]\nName=e*\n[Network]\nAddress=192.0.2.10/24\nGateway=192.0.2.1\n' \
  >"$work/static/etc/systemd/network/10-cloud-init-eth0.network"

cargo=${CARGO:-cargo}
(cd "$top" && ${RUN:-} "$cargo" build -q --release -p tests --bin bench)
bench=${CARGO_TARGET_DIR:-$top/target}/release/bench
mkdir "$work/disk/memory"
mv "$work/tree" "$work/static" "$work/disk"
unshare --mount --net --uts --propagation private bash -c 'ip link set lo up && mount -t tmpfs tmpfs "$5/memory" &&
    exec "$@"' bench \
  "$bench" "$suite" "$peer" "$bare" "$work/disk" "$lib/../seeds/bench" "${1:-9}" "${2:-5}"
