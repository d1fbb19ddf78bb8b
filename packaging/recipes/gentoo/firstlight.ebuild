# Copyright 2026 Gentoo Authors
# Distributed under the terms of the GNU General Public License v2

EAPI=8

RUST_MIN_VER="1.88.0"
inherit rust systemd

DESCRIPTION="Cloud instance initialization, compatible with cloud-init"
HOMEPAGE="https://firstlight.example/"
SRC_URI="https://firstlight.example/releases/${P}.tar.xz"

# With what is linked in statically.
LICENSE="Apache-2.0 BSD ISC LGPL-2.1+ MIT"
SLOT="0"
KEYWORDS="~amd64 ~arm64"

# What is linked in statically.
DEPEND="
	sys-apps/util-linux[static-libs]
	elibc_glibc? ( sys-libs/glibc[static-libs(+)] )
"
RDEPEND="
	!app-emulation/cloud-init
	sys-apps/shadow
	sys-apps/util-linux
"

QA_FLAGS_IGNORED="usr/bin/.* usr/lib/.*"

src_compile() {
	# The crates are in the archive, and cargo is told so by .cargo/config.toml.
	JOBS=1 TARGET="$(rust_abi)" packaging/build build/bin || die
}

src_test() {
	cargo test --locked -p config -p encoding || die
}

src_install() {
	packaging/install VARIANT=gentoo BIN=build/bin DESTDIR="${ED}" VERSION="${PV}" || die
	insinto /usr/lib/systemd/system-preset
	doins packaging/systemd/85-cloud-init.preset
	dodoc CHANGELOG.md README.md licences.txt sbom.cdx.json
}

pkg_postinst() {
	elog "To enable Firstlight, which then starts on machines with a datasource:"
	elog "systemd: systemctl preset cloud-init-{local,network}.service cloud-{config,final}.service cloud-init-hotplugd.socket"
	elog "OpenRC: rc-update add cloud-init-ds-identify boot; rc-update add cloud-init-local boot"
	elog "        rc-update add cloud-init default; rc-update add cloud-config default; rc-update add cloud-final default"
}
