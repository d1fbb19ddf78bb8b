#!/bin/bash
# units.sh [VARIANT...] - the units of several distributions, verified by systemd itself in a Debian root that boots
# with everything they are ordered against: no error, no warning and no ordering cycle in the whole boot's
# transaction. One line per fact, exit 1 if one fails.
#
# BIN is the directory with the release binaries. Needs root.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
BIN=$(readlink -f "${BIN:-$here/../build/bin}")
[ $# -gt 0 ] || set -- debian ubuntu raspberry-pi-os rhel fedora photon suse
need_root
base=$("$here/lib/root" sid ifupdown network-manager chrony rsyslog)
# Copies are changed, the root is not.
mkdir -p "$cache/run"
work=$(mktemp -d "$cache/run/units.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
failed=0
limiting='Protect|Private|Restrict|CapabilityBounding|NoNewPrivileges|SystemCall|MemoryDenyWrite|LockPersonality|ReadOnly|ReadWrite|'
limiting+='Inaccessible|ExecPaths|NoExecPaths|TemporaryFileSystem|Bind|MountFlags|DevicePolicy|DeviceAllow|DynamicUser|User|Root'

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; failed=$((failed + 1)); }

# verify ROOT: what systemd has to say about the boot's whole transaction and about our units
verify() {
  chroot "$1" sh -c 'SYSTEMD_LOG_LEVEL=notice systemd-analyze verify --man=no default.target \
    $(cd /usr/lib/systemd/system && echo cloud-*) 2>&1' || :
}

cp -a --reflink=auto "$base" "$work/plain"
chroot "$work/plain" systemctl enable systemd-networkd.service ssh.service chrony.service NetworkManager.service \
  >/dev/null 2>&1
verify_plain=$(chroot "$work/plain" systemd-analyze verify --man=no default.target 2>&1 || :)
case $verify_plain in
  *cycle*) fail "the root boots without a cycle when cloud-init is not there: $verify_plain" ;;
esac

for variant; do
  root=$work/root
  rm -rf --one-file-system "$root"
  cp -a --reflink=auto "$work/plain" "$root"
  "$here/../packaging/install" VARIANT="$variant" BIN="$BIN" DESTDIR="$root" VERSION=0
  chroot "$root" systemctl enable cloud-init-local.service cloud-init-network.service cloud-config.service \
    cloud-final.service cloud-init-hotplugd.socket >/dev/null 2>&1
  # What the generator does on a machine where there is something to do.
  mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
  ln -s /usr/lib/systemd/system/cloud-init.target "$root/etc/systemd/system/multi-user.target.wants/"
  mkdir -p "$root/etc/systemd/system/cloud-init-local.service.d"
  printf '[Unit]\nAfter=systemd-udevd.service systemd-udev-trigger.service\n' \
    >"$root/etc/systemd/system/cloud-init-local.service.d/after-udev.conf"

  # Only lines that are new with our units in place.
  output=$(verify "$root" | grep -vxF "$verify_plain" || :)
  if [ -z "$output" ]; then pass "$variant: systemd finds nothing"; else fail "$variant: systemd says"; echo "$output"; fi

  for unit in "$root"/usr/lib/systemd/system/cloud-*.service; do
    name=${unit##*/}
    [ ! -L "$unit" ] || continue
    limit=$(sed -n 's/^TimeoutStartSec=//p' "$unit")
    case $limit in
      '' | 0 | infinity) fail "$variant: $name has no finite start limit" ;;
      *) systemd-analyze timespan "$limit" >/dev/null || fail "$variant: $name: TimeoutStartSec=$limit" ;;
    esac
    program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")
    [ -x "$root$program" ] || fail "$variant: $name runs $program, which is not there"
  done
  # Users' scripts may do all that root may; the hotplug service, which runs none in a stage, is limited.
  for name in cloud-init-local cloud-init-network cloud-config cloud-final; do
    limits=$(grep -E "^($limiting)[A-Za-z]*=" "$root/usr/lib/systemd/system/$name.service" || :)
    [ -z "$limits" ] || fail "$variant: $name limits users' scripts: $limits"
  done
  output=$(chroot "$root" systemd-analyze security --offline=yes --threshold=70 --no-pager cloud-init-hotplugd.service 2>&1) ||
    fail "$variant: cloud-init-hotplugd may do too much: $(tail -n 1 <<<"$output")"
  for name in cloud-init cloud-init-main; do
    [ "$(systemctl --root="$root" is-enabled "$name.service")" = alias ] || fail "$variant: $name.service is no alias"
  done
  # Scripts of images enable cloud-init's units by name.
  for name in local main network; do
    systemctl --quiet --root="$root" enable "cloud-init-$name.service" || fail "$variant: cloud-init-$name.service cannot be enabled"
  done

  # The other files that systemd's family reads, by their own checkers.
  unshare --mount sh -c 'mount -t proc proc "$1/proc" &&
    chroot "$1" udevadm verify --no-summary /usr/lib/udev/rules.d/66-azure-ephemeral.rules' sh "$root" ||
    fail "$variant: udev rules"
  if [ -e "$root/usr/lib/tmpfiles.d/cloud-init.conf" ]; then
    systemd-tmpfiles --root="$root" --create cloud-init.conf || fail "$variant: tmpfiles.d"
    [ "$(stat -c %a "$root/run/cloud-init")" = 700 ] || fail "$variant: mode of /run/cloud-init"
  fi
  output=$(chroot "$root" rsyslogd -N1 -f /etc/rsyslog.conf 2>&1) || { fail "$variant: rsyslog: $output"; }

  # On EKS' images a unit that multi-user.target wants is ordered after the final stage.
  if ! grep -q '^After=multi-user.target' "$root/usr/lib/systemd/system/cloud-final.service"; then
    printf '[Unit]\nAfter=cloud-final.service\n[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n' \
      >"$root/etc/systemd/system/after-final.service"
    chroot "$root" systemctl enable after-final.service >/dev/null 2>&1
    case $(verify "$root") in
      *"ordering cycle"*) fail "$variant: a unit of multi-user.target cannot be ordered after cloud-final.service" ;;
      *) pass "$variant: a unit of multi-user.target may be ordered after cloud-final.service" ;;
    esac
  elif [ "$variant" = rhel ]; then
    fail "rhel: cloud-final.service is ordered after multi-user.target"
  fi

  # The test itself: a cycle that is put in must be seen.
  mkdir -p "$root/etc/systemd/system/cloud-config.service.d"
  printf '[Unit]\nBefore=cloud-init-local.service\n' >"$root/etc/systemd/system/cloud-config.service.d/cycle.conf"
  case $(verify "$root") in
    *"ordering cycle"*) pass "$variant: a cycle would be seen" ;;
    *) fail "$variant: a cycle that was put in was not seen" ;;
  esac
done
echo "units: $failed failed"
[ "$failed" -eq 0 ]
