//! Time clients: which exist, what each needs, and where distributions have its files.

use system::System;

use crate::{Distro, Family};

/// The files, packages and service of one NTP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtpClient {
    /// The name of the client.
    pub name: String,
    /// The program whose existence shows that the client is installed.
    pub program: String,
    /// The path of its configuration file.
    pub config_path: String,
    /// The packages that provide it.
    pub packages: Vec<String>,
    /// The service of the client.
    pub service: String,
    /// The names of its templates, the most specific first.
    pub templates: Vec<String>,
}

impl NtpClient {
    /// Returns whether its program is installed. Systems without a merged /usr have it in /lib instead of /usr/lib.
    pub fn is_installed(&self, sys: &System) -> bool {
        let unmerged = self.program.strip_prefix("/usr").filter(|p| p.starts_with("/lib/"));
        sys.which(&self.program).is_some() || unmerged.is_some_and(|p| sys.which(p).is_some())
    }
}

impl Distro {
    /// Returns the first installed client in the distribution's order of preference, else the first of the order.
    pub fn preferred_ntp_client(&self, sys: &System) -> Option<NtpClient> {
        let mut names = self.ntp.preferred_clients.to_vec();
        if self.family == Family::Suse && self.is_old_suse(sys) {
            sort::sort_by_key(&mut names, |name| *name != "ntp");
        }
        let clients: Vec<NtpClient> = names.iter().filter_map(|name| self.ntp_client(name)).collect();
        clients.iter().find(|c| c.is_installed(sys)).or(clients.first()).cloned()
    }

    /// Releases before 15 had ntpd; rolling releases have years as versions.
    fn is_old_suse(&self, sys: &System) -> bool {
        let release = sys.os_release();
        let version = release.get("VERSION_ID").unwrap_or_default();
        let major = version.split('.').next().and_then(|v| v.parse::<u32>().ok());
        // Versions of SLE Micro and MicroOS begin at 5. The family's name says nothing about the product.
        let product = if self.name == "suse" { release.get("ID").unwrap_or_default() } else { self.name };
        !product.contains("micro") && major.is_some_and(|m| m < 15)
    }

    /// Returns the client of this name with the distribution's settings.
    pub fn ntp_client(&self, name: &str) -> Option<NtpClient> {
        let data = &self.ntp;
        let (program, conf, package, service, template) = match name {
            "chrony" => ("chronyd", data.chrony_conf, "chrony", data.chrony_service, "chrony.conf"),
            "ntp" => ("ntpd", "/etc/ntp.conf", data.ntp_package, data.ntp_service, "ntp.conf"),
            "ntpdate" => ("ntpdate", "/etc/ntp.conf", "ntpdate", "ntpdate", "ntp.conf"),
            "openntpd" => ("ntpd", "/etc/ntpd.conf", "", "ntpd", "ntpd.conf"),
            "systemd-timesyncd" => {
                ("/usr/lib/systemd/systemd-timesyncd", data.timesyncd_conf, "", name, "timesyncd.conf")
            }
            _ => return None,
        };
        let templates = match template {
            "timesyncd.conf" => vec![template.to_string()],
            _ => {
                let mut names = vec![self.name, self.family_template()];
                names.dedup();
                names.iter().map(|name| format!("{template}.{name}")).collect()
            }
        };
        Some(NtpClient {
            name: name.into(),
            program: program.into(),
            config_path: conf.into(),
            packages: if package.is_empty() { Vec::new() } else { vec![package.into()] },
            service: service.into(),
            templates,
        })
    }

