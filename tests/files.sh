#!/bin/bash
# files.sh - checks the files that packages install, for every distribution in packaging/variants: no placeholder is left,
# cloud.cfg is valid YAML with what the stages need, scripts parse, manual pages have no warnings. Checks that `make help` lists
# every target of the Makefile, and that Python's sets have one order in what records or compares upstream. Needs no root.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL $*"; failed=$((failed + 1)); }

# Stubs: only their installation is tested here.
mkdir "$work/bin"
for name in cloud-init cloud-init-local cloud-init-network cloud-init-config cloud-init-final cloud-init-generator \
  cloud-init-tls; do
  printf '#!/bin/sh\n' >"$work/bin/$name"
  chmod +x "$work/bin/$name"
done

make -s install DESTDIR="$work/made" VARIANT=rocky BIN="$work/bin"
[ -x "$work/made/usr/libexec/cloud-init/cloud-init-local" ] || fail "make install: no program of a stage"

variants=$(sed -n 's/^variant //p' packaging/variants)
for variant in $variants; do
  root=$work/$variant
  family=$(echo '@FAMILY@' | packaging/render "$variant")
  packaging/install VARIANT="$variant" BIN="$work/bin" DESTDIR="$root" VERSION=1.2.3
  [ ! -e "$root/etc/systemd" ] || fail "$variant: a package enables its units when it is installed"
  broken=$(find "$root" -xtype l)
  [ -z "$broken" ] || fail "$variant: dangling links: $broken"
  # packaging/README.md lists the directories of all files, with the defaults of its settings.
  case $family in redhat) libexec=/usr/libexec/cloud-init ;; *) libexec=/usr/lib/cloud-init ;; esac
  listed=$(sed -n "/^### Installed files/,/^### Upgrade/s/^\(| \`[^|]*\) | .*/\1/p" packaging/README.md | grep -o '`[^`]*`' | tr -d '`' |
    sed "s,^PREFIX,/usr,; s,^LIBEXECDIR,$libexec,; s,.*,^&/,")
  unlisted=$(cd "$root" && find . ! -type d | sed 's/^[.]//' | grep -v -f <(echo "$listed") || :)
  [ -z "$unlisted" ] || fail "$variant: packaging/README.md does not list $unlisted"
  # `distro:` may name another distribution.
  for template in hosts.redhat hosts.suse chrony.conf.centos chrony.conf.cos ntp.conf.sles sources.list.ubuntu; do
    [ -f "$root/etc/cloud/templates/$template.tmpl" ] || fail "$variant: no template $template"
  done
  # The fields in the journal's catalog have the same form.
  left=$(grep -rnE '@[A-Z_]+@|^\?!?[A-Za-z0-9_,-]+: ' --exclude=cloud-init.catalog "$root" || :)
  [ -z "$left" ] || fail "$variant: not rendered: $left"
  python3 - "$variant" "$root/etc/cloud/cloud.cfg" "$root/etc/cloud/cloud.cfg.d/05_logging.cfg" <<'CHECK' ||
import sys, yaml
variant, *names = sys.argv[1:]
config, logging = (yaml.safe_load(open(name)) for name in names)
system = config["system_info"]
user = system["default_user"]
assert user["name"] and user["shell"].startswith("/bin/") and user["lock_passwd"] is True, user
assert all(isinstance(group, str) for group in user["groups"]), user
assert config["users"], "no users"
assert system["distro"] and system["ssh_svcname"] in ("ssh", "sshd"), system
modules = [m for stage in ("init", "config", "final") for m in config[f"cloud_{stage}_modules"]]
assert all(isinstance(m, str) for m in modules) and len(set(modules)) == len(modules), "modules"
for needed in ("users_groups", "ssh", "runcmd", "scripts_user", "final_message"):
    assert needed in modules, needed
text = "".join(logging["log_cfgs"][0])
assert "/var/log/cloud-init.log" in text and "[logger_root]" in text, text
assert logging["output"]["all"].startswith("| tee -a /var/log/"), logging["output"]
CHECK
    fail "$variant: cloud.cfg or 05_logging.cfg"
  # Between variants the pages differ in one path only.
  case $variant in debian | rhel) ;; *) continue ;; esac
  for page in "$root"/usr/share/man/man*/*; do
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "$variant: ${page##*/}: $warnings"
  done
