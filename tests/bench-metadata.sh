#!/bin/bash
# bench-metadata.sh [ROUNDS [LATENCY]] - how long the newest packaged cloud-init and ours take to read the metadata of clouds
# whose server is LATENCY milliseconds away (10, there and back), and how many requests each makes. Ours may take a fifth of
# the time for a tree of directories, and no more requests. Needs root. BIN is the directory with the release binaries. With
# FIRSTLIGHT_LOG=1 the requests are printed, with their times and the connection of each.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/lib/common.sh"
need_root
need dnsmasq=dnsmasq-base ip=iproute2 python3=python3
top=$(cd "$lib/../.." && pwd)
BIN=$(readlink -f "${BIN:-$top/build/bin}")
export BIN
[ -x "$BIN/cloud-init-local" ] || die "no binaries in $BIN: run \"make release\""
root=$("$lib/root" "${FIRSTLIGHT_REFERENCE_SUITE:-sid}" cloud-init iproute2)
cargo=${CARGO:-cargo}
(cd "$top" && ${RUN:-} "$cargo" build -q --release -p tests --bin bench-metadata)
"${CARGO_TARGET_DIR:-$top/target}/release/bench-metadata" "$root" "${1:-3}" "${2:-10}"
