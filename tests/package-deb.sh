#!/bin/bash
# package-deb.sh DEB [SUITE...]: the Debian package in real Debian roots: over the suite's own cloud-init, that one
# purged later, upgrade, removal, purge, the way back, and a fresh installation. One line per fact, exit 1 if one fails.
#
# Needs root and a mirror. Roots are kept in the cache (tests/lib/common.sh) as tar files.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/check.sh"
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
need_root
need systemctl=systemd unshare=util-linux
deb=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- bookworm sid
roots=$cache/package-roots
mkdir -p "$roots" "$cache/run"
work=$(mktemp -d "$cache/run/deb.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=

# new_root SUITE PACKAGE...: a fresh root in $root, with the suite's cloud-init in /var/tmp
new_root() {
    local suite=$1 tar
    shift
    tar=$roots/$suite-$(echo "$*" | tr ' ' '-').tar
    if [ ! -s "$tar" ]; then
        echo "     making a $suite root with: $*"
        # A frozen mirror may be past its Valid-Until; signatures are checked all the same.
        "$here/lib/mmdebstrap" --quiet --variant=minbase --format=tar --aptopt='Acquire::Check-Valid-Until "false"' \
            --aptopt='APT::Install-Recommends "false"' --include="$(echo "$*" | tr ' ' ',')" \
            --customize-hook='cd "$1/var/tmp" && chroot "$1" sh -c "cd /var/tmp && apt-get -q download cloud-init"' \
            "$suite" "$tar.part" "$("$here/lib/mirror")" >"$work/bootstrap.log" 2>&1 || {
            tail -n 5 "$work/bootstrap.log"
            (no_mirror "$suite with $*") || return
        }
        mv "$tar.part" "$tar"
    fi
    root=$work/root
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    tar -C "$root" --numeric-owner -xpf "$tar"
    cp "$deb" "$root/var/tmp/firstlight.deb"
    cp "${deb%/*}"/cloud-init_*.deb "$root/var/tmp/name.deb"
}
# in_root COMMAND...: without a terminal and without answers, as an unattended upgrade runs it
in_root() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" </dev/null; }
apt_install() { in_root apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install "$@"; }

# tree DIR...: every path with type, mode, owner, time and content, for comparison
tree() {
    (cd "$root" && find "$@" ! -type d -printf '%p %y %m %U:%G %s %T@ %l\n' 2>/dev/null | sort
        find "$@" -type f -exec sha256sum {} + 2>/dev/null | sort)
}
same_tree() {
    local name=$1
    shift
    tree "$@" | diff "$work/$name" -
}
status_is() { [ "$(in_root dpkg-query -f '${db:Status-Abbrev}' -W "$1" 2>/dev/null)" = "$2 " ]; }
gone() { ! in_root dpkg-query -f '${db:Status-Abbrev}' -W "$1" 2>/dev/null | grep -q '^[^u]'; }
stages='cloud-init-local.service cloud-init-network.service cloud-config.service cloud-final.service'
enabled() {
    local unit
    for unit in $stages; do
        [ "$(systemctl --root="$root" is-enabled "$unit" 2>&1)" = enabled ] || { echo "$unit is not enabled"; return 1; }
        [ -e "$root/etc/systemd/system/cloud-init.target.wants/$unit" ] ||
            [ -e "$root$(readlink "$root/etc/systemd/system/cloud-init.target.wants/$unit")" ] ||
            { echo "$unit: no link to a file"; return 1; }
    done
}
no_loose_links() {
    local link found=0
    for link in "$root"/etc/systemd/system/*.wants/cloud-* "$root"/etc/systemd/system/cloud-*; do
        [ -L "$link" ] || continue
        [ -e "$root$(readlink "$link")" ] || { echo "${link#"$root"} points to nothing"; found=1; }
    done
    return $found
}
no_python_left() { ! find "$root"/usr/lib/python3/dist-packages -ipath '*cloudinit*' 2>/dev/null | grep .; }
no_links() { ! find "$root/etc/systemd/system" -name 'cloud-*' | grep .; }
# Files changed on purpose are configuration; everything else must be as packaged.
verified() { status_is firstlight ii && ! in_root dpkg --verify firstlight | grep .; }
is_ours() { cmp "$root/usr/bin/cloud-init" <(dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/bin/cloud-init); }

# an_instance: what a first boot with another cloud-init has left behind
an_instance() {
    local i=$root/var/lib/cloud/instances/i-test
    mkdir -p "$i/sem" "$i/scripts" "$root/var/lib/cloud/data" "$root/var/lib/cloud/sem" "$root/etc/cloud/cloud.cfg.d"
    ln -sfn /var/lib/cloud/instances/i-test "$root/var/lib/cloud/instance"
    echo i-test >"$root/var/lib/cloud/data/instance-id"
    touch "$i/sem/config_ssh" "$i/sem/config_users_groups" "$i/boot-finished" "$root/var/lib/cloud/sem/x.once"
    echo '#!/bin/sh' >"$i/scripts/runcmd"
    printf 'binary\0cache' >"$i/obj.pkl"
    printf 'preserve_hostname: true\n' >"$root/etc/cloud/cloud.cfg.d/99-admin.cfg"
    echo 'a log' >"$root/var/log/cloud-init.log"
    echo 'some output' >"$root/var/log/cloud-init-output.log"
}

# depends_on LIST: a package with these dependencies can be installed
depends_on() {
    mkdir -p "$work/dependent/DEBIAN"
    printf 'Package: dependent\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x.example>\nDescription: x\nDepends: %s\n' "$1" \
        >"$work/dependent/DEBIAN/control"
    dpkg-deb -b "$work/dependent" "$root/var/tmp/dependent.deb" >/dev/null &&
        in_root dpkg -i /var/tmp/dependent.deb && in_root dpkg -P dependent
}

over_the_suites_own() {
    local suite=$1
    an_instance
    tree var/lib/cloud etc/cloud/cloud.cfg.d/99-admin.cfg var/log/cloud-init.log >"$work/state"
    local old
    old=$(in_root dpkg-query -f '${Version}' -W cloud-init)

    check "$suite: installs over cloud-init $old without a question" apt_install /var/tmp/firstlight.deb
    check "$suite: installed" status_is firstlight ii
    check "$suite: the old package is removed" status_is cloud-init rc
    check "$suite: /usr/bin/cloud-init is ours" is_ours
    check "$suite: instance, markers, logs and the administrator's settings are as before" \
        same_tree state var/lib/cloud etc/cloud/cloud.cfg.d/99-admin.cfg var/log/cloud-init.log
    check "$suite: all stages enabled" enabled
    check "$suite: no link to a unit that is gone" no_loose_links
    check "$suite: nothing of Python's cloud-init left" no_python_left
    check "$suite: cloud.cfg is ours" verified
    check "$suite: other packages see a cloud-init" \
        in_root sh -c 'dpkg-query -f "\${Provides}" -W firstlight | grep -q "cloud-init (= 26.2+firstlight), cloud-init-base (= 26.2)"'
    # A package that depends on cloud-init stays installed, and another one can be installed.
    check "$suite: dependencies on cloud-init are satisfied" depends_on "cloud-init (>= 26.2), cloud-init-base (>= 26.2)"

    check "$suite: the old package can be purged" in_root dpkg --purge cloud-init
    check "$suite: after that: gone" gone cloud-init
    check "$suite: after that: none of our files missing or changed" verified
    check "$suite: after that: all stages enabled" enabled
    check "$suite: after that: state as before" \
        same_tree state var/lib/cloud etc/cloud/cloud.cfg.d/99-admin.cfg var/log/cloud-init.log
}

upgrade_and_removal() {
    local suite=$1
    # A newer build with one changed default, as a release would have.
    dpkg-deb -R "$deb" "$work/next"
    sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
    echo '# newer' >>"$work/next/etc/cloud/cloud.cfg.d/README"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/next" "$root/var/tmp/next.deb" >/dev/null
    rm -rf "$work/next"
    rm "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
    echo '# mine' >>"$root/etc/cloud/cloud.cfg"
    check "$suite: upgrades" apt_install /var/tmp/next.deb
    check "$suite: upgrade: a stage that was disabled stays so" \
        not test -L "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
    check "$suite: upgrade: an edited cloud.cfg is kept" grep -q '^# mine' "$root/etc/cloud/cloud.cfg"
    check "$suite: upgrade: an unedited file is new" grep -q '^# newer' "$root/etc/cloud/cloud.cfg.d/README"
    ln -s /usr/lib/systemd/system/cloud-final.service "$root/etc/systemd/system/cloud-init.target.wants/"

    check "$suite: removes" in_root apt-get -q -y remove firstlight
    check "$suite: removal keeps the settings" test -e "$root/etc/cloud/cloud.cfg"
    check "$suite: installs again" apt_install /var/tmp/next.deb
    check "$suite: installed again: all stages enabled" enabled
    check "$suite: installed again: the edited cloud.cfg is there" grep -q '^# mine' "$root/etc/cloud/cloud.cfg"
    check "$suite: purges" in_root apt-get -q -y purge firstlight
    check "$suite: purge: no settings of ours left" not test -e "$root/etc/cloud/cloud.cfg"
    check "$suite: purge: the administrator's settings stay" test -e "$root/etc/cloud/cloud.cfg.d/99-admin.cfg"
    check "$suite: purge: no logs left" not test -e "$root/var/log/cloud-init.log"
    check "$suite: purge: no links left" no_links
    check "$suite: purge: what has run is still known" same_tree state_only var/lib/cloud
}

the_way_back() {
    local suite=$1
    new_root "$suite" systemd cloud-init || return
    an_instance
    mkdir -p "$root/var/lib/cloud/instances/i-ours"
    echo '{"version": 1}' >"$root/var/lib/cloud/instances/i-ours/obj.pkl"
    apt_install /var/tmp/firstlight.deb >/dev/null 2>&1
    check "$suite: the suite's cloud-init comes back" in_root sh -c \
        'apt-get -q -y --no-install-recommends --allow-downgrades install /var/tmp/cloud-init_*.deb -o Dpkg::Options::=--force-confold'
    check "$suite: back: its units are enabled" in_root sh -c '
        for unit in /usr/lib/systemd/system/cloud-*.service /lib/systemd/system/cloud-*.service; do
            [ -e "$unit" ] && grep -q "WantedBy=cloud-init.target" "$unit" || continue
            [ -e "/etc/systemd/system/cloud-init.target.wants/${unit##*/}" ] || { echo "$unit"; exit 1; }
        done'
    check "$suite: back: purging ours removes none of its files" in_root dpkg --purge firstlight
    check "$suite: back: its files are complete" in_root sh -c \
        '! dpkg --verify cloud-init | grep -v "README\|/etc/" | grep . && test -e /etc/cloud/cloud.cfg'
    check "$suite: back: its units are still enabled" \
        test -L "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
    check "$suite: back: Python's cache is kept" test -e "$root/var/lib/cloud/instances/i-test/obj.pkl"
    check "$suite: back: a cache that it cannot read is put aside" not test -e "$root/var/lib/cloud/instances/i-ours/obj.pkl"
    check "$suite: back: it is kept for another installation" test -s "$root/var/lib/cloud/instances/i-ours/obj.pkl.firstlight"
    check "$suite: back: logs are kept" test -e "$root/var/log/cloud-init.log"
}

