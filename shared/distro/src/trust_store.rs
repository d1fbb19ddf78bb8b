//! Certificates that the machine trusts: where a distribution stores them, and how a change takes effect.

/// The trust store of a distribution: columns of its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustStore {
    /// Whether upstream's `ca_certs` supports the distribution.
    pub verified: bool,
    /// The directory of additional certificates.
    pub directory: &'static str,
    /// The suffix of their file names.
    pub extension: &'static str,
    /// The program that applies a change, run without arguments.
    pub update_command: &'static str,
    /// The method of removing default certificates.
    pub remove_defaults: RemoveDefaults,
}

/// The method of removing the certificates that the distribution provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveDefaults {
    /// Each line of the list at `path` gets a `!`. With `debconf`, its question about new certificates is answered too.
    DeselectLines {
        /// The list of certificates.
        path: &'static str,
        /// Whether to preseed debconf.
        debconf: bool,
    },
    /// These directories are emptied.
    EmptyDirectories(&'static [&'static str]),
    /// Removal is not supported.
    Unsupported,
}

impl TrustStore {
    pub(crate) const DEBIAN: TrustStore = TrustStore {
        verified: true,
        directory: "/usr/local/share/ca-certificates",
        extension: "crt",
        update_command: "update-ca-certificates",
        remove_defaults: RemoveDefaults::DeselectLines { path: "/etc/ca-certificates.conf", debconf: true },
    };

    /// The family's default certificates are kept: upstream removes them only for the two names that have [`Self::RHEL`].
    pub(crate) const RED_HAT: TrustStore = TrustStore {
        directory: "/usr/share/pki/ca-trust-source/anchors",
        update_command: "update-ca-trust",
        remove_defaults: RemoveDefaults::Unsupported,
        ..TrustStore::DEBIAN
    };

    pub(crate) const RHEL: TrustStore = TrustStore {
        remove_defaults: RemoveDefaults::EmptyDirectories(&[
            "/etc/pki/ca-trust",
            "/usr/share/pki/ca-trust-source",
        ]),
        ..TrustStore::RED_HAT
    };

    pub(crate) const SUSE: TrustStore = TrustStore {
        directory: "/usr/share/pki/trust/anchors",
        remove_defaults: RemoveDefaults::Unsupported,
        ..TrustStore::DEBIAN
    };

    pub(crate) const ALPINE: TrustStore = TrustStore {
        remove_defaults: RemoveDefaults::DeselectLines { path: "/etc/ca-certificates.conf", debconf: false },
        ..TrustStore::DEBIAN
    };

    pub(crate) const PHOTON: TrustStore = TrustStore {
        directory: "/etc/ssl/certs",
        extension: "pem",
        update_command: "rehash_ca_certificates.sh",
        remove_defaults: RemoveDefaults::EmptyDirectories(&["/etc/pki/tls/certs", "/etc/ssl/certs"]),
        ..TrustStore::DEBIAN
    };

    pub(crate) const AOSC: TrustStore = TrustStore {
        directory: "/etc/ssl/certs",
        extension: "pem",
        update_command: "update-ca-bundle",
        remove_defaults: RemoveDefaults::DeselectLines {
            path: "/etc/ca-certificates/conf.d/cloud-init.conf",
            debconf: false,
        },
        ..TrustStore::DEBIAN
    };

    /// Returns the same for a distribution that upstream's module does not support. The list of certificates and debconf are
    /// Debian's, so that only certificates can be added.
    pub(crate) const fn unverified(self) -> TrustStore {
        TrustStore { verified: false, remove_defaults: RemoveDefaults::Unsupported, ..self }
    }
}
