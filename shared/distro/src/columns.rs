//! The types of the columns of the table. The operations are in the files that are named after the columns.

/// The method of storing and setting a hostname.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostnameMethod {
    /// hostname(5), and the kernel's hostname.
    File,
    /// The file, and the running system through hostnamectl(1).
    FileAndHostnamectl,
    /// hostnamectl(1) does both; a file in the style of older releases if systemd does not run.
    Hostnamectl,
    /// hostname(5), or OpenRC's conf.d.
    Gentoo,
}

/// The method of storing and generating a locale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocaleMethod {
    /// locale.gen(5), locale-gen(8), update-locale(8).
    Debian,
    /// raspi-config does Debian's steps.
    RaspiConfig,
    /// locale.conf(5).
    LocaleConf,
    /// locale.conf(5), then a restart of systemd-localed.
    LocaleConfAndRestart,
    /// locale.gen(5) has the single locale; localectl(1).
    ArchGen,
    /// A fixed pair of locales, selected by eselect.
    Gentoo,
    /// A file for login shells.
    AlpineProfile,
}

/// The method of storing a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimezoneMethod {
    /// /etc/timezone, and /etc/localtime.
    FileAndLink,
    /// /etc/localtime alone (localtime(5)).
    Link,
}

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageManager {
    /// apt-get(8).
    Apt,
    /// dnf(8).
    Dnf,
    /// tdnf(8) of Photon and Azure Linux.
    Tdnf,
    /// zypper(8).
    Zypper,
    /// apk(8).
    Apk,
    /// pacman(8).
    Pacman,
    /// emerge(1).
    Emerge,
    /// oma(1) of AOSC OS.
    Oma,
    /// snap(8).
    Snap,
}

/// The NTP settings of a distribution: columns of its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NtpSettings {
    /// Whether upstream's `ntp` supports the distribution.
    pub verified: bool,
    /// The configuration file of chrony.
    pub chrony_conf: &'static str,
    /// The service of chrony.
    pub chrony_service: &'static str,
    /// The service of ntpd.
    pub ntp_service: &'static str,
    /// The package of ntpd.
    pub ntp_package: &'static str,
    /// The configuration file of systemd-timesyncd.
    pub timesyncd_conf: &'static str,
    /// The domain of public pools.
    pub pool_domain: &'static str,
    /// The distribution's name in that domain: `*` for its own name, empty for no name.
    pub vendor_zone: &'static str,
    /// Clients, the preferred one first.
    pub preferred_clients: &'static [&'static str],
}

impl NtpSettings {
    pub(crate) const DEFAULT: NtpSettings = NtpSettings {
        verified: true,
        chrony_conf: "/etc/chrony.conf",
        chrony_service: "chrony",
        ntp_service: "ntp",
        ntp_package: "ntpsec",
        timesyncd_conf: "/etc/systemd/timesyncd.conf.d/cloud-init.conf",
        pool_domain: "pool.ntp.org",
        vendor_zone: "*",
        preferred_clients: &["chrony", "systemd-timesyncd", "ntp", "ntpdate"],
    };
}
