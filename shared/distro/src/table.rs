//! One row per distribution. A column is added here when two distributions differ in it.

use system::System;

use crate::columns::{HostnameMethod, LocaleMethod, NtpSettings, PackageManager, TimezoneMethod};
use crate::{NetworkFiles, TrustStore};

/// A group of distributions with mostly the same tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Debian and its derivatives.
    Debian,
    /// Red Hat and its derivatives.
    RedHat,
    /// SUSE and openSUSE.
    Suse,
    /// Alpine Linux.
    Alpine,
    /// Arch Linux.
    Arch,
    /// Gentoo Linux.
    Gentoo,
    /// Any other distribution.
    Other,
}

/// A distribution, as `system_info.distro` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distro {
    /// The name, as `distro:` in the configuration.
    pub name: &'static str,
    /// The family that the distribution belongs to.
    pub family: Family,
    /// The name in templates that a family shares: `hosts.debian.tmpl`.
    pub template_suffix: &'static str,
    /// The address of the machine's own name in /etc/hosts.
    pub localhost_ip: &'static str,
    /// Whether the hostname is the FQDN if the configuration does not say.
    pub prefers_fqdn: bool,
    /// The method of storing the hostname.
    pub hostname: HostnameMethod,
    /// The method of storing the locale.
    pub locale: LocaleMethod,
    /// The default locale.
    pub default_locale: &'static str,
    /// The method of storing the time zone.
    pub timezone: TimezoneMethod,
    /// The package manager.
    pub package_manager: PackageManager,
    /// Whether a package that the manager does not have may be a snap.
    pub snap_fallback: bool,
    /// The SSH server's unit.
    pub ssh_service: &'static str,
    /// Whether private host keys belong to the group ssh_keys.
    pub ssh_key_group: bool,
    /// Whether a machine without a network configuration is left to the distribution's own tools for the first boot.
    pub has_own_network_setup: bool,
    /// The settings of time clients.
    pub ntp: NtpSettings,
    /// The trusted certificates.
    pub trust_store: TrustStore,
    /// The files of the network configuration.
    pub network_files: NetworkFiles,
}

const DEBIAN: Distro = Distro {
    name: "debian",
    family: Family::Debian,
    template_suffix: "debian",
    localhost_ip: "127.0.1.1",
    prefers_fqdn: false,
    hostname: HostnameMethod::File,
    locale: LocaleMethod::Debian,
    default_locale: "C.UTF-8",
    timezone: TimezoneMethod::FileAndLink,
    package_manager: PackageManager::Apt,
    snap_fallback: false,
    ssh_service: "ssh",
    ssh_key_group: false,
    has_own_network_setup: false,
    ntp: NtpSettings { chrony_conf: "/etc/chrony/chrony.conf", ..NtpSettings::DEFAULT },
    trust_store: TrustStore::DEBIAN,
    network_files: NetworkFiles::DEBIAN,
};

const RED_HAT: Distro = Distro {
    name: "rhel",
    family: Family::RedHat,
    template_suffix: "redhat",
    localhost_ip: "127.0.0.1",
    prefers_fqdn: true,
    hostname: HostnameMethod::Hostnamectl,
    locale: LocaleMethod::LocaleConf,
    default_locale: "en_US.UTF-8",
    timezone: TimezoneMethod::Link,
    package_manager: PackageManager::Dnf,
    snap_fallback: false,
    ssh_service: "sshd",
    ssh_key_group: true,
    has_own_network_setup: false,
    ntp: NtpSettings { chrony_service: "chronyd", ntp_service: "ntpd", ..NtpSettings::DEFAULT },
    trust_store: TrustStore::RED_HAT,
    network_files: NetworkFiles::RED_HAT,
};

/// A distribution with Red Hat's tools that does not belong to the family by name.
const RED_HAT_LIKE: Distro = Distro {
    family: Family::Other,
    ssh_key_group: false,
    trust_store: TrustStore::RED_HAT.unverified(),
    ..RED_HAT
};

const VMWARE: Distro = Distro {
    prefers_fqdn: true,
    localhost_ip: "127.0.0.1",
    timezone: TimezoneMethod::FileAndLink,
    locale: LocaleMethod::LocaleConfAndRestart,
    package_manager: PackageManager::Tdnf,
    ssh_key_group: false,
    ntp: NtpSettings {
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        timesyncd_conf: "/etc/systemd/timesyncd.conf",
        ..NtpSettings::DEFAULT
    },
    trust_store: TrustStore::RED_HAT.unverified(),
    network_files: NetworkFiles::DEFAULT,
    ..RED_HAT
};