a_disabled_stage() {
    local suite=$1
    new_root "$suite" systemd cloud-init || return
    rm "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
    apt_install /var/tmp/firstlight.deb >/dev/null 2>&1
    check "$suite: a stage disabled before the switch stays so" \
        not test -L "$root/etc/systemd/system/cloud-init.target.wants/cloud-final.service"
    check "$suite: and the others are enabled" \
        test -L "$root/etc/systemd/system/cloud-init.target.wants/cloud-config.service"
}

# an_archive: apt has the suite's cloud-init and a later one
an_archive() {
    local package later=$work/later
    rm -rf "$later"
    dpkg-deb -R "$root"/var/tmp/cloud-init_*.deb "$later"
    sed -i 's/^Version: .*/Version: 99.1-1/' "$later/DEBIAN/control"
    mkdir "$root/var/tmp/archive"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$later" "$root/var/tmp/archive/later.deb" >/dev/null
    cp "$root"/var/tmp/cloud-init_*.deb "$root/var/tmp/archive/"
    for package in "$root"/var/tmp/archive/*.deb; do
        dpkg-deb -f "$package"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${package##*/}" "$(stat -c %s "$package")" "$(sha256sum <"$package" | cut -d' ' -f1)"
    done >"$root/var/tmp/archive/Packages"
    rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
    echo 'deb [trusted=yes] file:/var/tmp/archive ./' >"$root/etc/apt/sources.list"
    in_root apt-get -q update
}
both() { status_is firstlight ii && in_root dpkg-query -W cloud-init | grep -q "	26\.2+firstlight" && verified; }
keeps_both() { in_root apt-get -q -y "$@" && both; }
version_is() { status_is cloud-init ii && [ "$(in_root dpkg-query -f '${Version}' -W cloud-init)" = "$1" ]; }
# One that installs over ours: its files are complete, and apt prefers it again.
is_back() { version_is "$1" && ! status_is firstlight ii && [ ! -e "$root/etc/apt/preferences.d/firstlight-cloud-init" ]; }
the_name() {
    local suite=$1 old command
    new_root "$suite" systemd cloud-init || return
    old=$(in_root dpkg-query -f '${Version}' -W cloud-init)
    an_archive >/dev/null 2>&1
    echo '# mine' >>"$root/etc/cloud/cloud.cfg"
    check "$suite: with the name: installs over cloud-init $old" \
        apt_install -o Dpkg::Options::=--force-confold /var/tmp/firstlight.deb /var/tmp/name.deb
    check "$suite: with the name: an edited cloud.cfg is kept" grep -q '^# mine' "$root/etc/cloud/cloud.cfg"
    rm "$root/etc/cloud/cloud.cfg"
    tar -C "$root" -xf <(dpkg-deb --fsys-tarfile "$deb") ./etc/cloud/cloud.cfg
    check "$suite: with the name: dpkg-query says 26.2" both
    check "$suite: with the name: all stages enabled" enabled
    check "$suite: with the name: no init script that systemd would run" find "$root/etc/init.d" -name 'cloud-*' -executable -exec false {} +
    for command in 'install cloud-init' 'install --reinstall cloud-init' upgrade dist-upgrade; do
        # shellcheck disable=SC2086 # several words
        check "$suite: with the name: apt-get $command changes nothing" keeps_both $command
    done
    check "$suite: with the name: it can be purged alone" in_root apt-get -q -y purge cloud-init
    check "$suite: with the name: then ours is untouched" verified
    check "$suite: with the name: and installed again" apt_install /var/tmp/name.deb
    check "$suite: the name: removed with firstlight" in_root apt-get -q -y remove firstlight
    check "$suite: the name: then the archive's is installed" apt_install cloud-init
    check "$suite: the name: which is there" is_back 99.1-1
    check "$suite: the name: ours comes back" apt_install --allow-downgrades /var/tmp/firstlight.deb /var/tmp/name.deb
    check "$suite: the name: a version that is named is installed" apt_install --allow-downgrades "cloud-init=$old"
    check "$suite: the name: which is there" is_back "$old"
}

