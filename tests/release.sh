#!/bin/bash
# release.sh DIR - the assets of a release (packaging/release), each installed in a bare Debian root or run there. One line per
# fact, exit 1 if one fails. Needs root.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/lib/common.sh"
. "$here/lib/check.sh"
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
need_root
need rpm=rpm xz=xz-utils
dir=$(realpath "$1")
source=$(find "$dir" -regex '.*/firstlight-[0-9.]*\.tar\.xz')
version=$(basename "$source" .tar.xz)
version=${version#firstlight-}
base=$(ROOT_BASE='' "$here/lib/root" trixie) || exit 1
mkdir -p "$cache/run"
work=$(mktemp -d "$cache/run/release.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

# new_root NAME: sets root to a copy of the minimal root
new_root() { root=$work/$1; cp -a --reflink=auto "$base" "$root"; }
runs() { chroot "$root" "${1:-cloud-init}" --version | grep -F "cloud-init 26.2 (Firstlight $version)"; }
plans() {
    printf '#cloud-config\nhostname: released\n' >"$root/user-data"
    chroot "$root" "${1:-cloud-init}" schema --config-file /user-data
}
unpacked() { tar -C "$work" -xf "$dir/firstlight-$version$1.tar.xz"; }
complete() { (cd "$dir" && sha256sum --check --strict --quiet SHA256SUMS && diff <(cut -c67- SHA256SUMS) <(ls | grep -v '^SHA256SUMS')); }
signed() { gpg --batch --verify "$dir/SHA256SUMS.asc" "$dir/SHA256SUMS"; }
by_dpkg() { cp "$dir"/{firstlight,cloud-init}_*.deb "$root/" && chroot "$root" sh -c 'dpkg --path-include="/usr/share/doc/*" --install /*.deb'; }
by_rpm() {
    rpm --root "$root" --dbpath /var/lib/rpm --initdb &&
        rpm --root "$root" --dbpath /var/lib/rpm --nodeps -i "$dir"/firstlight-"$version"-*.rpm "$dir"/cloud-init-*.rpm
}
lists_crates() { zcat -f "$root"/usr/share/doc/firstlight*/sbom.cdx.json* | grep -F '"purl": "pkg:cargo/' >/dev/null; }
in_place() { unpacked "-$(uname -m)-linux" && mv "$work/firstlight-$version-$(uname -m)-linux" "$root/opt/firstlight"; }
installs_from_source() {
    unpacked '' && "$work/firstlight-$version/packaging/install" VARIANT=debian BIN="$work/static/opt/firstlight" DESTDIR="$root" VERSION="$version"
}
names_the_archive() {
    local kind
    unpacked -recipes || return 1
    ! grep -rE '@[A-Z0-9_]+@' "$work/firstlight-$version-recipes" || return 1
    for kind in 256 512; do grep -rqF "$("sha${kind}sum" "$source" | cut -d' ' -f1)" "$work/firstlight-$version-recipes" || return 1; done
}
# packaged RECIPE: the recipe's step that lays out the files, on the static programs
packaged() (
    srcdir=$work pkgdir=$root
    . "$work/firstlight-$version-recipes/$1"
    # abuild starts it in the directory of the sources, makepkg above it.
    cd "$work/firstlight-$version" && mkdir -p build && ln -sfn . "firstlight-$version" && ln -sfn "$work/static/opt/firstlight" build/bin && package
)
has_pages() { unpacked -book && grep -q 'Firstlight' "$work/firstlight-$version-book/docs/tutorial.html"; }

check "SHA256SUMS has each asset, with its checksum" complete
if [ -e "$dir/SHA256SUMS.asc" ]; then check "SHA256SUMS is signed" signed; fi
new_root deb
check "deb: installs" by_dpkg
check "deb: runs" runs
check "deb: validates a cloud-config" plans
check "deb: its SBOM lists crates" lists_crates
new_root rpm
check "rpm: installs" by_rpm
check "rpm: runs" runs
check "rpm: its SBOM lists crates" lists_crates
new_root static
check "static programs: unpack" in_place
check "static programs: run" runs /opt/firstlight/cloud-init
check "static programs: validate a cloud-config" plans /opt/firstlight/cloud-init
new_root source
check "source: installs" installs_from_source
check "source: runs" runs
check "recipes: name the archive by its checksum" names_the_archive
for recipe in alpine/APKBUILD arch/PKGBUILD; do
    new_root "${recipe%/*}"
    check "recipes: $recipe lays out the files" packaged "$recipe"
    check "recipes: which run" runs
done
if [ -e "$dir/firstlight-$version-book.tar.xz" ]; then check "book: has pages" has_pages; else echo 'not tried: the book: it is not in the release'; fi
echo "release: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
