#!/bin/bash
# dist.sh TARBALL - the source release: the same bytes twice, complete, built without a network; the Debian source package
# in a clean root with Debian's own rustc, and the same tree as `make deb`; the source rpm. One line per fact, exit 1
# if one fails. Needs root and a mirror.
#   FIRSTLIGHT_SUITE  suite of the clean root (forky)
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/check.sh"
[ $# -eq 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
need_root
need unshare=util-linux dpkg-deb=dpkg
tarball=$(realpath "$1")
top=$(cd "$here/.." && pwd)
suite=${FIRSTLIGHT_SUITE:-forky}
mkdir -p "$cache/run"
work=$(mktemp -d "$cache/run/dist.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
name=$(basename "$tarball" .tar.xz)
version=${name#firstlight-}
tar -C "$work" -xf "$tarball"
tree=$work/$name

same_again() { TZ=Asia/Tokyo LC_ALL=C TMPDIR=/var/tmp REV=HEAD "$top/packaging/dist" "$work/again" >/dev/null && cmp "$tarball" "$work/again/$name.tar.xz"; }
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
# in_root COMMAND: in the clean root, with no network but a loopback that is down
in_root() {
    unshare --net --mount --fork --pid bash -c 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 bash -ec "$1"' "$work/root" "$1"
}
clean_root() {
    local tar=$cache/package-roots/$suite-build.tar
    mkdir -p "$work/root" "$cache/package-roots"
    if [ ! -s "$tar" ]; then
        "$here/lib/mmdebstrap" --quiet --variant=minbase --format=tar --aptopt='Acquire::Check-Valid-Until "false"' \
            --aptopt='APT::Install-Recommends "false"' \
            --include=build-essential,debhelper,cargo,rustc,libblkid-dev,python3,lintian,rpm,rpmlint,xz-utils,cpio \
            "$suite" "$tar.part" "$("$here/lib/mirror")" >"$work/bootstrap.log" 2>&1 ||
            { tail -n 5 "$work/bootstrap.log"; return 1; }
        mv "$tar.part" "$tar"
    fi
    tar -C "$work/root" --numeric-owner --exclude='./dev/*' -xpf "$tar"
    mkdir -p "$work/root/build"
    cp "$tarball" "$work/root/build/firstlight_$version.orig.tar.xz"
    cp "$tarball" "$work/root/build/"
}
debian_build() {
    in_root "cd /build; tar -xf firstlight_$version.orig.tar.xz; cd $name
        DEB_BUILD_OPTIONS=parallel=$(nproc) dpkg-buildpackage -us -uc" >"$work/deb.log" 2>&1 || { tail -n 20 "$work/deb.log"; return 1; }
}
lintian_clean() {
    local found
    found=$(in_root "cd /build; lintian --fail-on none firstlight_*.changes" 2>&1 | grep '^[EW]:')
    [ -z "$found" ] || { echo "$found"; return 1; }
}
# The package's paths with types, modes and owners; sizes of programs depend on the compiler.
files_of() { dpkg-deb -c "$1" | awk '{ print $1, $2, $6, $7, $8 }' | sort; }
same_tree() {
    BIN=$work/root/build/$name/build/bin "$top/deb/build" "$work/quick" >/dev/null &&
        diff <(files_of "$work"/quick/firstlight_*.deb) <(files_of "$work"/root/build/firstlight_"$version"-*.deb) &&
        diff <(dpkg-deb -I "$work"/quick/firstlight_*.deb conffiles | sort) \
            <(dpkg-deb -I "$work"/root/build/firstlight_"$version"-*.deb conffiles | sort) &&
        diff <(dpkg-deb -I "$work"/quick/firstlight_*.deb postinst | grep -v '^$') \
            <(dpkg-deb -I "$work"/root/build/firstlight_"$version"-*.deb postinst | grep -v '^$')
}
# Debian has the requirements under other names (--nodeps), and a static libblkid.
rpm_build() {
    in_root "cd /build; rpmbuild -ts --nodeps --without bundled_blkid $name.tar.xz
        rpmbuild --rebuild --nodeps --without bundled_blkid --without check ~/rpmbuild/SRPMS/firstlight-*.src.rpm" \
        >"$work/rpm.log" 2>&1 || { tail -n 20 "$work/rpm.log"; return 1; }
}

rpmlint_clean() {
    in_root "cd /build; rpmlint -r $name/rpm/firstlight.rpmlintrc ~/rpmbuild/RPMS/*/firstlight-$version-*.rpm $name/rpm/firstlight.spec"
}

check "the same commit gives the same bytes" same_again
check "names are sorted" sorted_names
check "one owner and one time" owners_and_times
check "no binary files among the crates" no_binaries
check "the SBOM has each crate of Cargo.lock with its licence and checksum" sbom_complete
check "the licence list names the crates" grep -q '^ring ' "$tree/licences.txt"
check "a crate that was changed is refused" a_changed_crate_is_refused
check "$suite: a clean root" clean_root
check "$suite: dpkg-buildpackage without a network" debian_build
check "$suite: lintian has neither errors nor warnings" lintian_clean
check "$suite: the same tree as make deb" same_tree
check "$suite: the source rpm and the package from it" rpm_build
check "$suite: rpmlint has neither errors nor warnings" rpmlint_clean
echo "dist: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
