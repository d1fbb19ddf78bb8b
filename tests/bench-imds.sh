#!/bin/bash
# bench-imds.sh [ROUNDS [BOOTS]] - first boots with systemd-imds, ours and the packaged cloud-init on a cloud like EC2, whose
# metadata service has the instance's SSH key. Prints medians, ratios and the bars that they must reach; exits with 1 when one
# is not reached. Needs root. BIN is the directory with the release binaries.
#   ROUNDS                      first boots of each in containers (5): from the start of user space to the key in
#                               authorized_keys
#   BOOTS                       first boots of each in virtual machines (3): from the start of the kernel to the key, and to
#                               the login over SSH
#   FIRSTLIGHT_REFERENCE_SUITE  the suite, which has systemd 261 or newer (forky)
#
# systemd-imds imports the key as a credential, which systemd-tmpfiles writes to root's authorized_keys. Debian's units run
# systemd-tmpfiles first, and import only in an initrd; here the kernel command line enables the import, and a drop-in orders
# the two.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/lib/common.sh"
need_root
need systemd-nspawn=systemd-container dnsmasq=dnsmasq-base python3=python3 ssh-keygen=openssh-client
top=$(cd "$lib/../.." && pwd)
BIN=$(readlink -f "${BIN:-$top/build/bin}")
[ -x "$BIN/cloud-init-local" ] || die "no binaries in $BIN: run \"make release\""
suite=${FIRSTLIGHT_REFERENCE_SUITE:-forky} rounds=${1:-5} boots=${2:-3} mac=02:00:00:00:0a:01
work=$(mktemp -d "$cache/bench-imds.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
ssh-keygen -q -t ed25519 -N '' -C bench -f "$work/key"

# In containers without a token: cloud-init requests one only where the firmware is EC2's, and a container has none.
mkdir -p "$work"/case/{containers,machines}
python3 - "$top/tests/clouds/ec2/server.json" "$work" <<'PYTHON'
import json, sys
served, work = json.load(open(sys.argv[1])), sys.argv[2]
served["tree"]["meta-data"]["public-keys"] = {"0=bench": open(f"{work}/key.pub").read()}
# A t3.micro has no instance store, and mounting one that is missing would fail.
del served["tree"]["meta-data"]["block-device-mapping"]["ephemeral0"]
json.dump(served, open(f"{work}/case/machines/server.json", "w"))
del served["token"]
json.dump(served, open(f"{work}/case/containers/server.json", "w"))
PYTHON

# What an image for EC2 has: the datasource for cloud-init; for systemd-imds the units in order, and a host key.
mkdir -p "$work/ours" "$work"/config/etc/{cloud/cloud.cfg.d,systemd/network/10-cloud-init-eth0.network.d} \
  "$work"/units/etc/{ssh,systemd/{system/systemd-tmpfiles-setup.service.d,network/85-imds-early.network.d}}
make -s -C "$top" install BIN="$BIN" DESTDIR="$work/ours" FAMILY=debian STRIP=strip >&2
printf 'datasource_list: [Ec2]\ndatasource: {Ec2: {strict_id: false}}\nssh_genkeytypes: [ed25519]\n' \
  >"$work/config/etc/cloud/cloud.cfg.d/95_bench.cfg"
printf '[Unit]\nWants=systemd-imds-import.service\nAfter=systemd-imds-import.service\n' \
  >"$work/units/etc/systemd/system/systemd-tmpfiles-setup.service.d/imds.conf"
ssh-keygen -q -t ed25519 -N '' -f "$work/units/etc/ssh/ssh_host_ed25519_key"
# Its network file is for NICs without a kind; a container's is a veth. No router answers here: without IPv6 none of the three waits for one.
printf '[Match]\nKind=\n[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  >"$work/units/etc/systemd/network/85-imds-early.network.d/bench.conf"
printf '[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  >"$work/config/etc/systemd/network/10-cloud-init-eth0.network.d/bench.conf"
# As in an image that has booted before: nothing follows up an update of /usr (ldconfig, the journal's catalog). The bench's
# drop-in orders that after systemd-imds' key, while the other two wait for it on one CPU.
common='systemd.condition_needs_update=no'
imds='systemd.imds=yes systemd.imds.import=yes systemd.imds.network=unlocked'
# The vendor's URLs and keys: systemd's hwdb has them for machines whose firmware says that they are EC2's, which a container's
# does not.
vendor='systemd.imds.vendor=amazon-ec2
  systemd.imds.data_url=http://169.254.169.254/latest systemd.imds.address_ipv4=169.254.169.254
  systemd.imds.key.hostname=/meta-data/hostname systemd.imds.key.ssh_key=/meta-data/public-keys/0/openssh-key
  systemd.imds.key.userdata=/user-data'
# systemd's hwdb knows EC2 by the vendor of the firmware, cloud-init by the serial number and the UUID.
uuid=ec2abc12-3456-7890-abcd-ef0123456789
firmware=(-smbios 'type=0,vendor=Amazon EC2' -smbios "type=1,manufacturer=Amazon EC2,product=t3.micro,serial=$uuid" -uuid "$uuid")

rows=(
  "systemd-imds $("$lib/root" "$suite" systemd-imds) root root"
  "ours $("$lib/root" "$suite") debian home/debian"
  "cloud-init $("$lib/root" "$suite" cloud-init) debian home/debian"
)

# new_machine DIR NAME ROOT CASE: a machine that has not booted, on the network of the folder CASE
new_machine() {
  rm -rf --one-file-system "$1"
  "$lib/container" "$1" new "$3"
  echo "eth0 $mac" >"$1/nics"
  # The address belongs to the NIC: cloud-init's DHCP client and networkd have different client identifiers.
  printf 'exec "%s/metadata-wire" "%s" "$1" "$2" --dhcp-host=%s,10.0.0.60\n' "$lib" "$4" "$mac" >"$1/cloud"
  case $2 in
  systemd-imds) "$lib/container" "$1" put "$work/units" / ;;
  ours)
    "$lib/container" "$1" put "$work/ours" /
    "$lib/container" "$1" put "$work/config" /
    "$lib/container" "$1" run systemctl -q enable cloud-init-{local,network}.service cloud-{config,final}.service
    ;;
  *) "$lib/container" "$1" put "$work/config" / ;;
  esac
}