# The commands of "Switch from Python's cloud-init", there and back. A reader says yes to apt.
page_of_the_switch() {
    local suite=$1 command
    new_root "$suite" systemd cloud-init || return
    an_archive >/dev/null 2>&1
    mkdir "$root/root/page"
    cp "$deb" "${deb%/*}"/cloud-init_*.deb "$root/root/page/"
    while read -r command; do
        check "$suite: the page: $command" env LC_ALL=C chroot "$root" sh -c "cd /root/page && $command" < <(yes)
        case $command in *force-confold*) check "$suite: the page: both are installed" both ;; esac
    done < <(sed -n '/^ *```sh package$/,/^ *```$/{/```/!p}' "$here/../docs/how-to/switch.md")
    check "$suite: the page: the archive's cloud-init is back" is_back 99.1-1
}

# answers TEXT: the files that debconf's answers become when this package is configured again
preseed() {
    printf '%s\n' "$@" | sed 's/^/cloud-init cloud-init\//' >"$root/var/tmp/answers"
    in_root debconf-set-selections /var/tmp/answers
    rm "$root/var/tmp/answers"
}
answers() {
    local suite=$1 dir=etc/cloud/cloud.cfg.d
    new_root "$suite" systemd || return
    preseed 'maas-metadata-url string http://maas.example/MAAS/metadata/' 'datasources multiselect MAAS, None' \
        "maas-metadata-credentials string oauth_consumer_key=C&oauth_token_key=T%2Bt&oauth_token_secret=it's" \
        'local-cloud-config string manual_cache_clean: true\npreserve_hostname: true'
    check "$suite: installs with answers of debconf" apt_install /var/tmp/firstlight.deb /var/tmp/name.deb
    check "$suite: answers: the files" files_are "datasource:
  MAAS:
    metadata_url: 'http://maas.example/MAAS/metadata/'
    consumer_key: 'C'
    token_key: 'T+t'
    token_secret: 'it''s'" 'manual_cache_clean: true
preserve_hostname: true' 'datasource_list: [ MAAS, None ]'
    check "$suite: answers: the secret is root's" test "$(stat -c %a "$root/$dir/90_dpkg_maas.cfg")" = 600
    check "$suite: answers: debconf has forgotten them" not grep -r --exclude='*-old' 'maas.example\|token_secret' "$root/var/cache/debconf"
    preseed 'maas-metadata-credentials string c:t:_' 'local-cloud-config string _' 'datasources multiselect [NoCloud]'
    check "$suite: answers: dpkg-reconfigure" in_root dpkg-reconfigure -fnoninteractive cloud-init
    check "$suite: answers: the changed files" files_are "datasource:
  MAAS:
    metadata_url: 'http://maas.example/MAAS/metadata/'
    consumer_key: 'c'
    token_key: 't'" '' 'datasource_list: [ NoCloud ]'
    preseed 'maas-metadata-url string _' 'maas-metadata-credentials string _:_:_'
    check "$suite: answers: dpkg-reconfigure of firstlight" in_root dpkg-reconfigure -fnoninteractive firstlight
    check "$suite: answers: the file is removed" files_are '' '' 'datasource_list: [ NoCloud ]'
    check "$suite: answers: purges" in_root apt-get -q -y purge firstlight
    check "$suite: answers: purged" not test -e "$root/etc/cloud"
}
# files_are MAAS LOCAL SOURCES: their text without comments, empty for a file that does not exist
files_are() {
    local name
    for name in _maas _local_cloud_config ''; do
        diff <(printf %s "${1:+$1
}") <(grep -v '^#' "$root/etc/cloud/cloud.cfg.d/90_dpkg$name.cfg" 2>/dev/null | grep .) || return
        shift
    done
}

