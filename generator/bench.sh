#!/bin/bash
# bench.sh [ROUNDS] - compare our generator with upstream's ds-identify under dash on the same roots: wall time of
# the whole process (the best of ROUNDS; medians are printed), peak memory, child processes, and the growth of the
# time with the number of devices.
# BIN is the directory with the release binary. Needs the network once, for Debian's package; 500 loop
# devices need root. Exits with 1 if a limit is exceeded.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../tests/lib/common.sh"
need dash=dash strace=strace perl=perl python3=python3 mkfs.ext4=e2fsprogs losetup=util-linux
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
# Removes the loop devices, including their nodes (LOOP_CTL_REMOVE).
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
# commands take turns, so that the machine's other work hits both. ROOT has the results. Started with
# posix_spawn(3), which the C library does without copying the starter's page tables: those of this process are not needed.
milliseconds() {
  python3 - "$rounds" "$@" <<'PY' 2>/dev/null
import os, statistics, sys, time
rounds, root, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
commands = [[]]
for word in words:
    if word == "--":
        commands.append([])
    else:
        commands[-1].append(word)
env = dict(os.environ, SYSTEMD_VIRTUALIZATION="vm:kvm")
quiet = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
times = [[] for _ in commands]
for _ in range(rounds):
    for command, own in zip(commands, times):
        for name in (".ds-identify.result", "cloud.cfg", "ds-identify.log"):
            try:
                os.unlink(f"{root}/run/cloud-init/{name}")
            except OSError:
                pass
        begun = time.perf_counter()
        pid = os.posix_spawnp(command[0], command, env, file_actions=quiet)
        os.waitpid(pid, 0)
        own.append((time.perf_counter() - begun) * 1000)
print(*(f"{min(own):.3f} {statistics.median(own):.3f}" for own in times))
PY
}

# bar NAME VALUE MAX
bar() {
  awk -v n="$1" -v v="$2" -v m="$3" 'BEGIN { ok = v <= m; printf "%-58s %10.3f  at most %-8s %s\n", n, v, m, ok ? "ok" : "MISSED"; exit !ok }' || failed=1
}

machine() { mkdir -p "$work/$1"/{run/systemd,etc/cloud,sys/class/dmi/id,proc}; echo quiet >"$work/$1/proc/cmdline"; }
machine dmi
echo 'Google Compute Engine' >"$work/dmi/sys/class/dmi/id/product_name"
echo 'datasource_list: [ Azure, Bigstep, CloudSigma, CloudStack, DigitalOcean, Vultr, AliYun, Ec2, GCE, VMware,
  Scaleway, Hetzner, Oracle, Exoscale, UpCloud, LXD, NWCS, Akamai, None ]' | tr -d '\n' >"$work/dmi/etc/cloud/cloud.cfg"
# Only the paths are redirected, not the root, so that both programs read the files directly, as at a boot.
dmi=(PATH_ROOT= "PATH_SYS_CLASS_DMI_ID=$work/dmi/sys/class/dmi/id" "PATH_ETC_CLOUD=$work/dmi/etc/cloud"
  "PATH_RUN=$run/run" PATH_DI_CONFIG=/nowhere PATH_VAR_LIB_CLOUD=/nowhere)
read -r us median them their_median < <(export "${dmi[@]}"; milliseconds "$run" "$work/ds-identify" -- dash "$theirs")
echo "dmi: ours $us ms (median $median), upstream's under dash $them ms ($their_median)"
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
on_root() { PATH_ROOT='' milliseconds "$run" "$@"; }
if more 10; then
  read -r ten median them their_median < <(on_root "$work/ds-identify" -- dash "$theirs")
  echo "labels on 10 devices: ours $ten ms (median $median), upstream's under dash $them ms ($their_median)"
  bar 'labels: ours / upstream'"'s" "$(awk -v a="$ten" -v b="$them" 'BEGIN { print a / b }')" 0.167
  rm -rf "$run/run/cloud-init"
  peak=$(PATH_ROOT='' perl -e '
    system { $ARGV[0] } @ARGV; my $usage = "\0" x 144;
    syscall(98, -1, $usage); print +(unpack "q*", $usage)[4]' "$work/ds-identify" 2>/dev/null)    # getrusage(2)
  bar 'peak memory, KiB' "$peak" 2560
fi
if more 500; then
  read -r many median < <(on_root "$work/ds-identify")
  echo "labels on 500 devices: ours $many ms (median $median)"
  bar 'labels: 500 devices / 10' "$(awk -v a="$many" -v b="$ten" 'BEGIN { print a / b }')" 15
else
  echo "only ${#loops[@]} loop devices can be had here: their number's cost is not measured"
  failed=1
fi
exit $failed
