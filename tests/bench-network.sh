#!/bin/bash
# bench-network.sh - `devel net-convert` of 500 vlans with 1,000 routes, the newest packaged cloud-init's and ours:
# CPU time by output, and its ratio, which must be at most 1/50. Then ours for 1, 100 and 1,000 vlans, counted in
# instructions by callgrind: ten times the input must cost at most eleven times as much, start-up left out. Needs root.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/lib/common.sh"
need_root
need valgrind=valgrind python3=python3
top=$(cd "$lib/../.." && pwd)
ours=$(readlink -f "${BIN:-$top/build/bin}")/cloud-init
[ -x "$ours" ] || die "no $ours: run \"make release\""
root=$("$lib/root" "${FIRSTLIGHT_REFERENCE_SUITE:-sid}" cloud-init cloud-guest-utils)
work=$(mktemp -d "$cache/bench-network.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

document() { # document VLANS VERSION
  python3 - "$@" <<'PYTHON'
import sys
n, version = int(sys.argv[1]), sys.argv[2]
ip = lambda i, last: f"10.{i // 250}.{i % 250}.{last}"
to = lambda i, k: f"172.{16 + i // 500 * 2 + k}.{i // 250 % 250}.{i % 250}/32"
if version == "1":
    print("version: 1\nconfig:\n- {type: physical, name: eth0, mac_address: '52:54:00:00:00:01', subnets: [{type: dhcp4}]}")
    for i in range(n):
        print(f"- type: vlan\n  name: eth0.{i}\n  vlan_link: eth0\n  vlan_id: {i}\n  subnets:\n  - type: static\n"
              f"    address: {ip(i, 2)}/24\n    dns_nameservers: [{ip(i, 53)}]\n    routes:")
        for k in range(2):
            print(f"    - {{network: {to(i, k)}, gateway: {ip(i, 1)}, metric: {i}}}")
else:
    print("version: 2\nethernets:\n  eth0: {dhcp4: true}\nvlans:")
    for i in range(n):
        print(f"  eth0.{i}:\n    id: {i}\n    link: eth0\n    addresses: [{ip(i, 2)}/24]\n    routes:")
        for k in range(2):
            print(f"    - {{to: {to(i, k)}, via: {ip(i, 1)}, metric: {i}}}")
PYTHON
}

mkdir -p "$work/in"
for version in 1 2; do
  for n in 1 100 500 1000; do document $n $version >"$work/in/v$version-$n.yaml"; done
done
cp "$lib/../guest/cpu-of" "$work/in/"
"$lib/container" "$work/machine" new "$root"
"$lib/container" "$work/machine" put "$work/in" /srv

bad=0
printf '%-26s %12s %12s %8s %24s\n' 'output of 500 vlans' 'packaged, ms' 'ours, ms' 'ratio' 'instructions, 10n to n'
for version in 2 1; do
  for output in netplan:debian networkd:debian network-manager:debian sysconfig:rhel eni:debian; do
    kind=${output%:*} distro=${output#*:}
    words=(devel net-convert -k yaml -D "$distro" -O "$kind")
    # The packaged one passes version 2 through to netplan; what it has to interpret takes it minutes, so that is
    # measured with one output only.
    theirs=-
    case $version,$kind in
    2,netplan | 2,networkd)
      rounds=1
      [ "$kind" = networkd ] || rounds=5
      theirs=$("$lib/container" "$work/machine" run python3 /srv/cpu-of "$rounds" cloud-init "${words[@]}" -p "/srv/v$version-500.yaml" -d "/srv/out-$kind")
      ;;
    esac
    mine=$(python3 "$work/in/cpu-of" 9 "$ours" "${words[@]}" -p "$work/in/v$version-500.yaml" -d "$work/out-$kind")
    counts=()
    for n in 1 100 1000; do
      valgrind --tool=callgrind --callgrind-out-file=/dev/null "$ours" "${words[@]}" \
        -p "$work/in/v$version-$n.yaml" -d "$work/grown-$n-$kind" 2>"$work/valgrind" >/dev/null || die "$(tail -3 "$work/valgrind")"
      counts+=("$(sed -n 's/.*Collected : //p' "$work/valgrind")")
    done
    awk -v name="version $version, $kind" -v t="$theirs" -v m="$mine" -v z="${counts[0]}" -v a="${counts[1]}" -v b="${counts[2]}" 'BEGIN {
      grown = (b - z) / (a - z)
      ok = (t == "-" || m * 50 <= t) && grown <= 11
      printf "%-26s %12s %12.2f %8s %24.2f%s\n", name, t, m, t == "-" ? t : int(t / m), grown, ok ? "" : "  MISSED"
      exit !ok
    }' || bad=1
  done
done
exit $bad
