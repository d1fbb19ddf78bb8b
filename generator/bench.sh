#!/bin/bash
# bench.sh [ROUNDS] - our generator and upstream's ds-identify under dash on the same roots: wall time of the
# whole process (the best of ROUNDS), peak memory, child processes; and how the time grows with devices.
# BIN is the directory with the release binary. Needs the network once, for Debian's package; 500 loop
# devices need root. Exits with 1 when a bar is not reached.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../tests/lib/common.sh"
need dash=dash strace=strace perl=perl mkfs.ext4=e2fsprogs losetup=util-linux
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
BIN=$(readlink -f "${BIN:-$here/../build/bin}")
ours=$BIN/cloud-init-generator rounds=${1:-30} failed=0
[ -x "$ours" ] || die "no $ours: run \"make release\""
theirs=$("$here/tests/fetch" "${FIRSTLIGHT_SUITE:-sid}")
work=$(mktemp -d "$cache/identify-bench.XXXXXX")
# Results go to a tmpfs, as at a boot.
for run in /run /dev/shm; do
  [ "$(stat -f -c %T "$run")" = tmpfs ] && [ -w "$run" ] && break
done
run=$(mktemp -d "$run/identify-bench.XXXXXX")
loops=()
before=0
# What was set up goes away again, also the nodes that the kernel made for it (LOOP_CTL_REMOVE).
tidy() {
  local loop
  for loop in "${loops[@]}"; do
    losetup -d "$loop" || :
    [ "${loop#/dev/loop}" -lt "$before" ] ||
      perl -e 'open my $f, "+<", "/dev/loop-control" or exit; ioctl $f, 0x4c81, int $ARGV[0]' "${loop#/dev/loop}"
  done 2>/dev/null
  rm -rf --one-file-system "$work" "$run"
}
trap tidy EXIT
ln -s "$ours" "$work/ds-identify"

# milliseconds ROOT COMMAND... [-- COMMAND...]: the best of the rounds, each as the first run of a boot; two
# commands take turns, so that the machine's other work hits both. ROOT has the results.
milliseconds() {
  perl -MTime::HiRes=time -e '
    my ($rounds, $root, @words) = @ARGV;
    my @commands = ([]);
    $_ eq "--" ? push @commands, [] : push @{$commands[-1]}, $_ for @words;
    my @best = map { 1e9 } @commands;
    $ENV{SYSTEMD_VIRTUALIZATION} = "vm:kvm";
    for (1 .. $rounds) {
      for my $i (0 .. $#commands) {
        unlink "$root/run/cloud-init/$_" for ".ds-identify.result", "cloud.cfg", "ds-identify.log";
        my @command = @{$commands[$i]};
        my $t = time; system { $command[0] } @command; $t = (time - $t) * 1000;
        $best[$i] = $t if $t < $best[$i];
      }
    }
    printf "%.3f ", $_ for @best;' "$rounds" "$@" 2>/dev/null
}

# bar NAME VALUE MOST
bar() {
  awk -v n="$1" -v v="$2" -v m="$3" 'BEGIN { ok = v <= m; printf "%-58s %10.3f  at most %-8s %s\n", n, v, m, ok ? "ok" : "MISSED"; exit !ok }' || failed=1
}

machine() { mkdir -p "$work/$1"/{run/systemd,etc/cloud,sys/class/dmi/id,proc}; echo quiet >"$work/$1/proc/cmdline"; }
machine dmi
echo 'Google Compute Engine' >"$work/dmi/sys/class/dmi/id/product_name"
echo 'datasource_list: [ Azure, Bigstep, CloudSigma, CloudStack, DigitalOcean, Vultr, AliYun, Ec2, GCE, VMware,
  Scaleway, Hetzner, Oracle, Exoscale, UpCloud, LXD, NWCS, Akamai, None ]' | tr -d '\n' >"$work/dmi/etc/cloud/cloud.cfg"
