#!/bin/bash
# bench.sh [ROUNDS] - our generator and upstream's ds-identify under dash on the same roots: wall time of the
# whole process (the best of ROUNDS), peak memory, child processes; and how the time grows with devices.
# BIN is the directory with the release binary. Needs the network once, for Debian's package; 500 loop
# devices need root. Exits with 1 when a bar is not reached.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../tests/lib/common.sh"
need dash=dash strace=strace perl=perl mkfs.ext4=e2fsprogs blkid=util-linux
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
BIN=$(readlink -f "${BIN:-$here/../build/bin}")
ours=$BIN/cloud-init-generator rounds=${1:-30} failed=0
[ -x "$ours" ] || die "no $ours: run \"make release\""
theirs=$("$here/tests/fetch" "${FIRSTLIGHT_SUITE:-sid}")
work=$(mktemp -d "$cache/identify-bench.XXXXXX")
loops=()
trap 'for l in "${loops[@]}"; do losetup -d "$l"; done 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
ln -s "$ours" "$work/ds-identify"

# milliseconds ROOT COMMAND...: the best of the rounds, each as the first run of a boot
milliseconds() {
  PATH_ROOT=$1 perl -MTime::HiRes=time -e '
    my ($rounds, $root, @command) = @ARGV; my $best = 1e9;
    $ENV{SYSTEMD_VIRTUALIZATION} = "vm:kvm";
    for (1 .. $rounds) {
      unlink "$root/run/cloud-init/$_" for ".ds-identify.result", "cloud.cfg", "ds-identify.log";
      my $t = time; system { $command[0] } @command; $t = (time - $t) * 1000;
      $best = $t if $t < $best;
    }
    printf "%.3f\n", $best' "$rounds" "$@" 2>/dev/null
}

# bar NAME VALUE MOST
bar() {
  awk -v n="$1" -v v="$2" -v m="$3" 'BEGIN { ok = v <= m; printf "%-58s %10.3f  at most %-8s %s\n", n, v, m, ok ? "ok" : "MISSED"; exit !ok }' || failed=1
}

machine() { mkdir -p "$work/$1"/{run/systemd,etc/cloud,sys/class/dmi/id,proc}; echo quiet >"$work/$1/proc/cmdline"; }
machine dmi
echo 'Google Compute Engine' >"$work/dmi/sys/class/dmi/id/product_name"
echo 'datasource_list: [ GCE, Ec2, None ]' >"$work/dmi/etc/cloud/cloud.cfg"
machine label
echo 'datasource_list: [ NoCloud, ConfigDrive, None ]' >"$work/label/etc/cloud/cloud.cfg"
# The host's own devices, as upstream's blkid sees them.
mkdir -p "$work/label/dev"
for sys in /sys/class/block/*; do
  name=${sys##*/}
  [ -b "/dev/$name" ] || continue
  mkdir -p "$work/label/sys/class/block/$name"
  cat "$sys/size" >"$work/label/sys/class/block/$name/size"
  cp -a "/dev/$name" "$work/label/dev/"
done

for what in dmi label; do
  us=$(milliseconds "$work/$what" "$work/ds-identify")
  them=$(milliseconds "$work/$what" dash "$theirs")
  echo "$what: ours $us ms, upstream's under dash $them ms"
  [ "$what" = dmi ] && most=0.1 || most=0.167
  bar "$what: ours / upstream's" "$(awk -v a="$us" -v b="$them" 'BEGIN { print a / b }')" "$most"
done
rm -rf "$work/dmi/run/cloud-init"
children=$(PATH_ROOT=$work/dmi SYSTEMD_VIRTUALIZATION=vm:kvm strace -f -e trace=execve,fork,vfork "$work/ds-identify" 2>&1 | grep -cE 'execve|fork' || :)
bar 'child processes' $((children - 1)) 0
rm -rf "$work/label/run/cloud-init"
peak=$(PATH_ROOT=$work/label SYSTEMD_VIRTUALIZATION=vm:kvm perl -e '
  system { $ARGV[0] } @ARGV; require "syscall.ph" if 0;
  open my $f, "<", "/proc/self/status"; my $usage = "\0" x 144;
  syscall(98, -1, $usage); print +(unpack "q*", $usage)[4]' "$work/ds-identify" 2>/dev/null)
bar 'peak memory, KiB' "$peak" 2560
bar 'size of the stripped file, bytes' "$(strip -o "$work/stripped" "$ours" && stat -c %s "$work/stripped")" 1700000

if [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; then
  truncate -s 1M "$work/image"
  mkfs.ext4 -q -L x "$work/image"
  grow() {
    machine "loops$1"
    mkdir -p "$work/loops$1/dev"
    cp "$work/label/etc/cloud/cloud.cfg" "$work/loops$1/etc/cloud/"
    local loop
    for loop in "${loops[@]:0:$1}"; do
      mkdir -p "$work/loops$1/sys/class/block/${loop##*/}"
      echo 2048 >"$work/loops$1/sys/class/block/${loop##*/}/size"
      cp -a "$loop" "$work/loops$1/dev/"
    done
    milliseconds "$work/loops$1" "$work/ds-identify"
  }
  while [ ${#loops[@]} -lt 500 ]; do loops+=("$(losetup --show -r -f "$work/image")") || break; done
  if [ ${#loops[@]} = 500 ]; then
    ten=$(grow 10) many=$(grow 500)
    echo "loop devices: 10 in $ten ms, 500 in $many ms"
    bar '500 loop devices / 10' "$(awk -v a="$many" -v b="$ten" 'BEGIN { print a / b }')" 15
  else
    echo "loop devices: only ${#loops[@]} can be had here: not measured"; failed=1
  fi
else
  echo 'loop devices: none can be had here: not measured'; failed=1
fi
exit $failed
