//! The seed in systemd's credentials `cloud-init.user-data`, `.meta-data`, `.vendor-data` and `.network-config`. Only what
//! systemd has imported is read, never SMBIOS or fw_cfg: systemd decides whether this machine may trust its host.

use config::Node;
use system::{Result, System, warning};

use crate::media::{self, seed};
use crate::standard;

/// The system's credentials, as PID 1 imported them: from the container manager, SMBIOS type 11, fw_cfg, the kernel command
/// line and the boot loader.
const SYSTEM_DIRECTORY: &str = "/run/credentials/@system";

/// The credentials that exist. User-data or metadata make them a seed; the others only override another seed's.
#[derive(Debug, Default)]
pub struct Credentials {
    /// `None` if the credential does not exist; `Some(None)` if it is invalid, which is logged.
    pub meta_data: Option<Option<Node>>,
    pub user_data: Option<Vec<u8>>,
    pub vendor_data: Option<Vec<u8>>,
    pub network: Option<Node>,
}

impl Credentials {
    /// Returns whether they are a seed of their own.
    pub fn is_seed(&self) -> bool {
        self.meta_data.is_some() || self.user_data.is_some()
    }
}

/// Reads the credentials. Those of the stage's unit (`ImportCredential=`), which systemd has decrypted, come first.
///
/// # Errors
///
/// Fails if the metadata or the user-data exists but cannot be read.
pub fn read(sys: &System) -> Result<Credentials> {
    let directories = directories();
    let read = |name: &str| read_first(sys, &directories, name);
    let optional = |name: &str| {
        read(name).unwrap_or_else(|e| {
            warning!(sys, "{e}; using the credentials without {name}");
            None
        })
    };
    let user_data = standard::ignore_too_large(sys, "user-data", read("user-data").map(Some))?;
    // Too large, which is logged: the user-data of another seed must not take its place.
    let user_data = user_data.unwrap_or_else(|| Some(Vec::new()));
    let meta_data = read("meta-data")?;
    let network = optional("network-config");
    Ok(Credentials {
        meta_data: meta_data.map(|bytes| seed::parse_meta_data(sys, &label("meta-data"), &bytes)),
        user_data,
        vendor_data: optional("vendor-data"),
        network: network.and_then(|bytes| seed::parse_network(sys, &label("network-config"), &bytes)),
    })
}

/// Reads only the metadata; invalid metadata is logged.
///
/// # Errors
///
/// Fails if it exists but cannot be read.
pub fn read_meta_data(sys: &System) -> Result<Option<Node>> {
    let bytes = read_first(sys, &directories(), "meta-data")?;
    Ok(bytes.and_then(|bytes| seed::parse_meta_data(sys, &label("meta-data"), &bytes)))
}

/// Returns the directories of credentials, that of this program's unit first.
fn directories() -> Vec<String> {
    let of_unit = std::env::var("CREDENTIALS_DIRECTORY").ok().filter(|path| path.starts_with('/'));
    of_unit.into_iter().chain([SYSTEM_DIRECTORY.to_string()]).collect()
}

fn label(name: &str) -> String {
    format!("credential cloud-init.{name}")
}

fn read_first(sys: &System, directories: &[String], name: &str) -> Result<Option<Vec<u8>>> {
    let mut read = directories
        .iter()
        .map(|directory| media::read_optional(sys, &format!("{directory}/cloud-init.{name}")));
    read.find_map(Result::transpose).transpose()
}
