//! One row a distribution.

use system::System;

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
}

const DISTROS: &[Distro] = &[
    Distro { name: "almalinux", family: Family::RedHat },
    Distro { name: "alpine", family: Family::Alpine },
    Distro { name: "amazon", family: Family::RedHat },
    Distro { name: "arch", family: Family::Arch },
    Distro { name: "centos", family: Family::RedHat },
    Distro { name: "debian", family: Family::Debian },
    Distro { name: "fedora", family: Family::RedHat },
    Distro { name: "rhel", family: Family::RedHat },
    Distro { name: "rocky", family: Family::RedHat },
    Distro { name: "ubuntu", family: Family::Debian },
];

impl Distro {
    /// The row of that name, or of a distribution that behaves like Debian when there is none.
    pub fn named(name: &str) -> Option<&'static Distro> {
        DISTROS.iter().find(|d| d.name.eq_ignore_ascii_case(name))
    }

    /// What an unknown system is taken for.
    pub fn fallback() -> &'static Distro {
        const DEBIAN: Distro = Distro { name: "debian", family: Family::Debian };
        Distro::named(DEBIAN.name).unwrap_or(&DEBIAN)
    }

    /// The distribution that the machine says it is (os-release(5): ID, then ID_LIKE).
    pub fn detect(sys: &System) -> Option<&'static Distro> {
        let text = sys.read_text("/etc/os-release").or_else(|_| sys.read_text("/usr/lib/os-release")).ok()?;
        let value = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
            Some(line.trim().trim_matches(['"', '\'']).to_string())
        };
        let like = value("ID_LIKE").unwrap_or_default();
        value("ID").iter().map(String::as_str).chain(like.split_whitespace()).find_map(Distro::named)
    }
}