    /// Returns the distribution whose template is used for others of its family.
    fn family_template(&self) -> &'static str {
        match self.template_suffix {
            "redhat" | "azurelinux" | "mariner" | "OpenCloudOS" | "openeuler" => "rhel",
            "suse" => "opensuse",
            other => other,
        }
    }

    /// Returns the names of public servers, for a configuration without any.
    pub fn default_ntp_pools(&self) -> Vec<String> {
        let zone = if self.ntp.vendor_zone == "*" { self.name } else { self.ntp.vendor_zone };
        (0..4)
            .map(|n| match zone {
                "" => format!("{n}.{}", self.ntp.pool_domain),
                _ => format!("{n}.{zone}.{}", self.ntp.pool_domain),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Distro;
    use scratch::TempDir;

    #[test]
    fn an_installed_client_comes_before_a_preferred_one() {
        use system::{System, WriteOptions};
        let top = TempDir::new();
        let sys = System::new(&top);
        let preferred =
            |distro: &str| Distro::named(distro).unwrap().preferred_ntp_client(&sys).unwrap().name;
        assert_eq!(preferred("debian"), "chrony");
        for (version, leap, micro) in [
            ("12.5", "ntp", "chrony"),
            ("15.6", "chrony", "chrony"),
            ("20260101", "chrony", "chrony"),
            ("x", "chrony", "chrony"),
        ] {
            sys.write("/etc/os-release", format!("VERSION_ID=\"{version}\"\n"), WriteOptions::default())
                .unwrap();
            assert_eq!((&*preferred("sles"), &*preferred("sle-micro")), (leap, micro), "{version}");
            assert_eq!(preferred("suse"), leap, "{version}");
        }
        for id in ["sle-micro", "suse-microos", "sl-micro"] {
            let release = format!("ID={id}\nVERSION_ID=5.5\n");
            sys.write("/etc/os-release", release, WriteOptions::default()).unwrap();
            assert_eq!(preferred("suse"), "chrony", "{id}");
        }
        sys.write("/usr/sbin/ntpd", "", WriteOptions::default()).unwrap();
        assert_eq!(preferred("debian"), "chrony", "a file that is not executable is ignored");
        sys.write("/usr/sbin/ntpd", "x", WriteOptions::mode(0o755)).unwrap();
        assert_eq!(preferred("debian"), "ntp");
        sys.write("/lib/systemd/systemd-timesyncd", "", WriteOptions::mode(0o755)).unwrap();
        assert_eq!((&*preferred("debian"), &*preferred("alpine")), ("systemd-timesyncd", "ntp"));
    }

    #[test]
    fn ntp_client_depends_on_the_distribution() {
        for (distro, client, conf, service) in [
            ("debian", "chrony", "/etc/chrony/chrony.conf", "chrony"),
            ("rhel", "chrony", "/etc/chrony.conf", "chronyd"),
            ("rocky", "ntp", "/etc/ntp.conf", "ntpd"),
            ("photon", "systemd-timesyncd", "/etc/systemd/timesyncd.conf", "systemd-timesyncd"),
        ] {
            let row = Distro::named(distro).unwrap();
            let got = row.ntp_client(client).unwrap();
            assert_eq!((&*got.config_path, &*got.service), (conf, service));
        }
        for (distro, templates) in [
            ("rhel", &["chrony.conf.rhel"][..]),
            ("rocky", &["chrony.conf.rocky", "chrony.conf.rhel"]),
            ("openeuler", &["chrony.conf.openeuler", "chrony.conf.rhel"]),
            ("TencentOS", &["chrony.conf.TencentOS", "chrony.conf.rhel"]),
            ("OpenCloudOS", &["chrony.conf.OpenCloudOS", "chrony.conf.rhel"]),
            ("mariner", &["chrony.conf.mariner", "chrony.conf.rhel"]),
            ("aosc", &["chrony.conf.aosc"]),
            ("photon", &["chrony.conf.photon"]),
            ("suse", &["chrony.conf.suse", "chrony.conf.opensuse"]),
            ("raspberry-pi-os", &["chrony.conf.raspberry-pi-os", "chrony.conf.debian"]),
        ] {
            let client = Distro::named(distro).unwrap().ntp_client("chrony").unwrap();
            assert_eq!(client.templates, templates, "{distro}");
        }
        assert!(Distro::named("debian").unwrap().ntp_client("clockwork").is_none());
        for name in ["sles", "suse"] {
            assert_eq!(Distro::named(name).unwrap().default_ntp_pools()[3], "3.opensuse.pool.ntp.org");
        }
        assert_eq!(Distro::named("alpine").unwrap().default_ntp_pools()[0], "0.pool.ntp.org");
        assert_eq!(Distro::named("ubuntu").unwrap().default_ntp_pools()[1], "1.ubuntu.pool.ntp.org");
    }
}
