################################################################################
#
# firstlight
#
################################################################################

FIRSTLIGHT_VERSION = @VERSION@
FIRSTLIGHT_SOURCE = firstlight-$(FIRSTLIGHT_VERSION).tar.xz
FIRSTLIGHT_SITE = https://firstlight.example/releases
# With what is linked in statically.
FIRSTLIGHT_LICENSE = Apache-2.0, BSD-3-Clause, ISC, LGPL-2.1+, MIT
FIRSTLIGHT_LICENSE_FILES = LICENSE licences.txt
FIRSTLIGHT_DEPENDENCIES = host-python3 host-rustc util-linux

# The crates are in the archive.
define FIRSTLIGHT_BUILD_CMDS
	cd $(@D) && $(TARGET_MAKE_ENV) $(TARGET_CONFIGURE_OPTS) $(PKG_CARGO_ENV) \
		BLKID_LIB_DIR=$(STAGING_DIR)/usr/lib TARGET=$(RUSTC_TARGET_NAME) \
		JOBS=$(PARALLEL_JOBS) packaging/build build/bin
endef

define FIRSTLIGHT_INSTALL_TARGET_CMDS
	cd $(@D) && packaging/install VARIANT=unknown BIN=build/bin \
		DESTDIR=$(TARGET_DIR) VERSION=$(FIRSTLIGHT_VERSION)
endef

define FIRSTLIGHT_INSTALL_INIT_SYSTEMD
	$(INSTALL) -D -m 0644 $(@D)/packaging/systemd/85-cloud-init.preset \
		$(TARGET_DIR)/usr/lib/systemd/system-preset/85-cloud-init.preset
endef

$(eval $(generic-package))