done
# The samples of instance data have every name that the page documents for each cloud.
python3 - "$work"/debian/usr/share/doc/cloud-init/examples/instance-data/*.json <<'CHECK' || fail "samples of instance data"
import json, re, sys
page = open("docs/reference/instance-data.md").read().split("\n## v1\n")[1].split("\n## ")[0]
names = {name for row in re.findall(r"^\| (`.*?) \|", page, re.M) for name in re.findall(r"`(\w+)`", row)}
assert len(names) > 15 and len(sys.argv) > 20, names
for path in sys.argv[1:]:
    lacks = names - set(json.load(open(path))["v1"])
    assert not lacks, f"{path}: {lacks}"
CHECK
# With any LIBEXECDIR and PREFIX the units and the programs find the stages.
root=$work/elsewhere
packaging/install VARIANT=rocky BIN="$work/bin" DESTDIR="$root" PREFIX=/opt/ci LIBEXECDIR=/srv/stages VERSION=1.2.3 ENABLE=yes
for unit in cloud-init-local.service cloud-init-network.service cloud-config.service cloud-final.service; do
  [ "$(readlink "$root/etc/systemd/system/cloud-init.target.wants/$unit")" = "/opt/ci/lib/systemd/system/$unit" ] ||
    fail "ENABLE: $unit"
done
[ -L "$root/etc/systemd/system/cloud-config.target.wants/cloud-init-hotplugd.socket" ] || fail "ENABLE: the socket"
for variant in alpine devuan; do
  # Not through a pipe: install would be killed in writing when grep has found the command.
  printed=$(packaging/install VARIANT=$variant BIN="$work/bin" DESTDIR="$work/$variant-enabled" VERSION=1.2.3 ENABLE=yes)
  grep -qE 'rc-update add|update-rc.d' <<<"$printed" || fail "ENABLE: $variant: no command"
done
grep -qx 'ExecStart=/srv/stages/cloud-init-local' "$root/opt/ci/lib/systemd/system/cloud-init-local.service" ||
  fail "LIBEXECDIR: the unit"
for name in cloud-init-local cloud-init-tls ds-identify hook-hotplug; do
  [ -x "$root/opt/ci/bin/../lib/cloud-init/$name" ] || fail "LIBEXECDIR: $name is not found"
done
# The init scripts stay when a package is removed.
rm -r "$work/devuan/usr"
for script in "$work"/devuan/etc/init.d/cloud-*; do
  sed -i "s,/usr/lib/cloud-init/,$work/devuan&," "$script"
  sh "$script" start || fail "devuan: ${script##*/} without the package"
done
if packaging/render no-such-distribution </dev/null 2>/dev/null; then fail "an unknown variant is an error"; fi
printed=$(packaging/install VARIANT=no-such BIN="$work/bin" DESTDIR="$work/no-such" 2>&1) && fail "an unknown VARIANT is an error"
grep -q '"no-such".* debian .* gentoo' <<<"$printed" && [ ! -e "$work/no-such" ] || fail "an unknown VARIANT: $printed"
if echo '@NO_SUCH@' | packaging/render debian 2>/dev/null >&2; then fail "a name without a value is an error"; fi

# A build for musl refuses a compiler with glibc's headers, before it compiles anything.
. packaging/targets.sh
musl=$(rustc -vV | sed -n 's/^host: \([^-]*\)-.*/\1-unknown-linux-musl/p')
printf '#!/bin/sh\nexit 1\n' >"$work/bin/cargo"
chmod +x "$work/bin/cargo"
if has_musl_headers cc; then
  echo "not tried: test a build for musl with glibc's headers: the machine's compiler has none"
else
  out=$(env "CC_$(echo "$musl" | tr - _)=cc" TARGET="$musl" CARGO="$work/bin/cargo" packaging/build "$work/none" 2>&1) &&
    fail "a build for musl with glibc's headers"
  [[ $out == "make: cc does not compile for musl"* ]] || fail "a build for musl with glibc's headers: $out"
  ! command -v musl-gcc >/dev/null || has_musl_headers musl-gcc || fail "musl-gcc has no headers of musl"
fi

for script in packaging/render packaging/install packaging/build packaging/deps packaging/libblkid packaging/extensions packaging/extra/*.sh packaging/openrc/* packaging/sysvinit/* \
  packaging/service-stage deb/build \
  packaging/release packaging/recipes/alpine/{APKBUILD,firstlight.post-install} deb/*.post* deb/*.prerm deb/postinst deb/postrm deb/debconf-answers packaging/python/install deb/tests/installed deb/tests/boots packaging/dist packaging/checksums rpm/build; do
  sh -n "$script" || fail "$script"
done
for script in tests/fresh tests/boot-init-systems tests/dist.sh tests/release.sh packaging/recipes/arch/{PKGBUILD,firstlight.install} packaging/recipes/gentoo/*.ebuild; do bash -n "$script" || fail "$script"; done
# Builders of distributions have no network.
if grep -v '^ *#\|echo' packaging/build | grep -q 'rustup\|curl\|packaging/fetch'; then fail "packaging/build downloads something"; fi
bash -n packaging/completions/cloud-init || fail "completion"
# The completion itself, as the shell would call it.
complete() {
  bash -c '. packaging/completions/cloud-init; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cloud_init; echo "${COMPREPLY[*]}"' \
    bash "$@"
}
[ "$(complete cloud-init sta)" = "status state" ] || fail "completion of a command"
[ "$(complete cloud-init status --format y)" = yaml ] || fail "completion of a value"
[ "$(complete cloud-init --debug modules --mode f)" = final ] || fail "completion behind an option"
[ "$(complete cloud-init modules --mode = f)" = final ] || fail "completion behind ="
[ "$(complete cloud-init devel net-convert --output-kind netw)" = "network-manager networkd" ] || fail "completion of a renderer"
[ "$(complete cloud-id --lo)" = --long ] || fail "completion of cloud-id"
# The project's address is set in Cargo.toml; the files of packages repeat it.
homepage=$(sed -n 's/^homepage = "\(.*\)"/\1/p' Cargo.toml)
domain=${homepage#https://}
for place in "deb/control:Homepage: $homepage/" "deb/watch:$homepage/releases/" "rpm/firstlight.spec:URL:            $homepage/" \
  "rpm/firstlight.spec:Source0:        $homepage/releases/" "deb/control:@$domain>" "deb/copyright:@$domain>" "deb/copyright:$homepage/releases/" \
  "packaging/schema/cloud-config.json:\"$homepage/schema/" "packaging/schema/network-config.json:\"$homepage/schema/" \
  "packaging/schema/catalog.json:\"$homepage/schema/"; do
  grep -qF -- "${place#*:}" "${place%%:*}" || fail "${place%%:*} has another address than the homepage in Cargo.toml ($homepage)"
done
for file in packaging/recipes/*/{APKBUILD,PKGBUILD,*.ebuild,package.nix,*.bb,*.mk}; do
  [ ! -e "$file" ] || grep -q "$homepage/releases" "$file" || fail "$file has another address than the homepage in Cargo.toml ($homepage)"
