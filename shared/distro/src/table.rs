//! One row a distribution. A column is added here when two distributions differ in it; what a column's value
//! means is in the file that reads it.

use system::System;

use crate::{HostnameWay, LocaleWay, Manager, NtpData, TrustData, ZoneWay};

/// Distributions that do most things alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Debian,
    RedHat,
    Suse,
    Alpine,
    Arch,
    Gentoo,
    Other,
}

/// A distribution, as `system_info.distro` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distro {
    pub name: &'static str,
    pub family: Family,
    /// The name in templates that a family shares: `hosts.debian.tmpl`.
    pub templates: &'static str,
    /// Where its own name is found in /etc/hosts.
    pub loop_address: &'static str,
    /// Whether the whole name is the hostname when the configuration does not say.
    pub prefers_fqdn: bool,
    pub hostname: HostnameWay,
    pub locale: LocaleWay,
    /// The locale when nothing names one.
    pub default_locale: &'static str,
    pub zone: ZoneWay,
    pub manager: Manager,
    /// Whether a package that the manager does not have may be a snap.
    pub snaps: bool,
    /// The SSH server's unit.
    pub ssh_service: &'static str,
    /// Whether private host keys belong to the group ssh_keys.
    pub ssh_key_group: bool,
    pub ntp: NtpData,
    pub trust: TrustData,
}

const DEBIAN: Distro = Distro {
    name: "debian",
    family: Family::Debian,
    templates: "debian",
    loop_address: "127.0.1.1",
    prefers_fqdn: false,
    hostname: HostnameWay::File,
    locale: LocaleWay::Debian,
    default_locale: "C.UTF-8",
    zone: ZoneWay::FileAndLink,
    manager: Manager::Apt,
    snaps: false,
    ssh_service: "ssh",
    ssh_key_group: false,
    ntp: NtpData { chrony_conf: "/etc/chrony/chrony.conf", ..NtpData::USUAL },
    trust: TrustData::DEBIAN,
};

const RED_HAT: Distro = Distro {
    name: "rhel",
    family: Family::RedHat,
    templates: "redhat",
    loop_address: "127.0.0.1",
    prefers_fqdn: true,
    hostname: HostnameWay::Hostnamectl,
    locale: LocaleWay::LocaleConf,
    default_locale: "en_US.UTF-8",
    zone: ZoneWay::Link,
    manager: Manager::Dnf,
    snaps: false,
    ssh_service: "sshd",
    ssh_key_group: true,
    ntp: NtpData { chrony_service: "chronyd", ntp_service: "ntpd", ..NtpData::USUAL },
    trust: TrustData::RED_HAT,
};

/// Red Hat's tools, but not its family's name.
const LIKE_RED_HAT: Distro =
    Distro { family: Family::Other, ssh_key_group: false, trust: TrustData::RED_HAT.unverified(), ..RED_HAT };

const VMWARE: Distro = Distro {
    prefers_fqdn: true,
    loop_address: "127.0.0.1",
    zone: ZoneWay::FileAndLink,
    locale: LocaleWay::LocaleConfAndRestart,
    manager: Manager::Tdnf,
    ssh_key_group: false,
    ntp: NtpData {
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        timesyncd_conf: "/etc/systemd/timesyncd.conf",
        ..NtpData::USUAL
    },
    trust: TrustData::RED_HAT.unverified(),
    ..RED_HAT
};

const SUSE: Distro = Distro {
    name: "suse",
    family: Family::Suse,
    templates: "suse",
    loop_address: "127.0.1.1",
    prefers_fqdn: false,
    locale: LocaleWay::LocaleConf,
    default_locale: "en_US.UTF-8",
    manager: Manager::Zypper,
    ssh_key_group: false,
    ntp: NtpData {
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        prefers: &["chrony", "systemd-timesyncd", "ntp"],
        ..NtpData::USUAL
    },
    trust: TrustData::SUSE,
    ..RED_HAT
};

const ALPINE: Distro = Distro {
    name: "alpine",
    family: Family::Alpine,
    templates: "alpine",
    loop_address: "127.0.1.1",
    locale: LocaleWay::AlpineProfile,
    manager: Manager::Apk,
    ssh_service: "sshd",
    ntp: NtpData {
        chrony_conf: "/etc/chrony/chrony.conf",
        chrony_service: "chronyd",
        ntp_service: "ntpd",
        ntp_package: "",
        pool: "pool.ntp.org",
        pools_of: "",
        prefers: &["chrony", "ntp"],
        ..NtpData::USUAL
    },
    trust: TrustData::ALPINE,
    ..DEBIAN
};

const ARCH: Distro = Distro {
    name: "arch",
    family: Family::Arch,
    templates: "arch",
    loop_address: "127.0.0.1",
    hostname: HostnameWay::FileAndHostnamectl,
    locale: LocaleWay::ArchGen,
    default_locale: "C.UTF-8",
    manager: Manager::Pacman,
    ssh_service: "sshd",
    ntp: NtpData { verified: false, ..NtpData::USUAL },
    trust: TrustData::DEBIAN.unverified(),
    ..DEBIAN
};

const GENTOO: Distro = Distro {
    name: "gentoo",
    family: Family::Gentoo,
    templates: "gentoo",
    hostname: HostnameWay::Gentoo,
    locale: LocaleWay::Gentoo,
    manager: Manager::Emerge,
    ..ARCH
};

const AOSC: Distro = Distro {
    name: "aosc",
    family: Family::Other,
    templates: "aosc",
    hostname: HostnameWay::Hostnamectl,
    locale: LocaleWay::LocaleConf,
    zone: ZoneWay::Link,
    manager: Manager::Oma,
    ntp: NtpData { timesyncd_conf: "/etc/systemd/timesyncd.conf", ..NtpData::USUAL },
    trust: TrustData::AOSC,
    ..ARCH
};