# Its files stand where a boot has them as far as both programs go: no root to follow links below.
dmi=(PATH_ROOT= "PATH_SYS_CLASS_DMI_ID=$work/dmi/sys/class/dmi/id" "PATH_ETC_CLOUD=$work/dmi/etc/cloud"
  "PATH_RUN=$run/run" PATH_DI_CONFIG=/nowhere PATH_VAR_LIB_CLOUD=/nowhere)
read -r us them < <(export "${dmi[@]}"; milliseconds "$run" "$work/ds-identify" -- dash "$theirs"; echo)
echo "dmi: ours $us ms, upstream's under dash $them ms"
bar 'a verdict by DMI: ours / upstream'"'s" "$(awk -v a="$us" -v b="$them" 'BEGIN { print a / b }')" 0.1
rm -rf "$work/dmi/run/cloud-init"
children=$(PATH_ROOT=$work/dmi SYSTEMD_VIRTUALIZATION=vm:kvm strace -f -e trace=execve,fork,vfork "$work/ds-identify" 2>&1 | grep -cE 'execve|fork' || :)
bar 'child processes' $((children - 1)) 0
bar 'size of the stripped file, bytes' "$(strip -o "$work/stripped" "$ours" && stat -c %s "$work/stripped")" 1700000

if [ "$(id -u)" != 0 ] || ! losetup -f >/dev/null 2>&1; then
  echo 'loop devices: none can be had here: labels are not measured'
  exit 1
fi
# Labels on real devices, below the machine's own root as at a boot: only configuration and results are elsewhere.
truncate -s 2M "$work/image"
mkfs.ext4 -q -O ^has_journal -L x "$work/image"
before=$(ls -d /sys/class/block/loop* | wc -l)
# Debian's list: most of its datasources ask for a label or the firmware.
mkdir -p "$work/etc"
echo 'datasource_list: [ NoCloud, ConfigDrive, OpenNebula, DigitalOcean, Azure, AltCloud, OVF, MAAS, GCE, OpenStack,
  CloudSigma, SmartOS, Bigstep, Scaleway, AliYun, Ec2, CloudStack, Hetzner, IBMCloud, Oracle, Exoscale, RbxCloud,
  UpCloud, VMware, Vultr, LXD, NWCS, Akamai, WSL, None ]' | tr -d '\n' >"$work/etc/cloud.cfg"
export PATH_ETC_CLOUD=$work/etc PATH_RUN=$run/run PATH_DI_CONFIG=/nowhere PATH_VAR_LIB_CLOUD=/nowhere
more() {
  while [ ${#loops[@]} -lt "$1" ]; do loops+=("$(losetup --show -r -f "$work/image")") || return; done
}
on_root() { PATH_ROOT='' milliseconds "$run" "$@"; echo; }
if more 10; then
  read -r ten them < <(on_root "$work/ds-identify" -- dash "$theirs")
  echo "labels on 10 devices: ours $ten ms, upstream's under dash $them ms"
  bar 'labels: ours / upstream'"'s" "$(awk -v a="$ten" -v b="$them" 'BEGIN { print a / b }')" 0.167
  rm -rf "$run/run/cloud-init"
  peak=$(PATH_ROOT='' perl -e '
    system { $ARGV[0] } @ARGV; my $usage = "\0" x 144;
    syscall(98, -1, $usage); print +(unpack "q*", $usage)[4]' "$work/ds-identify" 2>/dev/null)    # getrusage(2)
  bar 'peak memory, KiB' "$peak" 2560
fi
if more 500; then
  many=$(on_root "$work/ds-identify")
  echo "labels on 500 devices: ours $many ms"
  bar 'labels: 500 devices / 10' "$(awk -v a="$many" -v b="$ten" 'BEGIN { print a / b }')" 15
else
  echo "only ${#loops[@]} loop devices can be had here: their number's cost is not measured"
  failed=1
fi
exit $failed
