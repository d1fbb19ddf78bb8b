#!/bin/bash
# dist.sh TARBALL OUT [SUITE...] - the source release: reproducible, complete, and built without a network in clean roots: the
# Debian source package with each suite's own compiler (trixie forky sid), then the RPM in a root of the last suite. The
# packages are copied to OUT/SUITE and OUT/rpm. One line per fact, exit 1 if one fails. Needs root and a mirror.
#   JOBS  parallel jobs (the number of processors)
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/check.sh"
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
need_root
need unshare=util-linux dpkg-deb=dpkg rpm2cpio=rpm2cpio cpio=cpio
tarball=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- trixie forky sid
top=$(cd "$here/.." && pwd)
jobs=${JOBS:-$(nproc)}
mkdir -p "$cache/run" "$cache/package-roots"
work=$(mktemp -d "$cache/run/dist.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
name=$(basename "$tarball" .tar.xz)
version=${name#firstlight-}
tar -C "$work" -xf "$tarball"
tree=$work/$name

same_again() { TZ=Asia/Tokyo LC_ALL=C TMPDIR=/var/tmp REV=HEAD "$top/packaging/dist" "$work/again" >/dev/null && cmp "$tarball" "$work/again/$name.tar.xz"; }
listed() { (cd "$work/again" && sha256sum --check --strict --quiet SHA256SUMS); }
sbom_complete() {
    python3 - "$tree" <<-'END'
	import json, sys, tomllib
	top = sys.argv[1]
	sbom = json.load(open(f"{top}/sbom.cdx.json"))
	assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
	has = {(c["name"], c["version"]): c for c in sbom["components"]}
	refs = {c["bom-ref"] for c in has.values()} | {sbom["metadata"]["component"]["bom-ref"]}
	for package in tomllib.load(open(f"{top}/Cargo.lock", "rb"))["package"]:
	    one = has.pop((package["name"], package["version"]))
	    assert one["licenses"], package
	    if "checksum" in package:
	        assert one["hashes"] == [{"alg": "SHA-256", "content": package["checksum"]}], package
	assert not has, f"not in Cargo.lock: {list(has)}"
	for dependency in sbom["dependencies"]:
	    assert dependency["ref"] in refs and refs.issuperset(dependency["dependsOn"]), dependency
	END
}
# The two are made by different scripts: bundled has a line for each crate that is linked in.
licences_complete() {
    diff <("$top/packaging/bundled" <"$tree/sbom.cdx.json" | sed 's/.*(crate(\(.*\))) = /\1 /' | sort) \
        <(sed -n 's/^\([a-z0-9_-]*\) \([0-9.]*\)[+a-z0-9.-]*: .*/\1 \2/p' "$tree/licences.txt" | sort)
}
# licence_tag SBOM SPEC: the tag of the spec has the licence of each crate that is linked in, of Firstlight and of libblkid, and no other
licence_tag() {
    python3 - "$@" <<-'END'
	import json, re, sys
	# A choice in another order is the same choice.
	parts = lambda text: {" OR ".join(sorted(part.strip("() ").split(" OR "))) for part in text.split(" AND ")}
	tag = re.search(r"^License: *(.*)$", open(sys.argv[2]).read(), re.M)[1]
	wanted = {"Apache-2.0", "LGPL-2.1-or-later"}.union(*(
	    parts(component["licenses"][0]["expression"])
	    for component in json.load(open(sys.argv[1]))["components"] if component["scope"] == "required"))
	assert parts(tag) == wanted, f"License: {sorted(parts(tag) ^ wanted)}"
	END
}
inner_notices() {
    local file word
    for file in debian/copyright licences.txt; do
        for word in 'The OpenSSL Project Authors' 'Google Inc' 'the fiat-crypto authors'; do
            grep -q "$word" "$tree/$file" || { echo "$file: $word is missing"; return 1; }
        done
    done
    grep -q '^src/polyfill/once_cell/LICENSE-MIT:$' "$tree/licences.txt"
}
no_binaries() { ! find "$tree/vendor" -name '*.a' -o -name '*.o' -o -name '*.obj' -o -name '*.lib' -o -name '*.dll' | grep .; }
owners_and_times() {
    [ "$(tar --numeric-owner --full-time -tvf "$tarball" | awk '{ print $2, $4, $5 }' | sort -u | wc -l)" = 1 ]
}
sorted_names() { tar -tf "$tarball" | sed 's,/$,,' >"$work/names"; LC_ALL=C sort -c <(tr / '\001' <"$work/names"); }
a_changed_crate_is_refused() {
    cp -R "$tree" "$work/changed"
    echo '// changed' >>"$(find "$work/changed/vendor" -path '*/itoa-*/src/lib.rs')"
    local log=$work/changed.log
    ! (cd "$work/changed" && CARGO_HOME=$work/home unshare --net cargo check --locked -p itoa) >"$log" 2>&1 &&
        grep -q 'checksum' "$log"
}

# in_root COMMAND: runs it in the clean root, with no network but a loopback device that is down
in_root() {
    unshare --net --mount --fork --pid --kill-child bash -c 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 bash -ec "$1"' "$root" "$1"
}
# logged NAME COMMAND: as in_root; prints the end of its output only if it fails
logged() { in_root "$2" >"$work/$1.log" 2>&1 || { tail -n 20 "$work/$1.log"; return 1; }; }

# clean_root KIND SUITE PACKAGES HOOK...: the essential packages, PACKAGES and what the hooks of mmdebstrap add, in $root; kept
# in the cache until the requirements change
clean_root() {
    local kind=$1 suite=$2 packages=$3 tar hook hooks=()
    shift 3
    tar=$cache/package-roots/$suite-$kind-$(cat "$tree/debian/control" - <<<"$packages ${*//$tree/}" | sha256sum | cut -c1-8).tar
    for hook; do hooks+=(--customize-hook="$hook"); done
    if [ ! -s "$tar" ]; then
        # A frozen mirror may be past its Valid-Until; signatures are checked all the same.
        "$here/lib/mmdebstrap" --quiet --variant=minbase --format=tar --aptopt='Acquire::Check-Valid-Until "false"' \
            --aptopt='APT::Install-Recommends "false"' --include="$packages" "${hooks[@]}" \
            "$suite" "$tar.part" "$("$here/lib/mirror")" >"$work/bootstrap.log" 2>&1 ||
            { tail -n 5 "$work/bootstrap.log"; return 1; }
        rm -f "$cache/package-roots/$suite-$kind"-*.tar
        mv "$tar.part" "$tar"
    fi
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    tar -C "$root" --numeric-owner --exclude='./dev/*' -xpf "$tar"
    mkdir -p "$root/build"
    cp "$tarball" "$root/build/"
}
# apt finds the build dependencies itself, as it does for a packager: rustc-web provides rustc in stable releases.
# shellcheck disable=SC2016 # expanded by the shell of mmdebstrap
with_build_depends=('mkdir -p "$1/build/firstlight"' "copy-in '$tree/debian' /build/firstlight"
    'chroot "$1" apt-get -q -y build-dep /build/firstlight')
debian_root() {
    clean_root build "$1" build-essential,lintian "${with_build_depends[@]}"
}
debian_build() {
    logged deb "cd /build; cp $name.tar.xz firstlight_$version.orig.tar.xz; tar -xf firstlight_$version.orig.tar.xz; cd $name
        DEB_BUILD_OPTIONS=parallel=$jobs dpkg-buildpackage -us -uc" || return 1
    rm -rf "${out:?}/$1"
    mkdir -p "$out/$1"
    find "$root/build" -maxdepth 1 \( -name 'firstlight*_*' -o -name '*_all.deb' \) -exec cp -t "$out/$1" {} +
}
# The tags that stay have an override with the reason.
lintian_clean() {
    local found
    found=$(in_root "cd /build; lintian --fail-on none firstlight_*.changes" 2>&1) || { echo "$found"; return 1; }
    ! grep '^[EW]:' <<<"$found"
}
names_its_sources() {
    dpkg-deb -f "$(of_suite "$1")" Built-Using | grep -q 'glibc (= .*util-linux (= \|util-linux (= .*glibc (= ' &&
        dpkg-deb -f "$(of_suite "$1")" Static-Built-Using | grep -q '^rustc[a-z0-9.-]* (= '
}
has_book() {
    local docs=$work/docs package
    rm -rf "$docs"
    for package in firstlight firstlight-doc; do
        if [ "$1" = rpm ]; then
            mkdir -p "$docs"
            find "$out/rpm" -name "$package-$version-*" ! -name '*.src.rpm' -exec rpm2cpio {} + | cpio -id --quiet -D "$docs" || return 1
        else
            dpkg-deb -x "$out/$1/${package}_$version"-*.deb "$docs" || return 1
        fi
    done
    "$here/lib/book-links" "$docs/usr/share/doc/firstlight-doc/html" "$(find "$docs/usr/share/doc" -path '*/firstlight*/README.md')"
}
of_suite() { echo "$out/$1/firstlight_$version"-*.deb; }
# Paths, types, modes and owners; sizes depend on the compiler.
files_of() { dpkg-deb -c "$1" | awk '{ print $1, $2, $6, $7, $8 }' | sort; }
script_of() { dpkg-deb -I "$1" "$2" | grep -v '^$' | sort; }
same_tree() {
    local member quick=$work/quick/firstlight_*.deb
    rm -rf "$work/quick"
    BIN=$root/build/$name/build/bin "$top/deb/build" "$work/quick" >/dev/null || return 1
    # shellcheck disable=SC2086 # the pattern is one file
    quick=$(echo $quick)
    diff <(files_of "$quick") <(files_of "$(of_suite "$1")") || return 1
    for member in conffiles postinst postrm; do
        diff <(script_of "$quick" $member) <(script_of "$(of_suite "$1")" $member) || return 1
    done
}

# Debian's rpm, with Debian's packages: requirements have other names there (--nodeps). Sources of libblkid as the spec names them.
rpm_root() {
    local url mirror release
    url=$(sed -n 's/^Source1: *//p' "$tree/rpm/firstlight.spec")
    # The archive of upstream, which a Debian mirror has by another name.
    release=${url##*/util-linux-}
    release=${release%.tar.xz}
    mirror=$("$here/lib/mirror")
    # shellcheck disable=SC2016 # expanded by the shell of mmdebstrap
    clean_root rpm "$1" build-essential,xz-utils,cpio,elfutils,rpm,rpmlint "${with_build_depends[@]}" \
        'chroot "$1" /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file '"${mirror%/}/pool/main/u/util-linux/util-linux_$release.orig.tar.xz /build/${url##*/}"
}
# variant_of MACRO: the default configuration that the spec selects where the distribution defines this macro
variant_of() { rpmspec_of "$1" | sed -n 's/.* VARIANT=\([a-z]*\) .*/\1/p'; }
rpmspec_of() { in_root "cd /build; tar -xf $name.tar.xz $name/rpm; rpmspec -P --define '$1' $name/rpm/firstlight.spec"; }
variants_by_macros() {
    local macro want
    while IFS='|' read -r macro want; do
        [ "$(variant_of "$macro")" = "$want" ] || { echo "$macro: $(variant_of "$macro"), expected $want"; return 1; }
    done <<-'END'
	fedora 43|fedora
	rhel 10|rhel
	suse_version 1600|suse
	openEuler 2|openeuler
	amzn 2023|amazon
	azl 3|azurelinux
	END
    rpmspec_of 'suse_version 1600' | grep -q '^BuildRequires: *libblkid-devel-static$'
}
# The root's rpm may be newer than this host's, which reads packages of version 4 only.
rpm_build() {
    logged rpm "cd /build; export RPM_BUILD_NCPUS=$jobs; rpmbuild -ts --nodeps $name.tar.xz; rpm -i --nodeps ~/rpmbuild/SRPMS/firstlight-$version-1*.src.rpm
        rpmbuild -ba --nodeps --with doc --define '_rpmformat 4' ~/rpmbuild/SPECS/firstlight.spec" || return 1
    rm -rf "${out:?}/rpm"
    mkdir -p "$out/rpm"
    find "$root/root/rpmbuild" -name '*.rpm' -exec cp -t "$out/rpm" {} +
}
rpmlint_clean() {
    in_root "cd /build; rpmlint -r $name/rpm/firstlight.rpmlintrc \$(find ~/rpmbuild -name '*.rpm' ! -name '*-debug*' ! -name '*-doc-*') $name/rpm/firstlight.spec"
}
# On a Debian root with this host's rpm.
rpm_installs() { "$here/package-rpm.sh" "$(find "$out/rpm" -name "firstlight-$version-*" ! -name '*.src.rpm')"; }

check "the same commit gives the same bytes" same_again
check "SHA256SUMS has the archive" listed
check "names are sorted" sorted_names
check "one owner and one time" owners_and_times
check "no binary files among the crates" no_binaries
check "the SBOM has each crate of Cargo.lock with its licence and checksum" sbom_complete
check "the licence list has each crate of the SBOM that is linked in" licences_complete
check "the copyright file and the licence list have the notices inside of crates" inner_notices
check "rpm: the tag License has the licences of the SBOM" licence_tag "$tree/sbom.cdx.json" "$tree/rpm/firstlight.spec"
check "a crate that was changed is refused" a_changed_crate_is_refused
for suite; do
    check "$suite: a clean root with the build dependencies" debian_root "$suite"
    check "$suite: dpkg-buildpackage without a network" debian_build "$suite"
    check "$suite: lintian has neither errors nor warnings" lintian_clean
    check "$suite: the package names the sources of what is linked in" names_its_sources "$suite"
    check "$suite: firstlight-doc has the book, to which the README of firstlight leads" has_book "$suite"
    check "$suite: the same tree as make deb" same_tree "$suite"
done
check "rpm: a clean root of $suite" rpm_root "$suite"
check "rpm: each distribution's macros select its defaults" variants_by_macros
check "rpm: the source package, and rpmbuild -ba of it without a network" rpm_build
check "rpm: firstlight-doc has the book, to which the README of firstlight leads" has_book rpm
check "rpm: rpmlint has neither errors nor warnings" rpmlint_clean
check "rpm: the package installs, is upgraded and erased" rpm_installs
echo "dist: $passed passed, $failed failed, $((SECONDS / 60)) min"
[ "$failed" -eq 0 ]