const SUSE: Distro = Distro {
    name: "suse",
    family: Family::Suse,
    template_suffix: "suse",
    localhost_ip: "127.0.1.1",
    prefers_fqdn: false,
    locale: LocaleMethod::LocaleConf,
    default_locale: "en_US.UTF-8",
    package_manager: PackageManager::Zypper,
    ssh_key_group: false,
    ntp: NtpSettings {
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        preferred_clients: &["chrony", "systemd-timesyncd", "ntp"],
        vendor_zone: "opensuse",
        ..NtpSettings::DEFAULT
    },
    trust_store: TrustStore::SUSE,
    network_files: NetworkFiles::SUSE,
    ..RED_HAT
};

const ALPINE: Distro = Distro {
    name: "alpine",
    family: Family::Alpine,
    template_suffix: "alpine",
    localhost_ip: "127.0.1.1",
    locale: LocaleMethod::AlpineProfile,
    package_manager: PackageManager::Apk,
    ssh_service: "sshd",
    ntp: NtpSettings {
        chrony_conf: "/etc/chrony/chrony.conf",
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        ntp_package: "",
        pool_domain: "pool.ntp.org",
        vendor_zone: "",
        preferred_clients: &["chrony", "ntp"],
        ..NtpSettings::DEFAULT
    },
    trust_store: TrustStore::ALPINE,
    network_files: NetworkFiles::ALPINE,
    ..DEBIAN
};

const ARCH: Distro = Distro {
    name: "arch",
    family: Family::Arch,
    template_suffix: "arch",
    localhost_ip: "127.0.0.1",
    hostname: HostnameMethod::FileAndHostnamectl,
    locale: LocaleMethod::ArchGen,
    default_locale: "en_US.UTF-8",
    package_manager: PackageManager::Pacman,
    ssh_service: "sshd",
    ntp: NtpSettings { verified: false, ..NtpSettings::DEFAULT },
    trust_store: TrustStore::DEBIAN.unverified(),
    network_files: NetworkFiles::ARCH,
    ..DEBIAN
};

const GENTOO: Distro = Distro {
    name: "gentoo",
    family: Family::Gentoo,
    template_suffix: "gentoo",
    hostname: HostnameMethod::Gentoo,
    locale: LocaleMethod::Gentoo,
    package_manager: PackageManager::Emerge,
    network_files: NetworkFiles::DEFAULT,
    ..ARCH
};

const AOSC: Distro = Distro {
    name: "aosc",
    family: Family::Other,
    template_suffix: "aosc",
    hostname: HostnameMethod::Hostnamectl,
    locale: LocaleMethod::LocaleConf,
    timezone: TimezoneMethod::Link,
    package_manager: PackageManager::Oma,
    ntp: NtpSettings { timesyncd_conf: "/etc/systemd/timesyncd.conf", ..NtpSettings::DEFAULT },
    trust_store: TrustStore::AOSC,
    network_files: NetworkFiles::RED_HAT,
    ..ARCH
};