# boot_container NAME ROOT HOME: prints the milliseconds until the key of a new machine NAME is in authorized_keys below HOME
boot_container() {
  local machine=$work/container out=$work/out
  rm -rf --one-file-system "$out"
  new_machine "$machine" "$1" "$2" "$work/case/containers"
  printf '%s\n' $common $([ "$1" != systemd-imds ] || echo $imds $vendor) >"$machine/init"
  "$lib/container" "$machine" boot "$out" 180 >&2
  python3 - "$machine/upper/$3/.ssh/authorized_keys" "$out/started" <<'PYTHON'
import datetime, os, sys
keys, started = sys.argv[1:]
if "ssh-" not in open(keys).read():
    sys.exit(f"{keys} has no key")
text = open(started).read().strip().removeprefix("UserspaceTimestamp=")
start = datetime.datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=datetime.timezone.utc)
print(round(os.stat(keys).st_mtime * 1000 - start.timestamp() * 1000, 1))
PYTHON
}

# make_disk NAME ROOT: the disk of a virtual machine NAME, in $work/vm-NAME
make_disk() {
  local machine=$work/vm-$1
  new_machine "$machine" "$1" "$2" "$work/case/machines"
  # The tests' own service would take a part of the CPU.
  echo "systemd.mask=firstlight-collect.service $common $([ "$1" != systemd-imds ] || echo "$imds")" >"$machine/words"
  "$lib/vm" "$machine" disk "$suite" >&2
}

# boot_vm NAME USER: prints the seconds until the key is in USER's authorized_keys, and until the login; for ours also how often it
# flushed file systems, and the milliseconds of that. The disk stays as it is, so that each boot is a first one.
boot_vm() {
  local out=$work/vm-$1/out
  set -- "$@" $([ "$1" != ours ] || echo flushes)
  # An emulated machine that is starved ends in timeouts of its system; then the boot is repeated once, and that is printed.
  for _ in 1 2; do
    "$lib/vm" "$work/vm-$1" until "$out" "'$lib/login' '$work/key' $2 10.0.0.60 ${3:-} >'$work/times'" 600 -snapshot "${firmware[@]}" >&2 &&
      cat "$work/times" && return
    echo "$1: no login; requests and the end of the console: $(cat "$out/requests"; tail -n 20 "$out/console")" >&2
  done
  die "$1: no login in two boots"
}

median() { sort -n | awk '{ at[NR] = $1 } END { print at[int((NR + 1) / 2)] }'; }

# limit TEXT FILE FIELD PEER MOST: the ratio of ours and a peer's median, and its bar
limit() {
  awk -v text="$1" -v ours="$(cut -d' ' -f"$3" "$work/ours.$2" | median)" -v peer="$(cut -d' ' -f"$3" "$work/$4.$2" | median)" \
    -v most="$5" 'BEGIN {
      bad = ours > peer * most
      printf "ours beside %s: %.2f of at most %s%s\n", text, ours / peer, most, bad ? "  MISSED" : ""
      exit bad
    }' || missed=1
}

missed=0
echo "a key from a metadata service, $suite, containers: ms from the start of user space, medians of $rounds first boots"
for row in "${rows[@]}"; do
  read -r name root _ home <<<"$row"
  for _ in $(seq "$rounds"); do boot_container "$name" "$root" "$home" || die "$name"; done >"$work/$name.ms"
  printf '%-14s %8s\n' "$name" "$(median <"$work/$name.ms")"
done
limit systemd-imds ms 1 systemd-imds 1

why=''
if [ "$(uname -m)" != x86_64 ]; then
  why='qemu hands SMBIOS to the kernel on x86 only'
elif ! command -v qemu-system-x86_64 >/dev/null; then
  why='qemu-system-x86_64 is not installed (qemu-system-x86)'
elif [ ! -c /dev/net/tun ]; then
  why='/dev/net/tun not found'
elif ! "$lib/kernel" "$suite" >/dev/null; then
  why="$suite has no cloud kernel, see above"
fi
if [ -n "$why" ]; then
  echo "not tried: the same in virtual machines, to the login over SSH: $why"
  exit $missed
fi
echo "virtual machines (TCG): s from the start of the kernel, medians of $boots first boots"
for row in "${rows[@]}"; do
  read -r name root _ <<<"$row"
  make_disk "$name" "$root"
done
# In turns, so that other load of the host affects all.
for _ in $(seq "$boots"); do
  for row in "${rows[@]}"; do
    read -r name _ user _ <<<"$row"
    boot_vm "$name" "$user" >>"$work/$name.s" || exit
  done
done
printf '%-14s %8s %8s\n' '' key login
for row in "${rows[@]}"; do
  name=${row%% *}
  printf '%-14s %8s %8s\n' "$name" "$(median <"$work/$name.s")" "$(cut -d' ' -f2 "$work/$name.s" | median)"
done
column() { cut -d' ' -f"$1" "$work/ours.s" | median; }
echo "ours flushes file systems $(column 3) times at a first boot on ext4, $(column 4) ms in all"
limit 'systemd-imds, key' s 1 systemd-imds 1
limit 'cloud-init, login' s 2 cloud-init 0.75
exit $missed