const DISTROS: &[Distro] = &[
    Distro { name: "almalinux", ..RED_HAT },
    ALPINE,
    Distro {
        name: "amazon",
        ntp: NtpData { verified: false, ..RED_HAT.ntp },
        trust: TrustData::RHEL,
        ..RED_HAT
    },
    AOSC,
    ARCH,
    Distro {
        name: "azurelinux",
        templates: "azurelinux",
        loop_address: "127.0.0.1",
        ssh_key_group: false,
        ntp: NtpData {
            chrony_service: "chronyd",
            timesyncd_conf: "/etc/systemd/timesyncd.conf",
            ..NtpData::USUAL
        },
        trust: TrustData::RED_HAT.unverified(),
        ..RED_HAT
    },
    Distro { name: "centos", ..RED_HAT },
    Distro { name: "cloudlinux", ..RED_HAT },
    Distro {
        name: "cos",
        ntp: NtpData { chrony_conf: "/etc/chrony/chrony.conf", chrony_service: "chronyd", ..NtpData::USUAL },
        ..GENTOO
    },
    DEBIAN,
    Distro {
        name: "eurolinux",
        ntp: NtpData { pools_of: "", ..RED_HAT.ntp },
        trust: TrustData::RED_HAT.unverified(),
        ..RED_HAT
    },
    Distro { name: "fedora", ..RED_HAT },
    GENTOO,
    Distro { name: "mariner", templates: "mariner", ..VMWARE },
    Distro { name: "miraclelinux", trust: TrustData::RED_HAT.unverified(), ..RED_HAT },
    Distro { name: "OpenCloudOS", templates: "OpenCloudOS", ..LIKE_RED_HAT },
    Distro { name: "openeuler", templates: "openeuler", ..LIKE_RED_HAT },
    Distro { name: "openmandriva", trust: TrustData::RED_HAT.unverified(), ..RED_HAT },
    Distro { name: "opensuse", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { name: "opensuse-leap", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { name: "opensuse-microos", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { name: "opensuse-tumbleweed", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro {
        name: "photon",
        templates: "photon",
        loop_address: "127.0.1.1",
        trust: TrustData::PHOTON,
        ..VMWARE
    },
    Distro { name: "raspberry-pi-os", locale: LocaleWay::RaspiConfig, ..DEBIAN },
    Distro { trust: TrustData::RHEL, ..RED_HAT },
    Distro { name: "rocky", ..RED_HAT },
    Distro { name: "sle-micro", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { name: "sle_hpc", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { name: "sles", ntp: NtpData { pools_of: "opensuse", ..SUSE.ntp }, ..SUSE },
    Distro { ntp: NtpData { verified: false, ..SUSE.ntp }, trust: TrustData::SUSE.unverified(), ..SUSE },
    Distro { name: "TencentOS", templates: "OpenCloudOS", ..LIKE_RED_HAT },
    Distro { name: "ubuntu", snaps: true, ..DEBIAN },
    Distro { name: "virtuozzo", trust: TrustData::RED_HAT.unverified(), ..RED_HAT },
];

impl Distro {
    /// Every row.
    pub fn all() -> &'static [Distro] {
        DISTROS
    }

    /// The row of that name.
    pub fn named(name: &str) -> Option<&'static Distro> {
        DISTROS.iter().find(|d| d.name.eq_ignore_ascii_case(name))
    }

    /// What an unknown system is taken for.
    pub fn fallback() -> &'static Distro {
        Distro::named(DEBIAN.name).unwrap_or(&DISTROS[0])
    }

    /// The distribution that the machine says it is (os-release(5): ID, then ID_LIKE).
    pub fn detect(sys: &System) -> Option<&'static Distro> {
        let value = |key: &str| os_release(sys, key);
        let like = value("ID_LIKE").unwrap_or_default();
        value("ID").iter().map(String::as_str).chain(like.split_whitespace()).find_map(Distro::named)
    }
}

/// One value of os-release(5), unquoted.
pub fn os_release(sys: &System, key: &str) -> Option<String> {
    let text = sys.read_text("/etc/os-release").or_else(|_| sys.read_text("/usr/lib/os-release")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
    Some(line.trim().trim_matches(['"', '\'']).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_once_and_found_in_any_case() {
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

    /// What cloud-init 26.2 did in a Debian root that was told to be each of these (`system_info: {distro: NAME}`), with
    /// programs in place of theirs that note how they were called.
    #[test]
    fn as_upstream() {
        let of = |name: &str| Distro::named(name).unwrap_or(&DEBIAN);
        for name in
            "almalinux amazon azurelinux centos cloudlinux eurolinux fedora miraclelinux OpenCloudOS openeuler \
             openmandriva rhel rocky TencentOS virtuozzo"
                .split(' ')
        {
            let row = of(name);
            assert!(row.prefers_fqdn && row.manager == Manager::Dnf, "{name}");
        }
        for name in ["mariner", "photon"] {
            assert!(of(name).prefers_fqdn && of(name).manager == Manager::Tdnf, "{name}");
        }
        for (name, manager) in [
            ("sles", Manager::Zypper),
            ("opensuse-leap", Manager::Zypper),
            ("opensuse-microos", Manager::Zypper),
            ("alpine", Manager::Apk),
            ("arch", Manager::Pacman),
            ("aosc", Manager::Oma),
            ("gentoo", Manager::Emerge),
            ("cos", Manager::Emerge),
            ("raspberry-pi-os", Manager::Apt),
        ] {
            assert!(!of(name).prefers_fqdn && of(name).manager == manager, "{name}");
        }
    }
}