const DISTROS: &[Distro] = &[
    Distro { name: "almalinux", ..RED_HAT },
    ALPINE,
    Distro {
        name: "amazon",
        ntp: NtpSettings { verified: false, ..RED_HAT.ntp },
        trust_store: TrustStore::RHEL,
        ..RED_HAT
    },
    AOSC,
    ARCH,
    Distro {
        name: "azurelinux",
        template_suffix: "azurelinux",
        localhost_ip: "127.0.0.1",
        ssh_key_group: false,
        ntp: NtpSettings {
            chrony_service: "chronyd",
            timesyncd_conf: "/etc/systemd/timesyncd.conf",
            ..NtpSettings::DEFAULT
        },
        trust_store: TrustStore::RED_HAT.unverified(),
        network_files: NetworkFiles::AZURE_LINUX,
        ..RED_HAT
    },
    Distro { name: "centos", ..RED_HAT },
    Distro { name: "cloudlinux", ..RED_HAT },
    Distro {
        name: "cos",
        ntp: NtpSettings {
            chrony_conf: "/etc/chrony/chrony.conf",
            chrony_service: "chronyd",
            ..NtpSettings::DEFAULT
        },
        ..GENTOO
    },
    DEBIAN,
    Distro {
        name: "eurolinux",
        ntp: NtpSettings { vendor_zone: "", ..RED_HAT.ntp },
        trust_store: TrustStore::RED_HAT.unverified(),
        ..RED_HAT
    },
    Distro { name: "fedora", ..RED_HAT },
    GENTOO,
    Distro { name: "mariner", template_suffix: "mariner", network_files: NetworkFiles::MARINER, ..VMWARE },
    Distro { name: "miraclelinux", trust_store: TrustStore::RED_HAT.unverified(), ..RED_HAT },
    Distro { name: "OpenCloudOS", template_suffix: "OpenCloudOS", ..RED_HAT_LIKE },
    Distro { name: "openeuler", template_suffix: "openeuler", ..RED_HAT_LIKE },
    Distro { name: "openmandriva", trust_store: TrustStore::RED_HAT.unverified(), ..RED_HAT },
    Distro { name: "opensuse", ..SUSE },
    Distro { name: "opensuse-leap", ..SUSE },
    Distro { name: "opensuse-microos", ..SUSE },
    Distro { name: "opensuse-tumbleweed", ..SUSE },
    Distro {
        name: "photon",
        template_suffix: "photon",
        localhost_ip: "127.0.1.1",
        has_own_network_setup: true,
        trust_store: TrustStore::PHOTON,
        ..VMWARE
    },
    Distro {
        name: "raspberry-pi-os",
        locale: LocaleMethod::RaspiConfig,
        has_own_network_setup: true,
        ..DEBIAN
    },
    Distro { trust_store: TrustStore::RHEL, ..RED_HAT },
    Distro { name: "rocky", ..RED_HAT },
    Distro { name: "sle-micro", ..SUSE },
    Distro { name: "sle_hpc", ..SUSE },
    Distro { name: "sles", ..SUSE },
    SUSE,
    Distro { name: "TencentOS", template_suffix: "OpenCloudOS", ..RED_HAT_LIKE },
    Distro { name: "ubuntu", snap_fallback: true, network_files: NetworkFiles::UBUNTU, ..DEBIAN },
    Distro { name: "virtuozzo", trust_store: TrustStore::RED_HAT.unverified(), ..RED_HAT },
];

impl Distro {
    /// The names of all rows.
    pub const NAMES: &[&str] = &{
        let mut names = [""; DISTROS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = DISTROS[i].name;
            i += 1;
        }
        names
    };

    /// Returns every row.
    pub fn all() -> &'static [Distro] {
        DISTROS
    }

    /// Returns the row of this name.
    pub fn named(name: &str) -> Option<&'static Distro> {
        DISTROS.iter().find(|d| d.name.eq_ignore_ascii_case(name))
    }

    /// Returns the row that is used for an unknown system.
    pub fn fallback() -> &'static Distro {
        Distro::named(DEBIAN.name).unwrap_or(&DISTROS[0])
    }

    /// Returns the distribution of the machine by os-release(5): ID, then ID_LIKE.
    pub fn detect(sys: &System) -> Option<&'static Distro> {
        let release = sys.os_release();
        let like = release.get("ID_LIKE").unwrap_or_default();
        release.get("ID").into_iter().chain(like.split_whitespace()).find_map(Distro::named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_case_insensitive() {
        for (i, row) in DISTROS.iter().enumerate() {
            assert!(
                DISTROS[..i].iter().all(|d| !d.name.eq_ignore_ascii_case(row.name)),
                "{} twice",
                row.name
            );
            assert_eq!(Distro::named(&row.name.to_uppercase()).map(|d| d.name), Some(row.name));
        }
        assert!(Distro::named("plan9").is_none());
    }

    /// Results of cloud-init 26.2 in a Debian root configured as each of these (`system_info: {distro: NAME}`), with
    /// programs that record their arguments in place of the distribution's.
    #[test]
    fn fqdn_preference_and_package_manager_match_upstream() {
        let of = |name: &str| Distro::named(name).unwrap_or(&DEBIAN);
        for name in
            "almalinux amazon azurelinux centos cloudlinux eurolinux fedora miraclelinux OpenCloudOS openeuler \
             openmandriva rhel rocky TencentOS virtuozzo"
                .split(' ')
        {
            let row = of(name);
            assert!(row.prefers_fqdn && row.package_manager == PackageManager::Dnf, "{name}");
        }
        for name in ["mariner", "photon"] {
            assert!(of(name).prefers_fqdn && of(name).package_manager == PackageManager::Tdnf, "{name}");
        }
        for (name, manager) in [
            ("sles", PackageManager::Zypper),
            ("opensuse-leap", PackageManager::Zypper),
            ("opensuse-microos", PackageManager::Zypper),
            ("alpine", PackageManager::Apk),
            ("arch", PackageManager::Pacman),
            ("aosc", PackageManager::Oma),
            ("gentoo", PackageManager::Emerge),
            ("cos", PackageManager::Emerge),
            ("raspberry-pi-os", PackageManager::Apt),
        ] {
            assert!(!of(name).prefers_fqdn && of(name).package_manager == manager, "{name}");
        }
    }
}