fresh() {
    local suite=$1
    new_root "$suite" systemd || { check "$suite: a root without cloud-init" false; return; }
    # Records and logs of the package tools themselves are not ours.
    everything() { tree etc usr var/lib/systemd var/lib/cloud var/log/cloud-init*; }
    everything | sed 's/ [0-9.]* $//' >"$work/before"
    check "$suite: installs where there was no cloud-init" apt_install /var/tmp/firstlight.deb
    check "$suite: fresh: all stages enabled" enabled
    check "$suite: fresh: as packaged" verified
    check "$suite: fresh: the commands are there" test -L "$root/usr/bin/cloud-id" -a -L "$root/usr/bin/cloud-init-per"
    check "$suite: fresh: purges" in_root dpkg --purge firstlight
    everything | sed 's/ [0-9.]* $//' >"$work/after"
    check "$suite: fresh: purged without a trace" diff "$work/before" "$work/after"
}

# The host's lintian, or Debian's in a root of its own where the distribution has none.
lintian_accepts() {
    local root
    if command -v lintian >/dev/null; then
        lintian --allow-root --fail-on error "$1"
        return
    fi
    root=$(ROOT_BASE='' "$here/lib/root" trixie lintian) || return
    # shellcheck disable=SC2016 # expanded by the shell in the namespace
    unshare --mount --propagation private sh -c 'mount --bind "$1" "$2/mnt" && mount -t proc proc "$2/proc" &&
        exec chroot "$2" lintian --allow-root --fail-on error "/mnt/$3"' - "${1%/*}" "$root" "${1##*/}"
}
for package in "$deb" "${deb%/*}"/cloud-init_*.deb; do
    check "lintian finds no errors in ${package##*/}" lintian_accepts "$package"
done
for suite; do
    new_root "$suite" systemd cloud-init || { check "$suite: a root with cloud-init" false; continue; }
    over_the_suites_own "$suite"
    tree var/lib/cloud >"$work/state_only"
    upgrade_and_removal "$suite"
    the_way_back "$suite"
    a_disabled_stage "$suite"
    the_name "$suite"
    page_of_the_switch "$suite"
    answers "$suite"
    fresh "$suite"
done
echo "package-deb: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
