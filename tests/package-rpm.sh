#!/bin/bash
# package-rpm.sh RPM - the rpm installed, upgraded and erased in a root with systemd by rpm itself. One line per fact,
# exit 1 if one fails. The root is a Debian one: what it cannot show is dnf's own ordering of a swap.
#
# Needs root and rpm.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/check.sh"
[ $# -eq 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
rpm=$(realpath "$1")
need_root
need rpm=rpm rpmbuild=rpm
base=$("$here/lib/root" sid) || exit 1
mkdir -p "$cache/run"
work=$(mktemp -d "$cache/run/rpm.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

stages='cloud-init-local.service cloud-init-network.service cloud-config.service cloud-final.service'
enabled() {
  local unit
  for unit in $stages; do
    [ "$(systemctl --root="$root" is-enabled "$unit" 2>&1)" = enabled ] || { echo "$unit is not enabled"; return 1; }
  done
}
in_rpmdb() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
# requirements are there under Debian's names, so only the package's own conflicts count
install_it() { in_rpmdb --nodeps "$@"; }
everything() { (cd "$root" && find etc usr ! -type d -printf '%p %y %m %s %l\n' | sort); }
complete() {
  local path missing=0
  for path in /usr/bin/cloud-{init,id,init-per} /usr/libexec/cloud-init/{ds-identify,cloud-init-{local,network,config,final,tls}} \
    /usr/lib/systemd/system-generators/cloud-init-generator /usr/lib/systemd/system/cloud-init{,-main}.service \
    /usr/lib/udev/rules.d/66-azure-ephemeral.rules /usr/lib/tmpfiles.d/cloud-init.conf /etc/cloud/cloud.cfg \
    /etc/cloud/cloud.cfg.d/05_logging.cfg /etc/cloud/templates/hosts.redhat.tmpl; do
    chroot "$root" test -e "$path" || { echo "$path is missing"; missing=1; }
  done
  return $missing
}
# rpm's own view: nothing changed since it was unpacked. Configuration that a test edits comes after this.
verified() { ! in_rpmdb -V --nodeps firstlight | grep .; }
no_odd_requirement() { ! rpm -qp --requires "$rpm" | grep -v '^rpmlib(\|^config(\|^/bin/sh$\|^shadow-utils$\|^util-linux$'; }
libexec_used() { ! grep -h '^ExecStart=' "$root"/usr/lib/systemd/system/cloud-*.service | grep -v '^ExecStart=/usr/libexec/cloud-init/'; }

cp -a --reflink=auto "$base" "$root"
in_rpmdb --initdb
everything >"$work/before"
check "requires nothing but what it says" no_odd_requirement
check "installs" install_it -i "$rpm"
check "every part is there" complete
check "as packaged" verified
check "units run what is installed" libexec_used
check "all stages enabled" enabled
check "runs" chroot "$root" /usr/bin/cloud-init --version

systemctl --root="$root" disable cloud-final.service >/dev/null 2>&1
echo '# mine' >>"$root/etc/cloud/cloud.cfg"
check "upgrades" install_it -U --replacepkgs "$rpm"
check "upgrade: a stage that was disabled stays so" \
  not test -e "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
check "upgrade: an edited cloud.cfg is kept" grep -q '^# mine' "$root/etc/cloud/cloud.cfg"

# An image gets the policy, which loads modules, in the same transaction as this package or later.
cat >"$work/policy.spec" <<'POLICY'
Name: selinux-policy-targeted
Version: 42
Release: 1
Summary: stands for the distribution's
License: none
BuildArch: noarch
%description
%post
printf '#!/bin/sh\necho "$*" >>/semodule.log\n' >/usr/sbin/semodule
chmod +x /usr/sbin/semodule
%postun
rm /usr/sbin/semodule
%files
POLICY
check "a package of a policy is made" rpmbuild -bb --define "_topdir $work/top" "$work/policy.spec"
policy=$work/top/RPMS/noarch/selinux-policy-targeted-42-1.noarch.rpm
loads_module() { "$@" && in_rpmdb -e selinux-policy-targeted && grep -q -- '-i /usr/share/selinux/packages/firstlight.cil' "$root/semodule.log"; }
check "a later policy gets the module" loads_module install_it -i "$policy"
rm -f "$root/semodule.log"
check "a later policy of the same transaction gets the module" loads_module install_it -U --replacepkgs --noorder "$rpm" "$policy"
rm -f "$root/semodule.log"

mkdir -p "$root/var/lib/cloud/instances/i-test/sem"
check "erases" in_rpmdb -e firstlight
check "erased: the edited cloud.cfg is kept aside" grep -q '^# mine' "$root/etc/cloud/cloud.cfg.rpmsave"
rm -f "$root/etc/cloud/cloud.cfg.rpmsave"
check "erased: what has run is still known" test -d "$root/var/lib/cloud/instances/i-test/sem"
everything >"$work/after"
check "erased without a trace" diff "$work/before" "$work/after"

# A package of the old name, as distributions have it.
cat >"$work/old.spec" <<'OLD'
Name: cloud-init
Version: 24.4
Release: 1
Summary: stands for the distribution's
License: none
BuildArch: noarch
%description
%install
mkdir -p %{buildroot}/usr/lib/systemd/system
for unit in cloud-init-local cloud-init cloud-config cloud-final; do
  printf '[Service]\nExecStart=true\n[Install]\nWantedBy=cloud-init.target\n' >%{buildroot}/usr/lib/systemd/system/$unit.service
done
%preun
systemctl --no-reload disable cloud-init-local.service cloud-init.service cloud-config.service cloud-final.service
%files
/usr/lib/systemd/system/*
OLD
check "a package of the old name is made" rpmbuild -bb --define "_topdir $work/top" "$work/old.spec"
check "which installs" install_it -i "$work"/top/RPMS/noarch/cloud-init-24.4-1.noarch.rpm
# With dependencies this time; the two missing names are not what it must complain about.
refused() { ! output=$(in_rpmdb -i --test "$rpm" 2>&1) && printf "%s\n" "$output" && grep -q "conflicts with" <<<"$output"; }
check "and beside which ours is refused" refused

# As a swap, which rpm alone cannot do in one transaction: ours is installed, then the other one erased.
systemctl --root="$root" enable cloud-init-local.service cloud-config.service cloud-final.service >/dev/null 2>&1
ln -sfn /usr/lib/systemd/system/cloud-init.service "$root/etc/systemd/system/cloud-init.target.wants/cloud-init.service"
systemctl --root="$root" disable cloud-init.service cloud-final.service >/dev/null 2>&1
is_enabled() { [ "$(systemctl --root="$root" is-enabled "$1" 2>&1)" = "$2" ] || { systemctl --root="$root" is-enabled "$1"; return 1; }; }
check "installs over it" install_it -i --replacefiles "$rpm"
check "installed over it: a stage that was disabled stays so" is_enabled cloud-final.service disabled
check "installed over it: so does the network stage, by its new name" is_enabled cloud-init-network.service disabled
check "installed over it: a stage that was enabled stays so" is_enabled cloud-init-local.service enabled
check "installed over it: its notes are gone" not test -e "$root/var/lib/rpm-state/firstlight-disabled"

echo "package-rpm: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
