//! Certificates that the machine trusts: where a distribution keeps them, and what makes a change of them known.

/// The columns of a distribution's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustData {
    /// Whether upstream names the distribution as one that `ca_certs` is for.
    pub verified: bool,
    /// Where additional certificates go.
    pub directory: &'static str,
    /// The end of their files' names.
    pub extension: &'static str,
    /// The program that makes a change known, run without arguments.
    pub refresh: &'static str,
    pub distrust: Distrust,
}

/// How the certificates that the distribution brings are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Every line of the list at `path` gets a `!`. With `debconf`, its question about later ones is answered too.
    Lines { path: &'static str, debconf: bool },
    /// These directories are emptied.
    Directories(&'static [&'static str]),
    /// There is no way.
    None,
}

impl TrustData {
    pub(crate) const DEBIAN: TrustData = TrustData {
        verified: true,
        directory: "/usr/local/share/ca-certificates",
        extension: "crt",
        refresh: "update-ca-certificates",
        distrust: Distrust::Lines { path: "/etc/ca-certificates.conf", debconf: true },
    };

    /// The defaults of the family stay: upstream removes them for the two names alone that have [`Self::RHEL`].
    pub(crate) const RED_HAT: TrustData = TrustData {
        directory: "/usr/share/pki/ca-trust-source/anchors",
        refresh: "update-ca-trust",
        distrust: Distrust::None,
        ..TrustData::DEBIAN
    };

    pub(crate) const RHEL: TrustData = TrustData {
        distrust: Distrust::Directories(&["/etc/pki/ca-trust", "/usr/share/pki/ca-trust-source"]),
        ..TrustData::RED_HAT
    };

    pub(crate) const SUSE: TrustData = TrustData {
        directory: "/usr/share/pki/trust/anchors",
        distrust: Distrust::None,
        ..TrustData::DEBIAN
    };

    pub(crate) const ALPINE: TrustData = TrustData {
        distrust: Distrust::Lines { path: "/etc/ca-certificates.conf", debconf: false },
        ..TrustData::DEBIAN
    };

    pub(crate) const PHOTON: TrustData = TrustData {
        directory: "/etc/ssl/certs",
        extension: "pem",
        refresh: "rehash_ca_certificates.sh",
        distrust: Distrust::Directories(&["/etc/pki/tls/certs", "/etc/ssl/certs"]),
        ..TrustData::DEBIAN
    };

    pub(crate) const AOSC: TrustData = TrustData {
        directory: "/etc/ssl/certs",
        extension: "pem",
        refresh: "update-ca-bundle",
        distrust: Distrust::Lines { path: "/etc/ca-certificates/conf.d/cloud-init.conf", debconf: false },
        ..TrustData::DEBIAN
    };

    /// The same for a distribution that upstream does not name.
    pub(crate) const fn unverified(self) -> TrustData {
        TrustData { verified: false, ..self }
    }
}
