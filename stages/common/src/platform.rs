//! Detects the operating system, for instance-data.json and for the distribution's row.

use config::Node;
use config::settings::Settings;
use distro::Distro;
use state::SysInfo;
use system::{System, debug};

/// Returns the distribution: configured, detected, or Debian.
pub fn distro(sys: &System, settings: &Settings) -> &'static Distro {
    let configured = settings.merged.at_path(&["system_info", "distro"]).and_then(Node::as_str);
    let row = configured.and_then(Distro::named).or_else(|| Distro::detect(sys));
    row.unwrap_or_else(|| {
        debug!(sys, "no known distribution is configured or detected; assuming Debian");
        Distro::fallback()
    })
}

/// Reads os-release(5) and uname(2).
pub fn platform(sys: &System) -> SysInfo {
    let release = sys.os_release();
    let value = |key: &str| release.get(key).unwrap_or_default().to_string();
    let names = nix::sys::utsname::uname().map(|u| {
        [u.sysname(), u.nodename(), u.release(), u.version(), u.machine()]
            .map(|s| s.to_string_lossy().into_owned())
    });
    let distro = value("ID");
    SysInfo {
        variant: if distro.is_empty() { "linux".into() } else { distro.clone() },
        distro,
        version: value("VERSION_ID"),
        release: value("VERSION_CODENAME"),
        uname: names.unwrap_or_default(),
    }
}
