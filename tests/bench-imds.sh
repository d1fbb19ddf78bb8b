#!/bin/bash
# bench-imds.sh [ROUNDS] - how long systemd-imds, ours and the packaged cloud-init take on a cloud like EC2 until the
# instance's SSH key is in authorized_keys: from the start of user space to the file's last change, in a container of the same
# suite with DHCP and a metadata service on the other end of its NIC. Prints medians. Needs root. BIN is the directory with the
# release binaries.
#   ROUNDS           first boots of each (5)
#   FIRSTLIGHT_PEER  the suite, which has systemd 261 or newer (forky)
#
# systemd-imds imports the key as a credential, which systemd-tmpfiles writes to root's authorized_keys. Debian's units run
# systemd-tmpfiles first, and import only in an initrd; here the kernel command line enables the import, and a drop-in orders
# the two.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/lib/common.sh"
need_root
need systemd-nspawn=systemd-container dnsmasq=dnsmasq-base python3=python3
top=$(cd "$lib/../.." && pwd)
BIN=$(readlink -f "${BIN:-$top/build/bin}")
[ -x "$BIN/cloud-init-local" ] || die "no binaries in $BIN: run \"make release\""
suite=${FIRSTLIGHT_PEER:-forky} rounds=${1:-5}
work=$(mktemp -d "$cache/bench-imds.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

# Without a token: cloud-init requests one only where the firmware is EC2's, and a container has none.
mkdir "$work/case"
python3 -c 'import json, sys; served = json.load(sys.stdin); del served["token"]; json.dump(served, sys.stdout)' \
  <"$top/tests/clouds/ec2/server.json" >"$work/case/server.json"

# What an image for EC2 has: the datasource for cloud-init, the vendor's URLs and keys for systemd-imds (systemd's hwdb has them
# for machines whose firmware says that they are EC2's, which a container's does not).
mkdir -p "$work/ours" "$work"/config/etc/{cloud/cloud.cfg.d,systemd/network/10-cloud-init-eth0.network.d} \
  "$work"/units/etc/systemd/{system/systemd-tmpfiles-setup.service.d,network/85-imds-early.network.d}
make -s -C "$top" install BIN="$BIN" DESTDIR="$work/ours" FAMILY=debian STRIP=strip >&2
printf 'datasource_list: [Ec2]\ndatasource: {Ec2: {strict_id: false}}\nssh_genkeytypes: [ed25519]\n' \
  >"$work/config/etc/cloud/cloud.cfg.d/95_bench.cfg"
printf '[Unit]\nWants=systemd-imds-import.service\nAfter=systemd-imds-import.service\n' \
  >"$work/units/etc/systemd/system/systemd-tmpfiles-setup.service.d/imds.conf"
# Its network file is for NICs without a kind; a container's is a veth. No router answers here: without IPv6 none of the three waits for one.
printf '[Match]\nKind=\nKind=veth\n[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  >"$work/units/etc/systemd/network/85-imds-early.network.d/bench.conf"
printf '[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  >"$work/config/etc/systemd/network/10-cloud-init-eth0.network.d/bench.conf"
imds='systemd.imds=yes systemd.imds.import=yes systemd.imds.network=unlocked systemd.imds.vendor=amazon-ec2
  systemd.imds.data_url=http://169.254.169.254/latest systemd.imds.address_ipv4=169.254.169.254
  systemd.imds.key.hostname=/meta-data/hostname systemd.imds.key.ssh_key=/meta-data/public-keys/0/openssh-key
  systemd.imds.key.userdata=/user-data'

# first_boot NAME ROOT FILE: prints the milliseconds until FILE of a new machine NAME has the key
first_boot() {
  local machine=$work/machine out=$work/out
  rm -rf --one-file-system "$machine" "$out"
  "$lib/container" "$machine" new "$2"
  echo 'eth0 02:00:00:00:0a:01' >"$machine/nics"
  printf 'exec "%s/metadata-wire" "%s" "$1" "$2"\n' "$lib" "$work/case" >"$machine/cloud"
  case $1 in
  systemd-imds)
    "$lib/container" "$machine" put "$work/units" /
    printf '%s\n' $imds >"$machine/init"
    ;;
  ours)
    "$lib/container" "$machine" put "$work/ours" /
    "$lib/container" "$machine" put "$work/config" /
    "$lib/container" "$machine" run systemctl -q enable cloud-init-{local,network}.service cloud-{config,final}.service
    ;;
  *) "$lib/container" "$machine" put "$work/config" / ;;
  esac
  "$lib/container" "$machine" boot "$out" 180 >&2
  python3 - "$machine/upper/$3" "$out/started" <<'PYTHON'
import datetime, os, sys
keys, started = sys.argv[1:]
if "ssh-" not in open(keys).read():
    sys.exit(f"{keys} has no key")
text = open(started).read().strip().removeprefix("UserspaceTimestamp=")
start = datetime.datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=datetime.timezone.utc)
print(round(os.stat(keys).st_mtime * 1000 - start.timestamp() * 1000, 1))
PYTHON
}

median() { sort -n | awk '{ at[NR] = $1 } END { print at[int((NR + 1) / 2)] }'; }

rows=(
  "systemd-imds $("$lib/root" "$suite" systemd-imds) root/.ssh/authorized_keys"
  "ours $("$lib/root" "$suite") home/debian/.ssh/authorized_keys"
  "cloud-init $("$lib/root" "$suite" cloud-init) home/debian/.ssh/authorized_keys"
)
echo "a key from a metadata service, $suite, containers: ms from the start of user space, medians of $rounds first boots"
for row in "${rows[@]}"; do
  read -r name root file <<<"$row"
  for _ in $(seq "$rounds"); do first_boot "$name" "$root" "$file" || die "$name"; done >"$work/$name.ms"
  printf '%-14s %8s\n' "$name" "$(median <"$work/$name.ms")"
done
awk -v ours="$(median <"$work/ours.ms")" -v imds="$(median <"$work/systemd-imds.ms")" 'BEGIN {
  bad = ours > imds
  printf "ours beside systemd-imds: %.2f of at most 1%s\n", ours / imds, bad ? "  MISSED" : ""
  exit bad
}'