done
# Each recipe has the licences of what is linked in: those of the rpm's tag, which tests/dist.sh compares with the SBOM. Of a choice,
# one is enough. Each installs the notices and the SBOM; Buildroot collects the notices itself.
python3 - <<'CHECK' || fail "licences of recipes"
import re
tag = re.search(r"^License: *(.*)$", open("rpm/firstlight.spec").read(), re.M)[1]
needed = [set(part.strip("() ").split(" OR ")) for part in tag.split(" AND ")]
# The names that Gentoo, Buildroot and Nix have in place of SPDX's.
spdx = {"BSD": "BSD-3-Clause", "LGPL-2.1+": "LGPL-2.1-or-later", "asl20": "Apache-2.0", "bsd3": "BSD-3-Clause", "isc": "ISC",
        "lgpl21Plus": "LGPL-2.1-or-later", "mit": "MIT"}
for path in ("alpine/APKBUILD", "arch/PKGBUILD", "buildroot/firstlight.mk", "gentoo/firstlight.ebuild", "nix/package.nix", "yocto/firstlight.bb"):
    text = open(f"packaging/recipes/{path}").read()
    words = re.search(r"^\s*(?:FIRSTLIGHT_)?licen[sc]e *= *(.*)$", text, re.M | re.I)[1].replace("with lib.licenses", "")
    named = {spdx.get(word, word) for word in re.findall(r"[\w.+-]+", words)} - {"AND"}
    lacks = [choice for choice in needed if not choice & named]
    assert not lacks and named <= set().union(*needed), f"{path}: lacks {lacks}, has {named}"
    assert "licences.txt" in text and ("sbom.cdx.json" in text or "buildroot" in path), path
CHECK
# What recipes take from the source release.
for path in $(grep -rhoE '(packaging|rpm|deb|docs)/[A-Za-z0-9/._-]*[A-Za-z0-9]' packaging/recipes rpm/firstlight.spec deb/rules | sort -u); do
  [ -e "$path" ] || fail "recipes use $path, which does not exist"
done
# So is the release of cloud-init in shared/system.
release=$(sed -n '/^macro_rules! compatible_release/,/^}/s/^ *"\(.*\)"$/\1/p' shared/system/src/lib.rs)
for place in "deb/control:Conflicts: cloud-init (<< $release+firstlight), cloud-init (>> $release+firstlightz)," "deb/control:Provides: cloud-init (= $release+firstlight), cloud-init-base (= $release)" \
  "deb/control:Recommends: ca-certificates, cloud-init (>> $release+firstlight)" "deb/cloud-init.postinst:Pin: version $release+firstlight*" \
  "rpm/firstlight.spec:%global compatible $release"; do
  grep -qF -- "${place#*:}" "${place%%:*}" || fail "${place%%:*} has another release of cloud-init than shared/system ($release)"
done
phony=$(sed -n '/^\.PHONY:/,/[^\\]$/{s/^\.PHONY://;s/\\$//;p}' Makefile)
help=$(make -s help)
for target in $phony; do
  grep -q "^make $target  *[^ ]" <<<"$help" || fail "make help does not list '$target': add '## TEXT' to its line"
done
# Upstream's sets of packages and keys would have another order in each record.
upstream='LOWER:-|chroot .*(python3|bin/cloud-init)|chroot .*cloud-init init|chroot "\$merged"|"chroot"|run\(\["cloud-init".* capture'
seedless=$(grep -rlE "$upstream" tests/{lib,instance-data,tests} shared/*/tests stages/*/tests --exclude={undetected,state_faults}.rs --exclude=stages |
  xargs grep -L 'PYTHONHASHSEED.*0' || :)
[ -z "$seedless" ] || fail "PYTHONHASHSEED=0 is not set in $seedless"
echo "files: $(wc -w <<<"$variants") distributions, $failed failed"
[ "$failed" -eq 0 ]
