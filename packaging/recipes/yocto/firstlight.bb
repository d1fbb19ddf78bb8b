SUMMARY = "Cloud instance initialization, compatible with cloud-init"
DESCRIPTION = "Firstlight configures a cloud machine during its boot from the metadata and user-data of its platform."
HOMEPAGE = "https://firstlight.example/"
BUGTRACKER = "https://firstlight.example/"
SECTION = "base"
CVE_PRODUCT = "firstlight cloud-init"
# With what is linked in statically.
LICENSE = "Apache-2.0 & BSD-3-Clause & ISC & LGPL-2.1-or-later & MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=@LICENSE_MD5@"

# libblkid is linked in statically: local.conf has DISABLE_STATIC:pn-util-linux = "".
DEPENDS = "util-linux"

SRC_URI = "https://firstlight.example/releases/firstlight-${PV}.tar.xz"
SRC_URI[sha256sum] = "@SHA256@"

inherit cargo systemd

# The crates are in the archive, with cargo's configuration of them.
CARGO_DISABLE_BITBAKE_VENDORING = "1"
CARGO_BUILD_FLAGS:append = " --workspace --exclude tests --bins"
export BLKID_LIB_DIR = "${STAGING_LIBDIR}"

do_configure:append() {
    cat ${S}/.cargo/config.toml >>${CARGO_HOME}/config.toml
}

# VARIANT selects the defaults (packaging/variants).
FIRSTLIGHT_VARIANT ?= "unknown"
do_install() {
    cd ${S}
    packaging/install VARIANT=${FIRSTLIGHT_VARIANT} BIN=${B}/target/${CARGO_TARGET_SUBDIR} DESTDIR=${D} PREFIX=${prefix} VERSION=${PV}
    install -Dm 0644 packaging/systemd/85-cloud-init.preset ${D}${systemd_unitdir}/system-preset/85-cloud-init.preset
    install -Dm 0644 licences.txt ${D}${datadir}/licenses/${BPN}/licences.txt
    install -Dm 0644 sbom.cdx.json ${D}${docdir}/${BPN}/sbom.cdx.json
}

# Enabled, as is BitBake's default; the generator starts them only on a machine with a datasource.
SYSTEMD_SERVICE:${PN} = "cloud-init-local.service cloud-init-network.service cloud-config.service cloud-final.service cloud-init-hotplugd.socket"
FILES:${PN} += "${prefix}/lib ${systemd_unitdir} ${datadir}"
CONFFILES:${PN} = "${sysconfdir}/cloud/cloud.cfg ${sysconfdir}/cloud/cloud.cfg.d/05_logging.cfg"
RDEPENDS:${PN} = "shadow util-linux"
RPROVIDES:${PN} = "cloud-init"
RCONFLICTS:${PN} = "cloud-init"
