//! ovf-env.xml in the places where it may be: a seed directory, a disc, the copy of an earlier boot.

use system::{Result, System, WriteOptions, info, warning};

use super::failure::Failure;
use super::ovf::{self, Ovf};
use crate::{Search, media};

pub const OVF_ENV: &str = "ovf-env.xml";
const MAX_FILE_SIZE: u64 = 4 << 20;

/// The file ovf-env.xml and its source.
pub struct Seed {
    pub source: String,
    text: String,
    pub ovf: Ovf,
    /// The device of the provisioning disc, until its drive is opened.
    pub disc: Option<String>,
}

/// A file that exists, or what is wrong with it.
type SeedResult = std::result::Result<Seed, Failure>;

pub fn directory(ctx: &Search<'_>) -> String {
    ctx.layout.cloud("seed/azure")
}

/// Finds the file. `is_new`: no earlier boot has read it.
///
/// # Errors
///
/// Fails if the file that counts is invalid.
pub fn find(ctx: &Search<'_>, data_dir: &str, is_new: bool) -> std::result::Result<Option<Seed>, Failure> {
    let sys = ctx.sys;
    let directory = directory(ctx);
    let on_disc = || media::find_disc(ctx, |at, device| read(sys, at, device, Some(device)));
    // Azure gives every new machine a disc; this stage may be earlier than the driver of its drive.
    let on_late_disc = || {
        if !is_new {
            return Ok(None);
        }
        ctx.machine.wait_for_devices();
        on_disc()
    };
    let sources: [&dyn Fn() -> Result<Option<SeedResult>>; 4] =
        [&|| read(sys, &directory, &directory, None), &on_disc, &on_late_disc, &|| {
            read(sys, data_dir, data_dir, None)
        }];
    let read = |source: &&dyn Fn() -> Result<Option<SeedResult>>| {
        // The disc may be unrelated, with a file system that the kernel does not support.
        source().unwrap_or_else(|e| {
            warning!(sys, "Azure: {e}");
            None
        })
    };
    let found = sources.iter().filter_map(read).find(|found| match found {
        Ok(seed) if !is_new && seed.ovf.pps_type.is_some() => {
            info!(sys, "Azure: ignoring {OVF_ENV} from pre-provisioning in {}", seed.source);
            false
        }
        _ => true,
    });
    match &found {
        Some(Ok(seed)) => info!(sys, "Azure: {OVF_ENV} is in {}", seed.source),
        Some(Err(_)) => {}
        None => warning!(
            sys,
            "Azure: {OVF_ENV} not found; using only the metadata service, which has neither a password nor custom data"
        ),
    }
    found.transpose()
}

fn read(sys: &System, at: &str, source: &str, disc: Option<&str>) -> Result<Option<SeedResult>> {
    let read = media::if_found(sys.read_at_most(format!("{at}/{OVF_ENV}"), MAX_FILE_SIZE))?;
    Ok(read.and_then(|bytes| parse(bytes, source, disc).transpose()))
}

/// Parses the content of the file; returns `None` if it is not Azure's.
///
/// # Errors
///
/// Fails if the content is invalid.
pub fn parse(bytes: Vec<u8>, source: &str, disc: Option<&str>) -> std::result::Result<Option<Seed>, Failure> {
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Failure::new(format!("error parsing {OVF_ENV}: {source}: not UTF-8")))?;
    let ovf = ovf::parse(&text).map_err(|e| Failure::new(e.in_file(OVF_ENV)).with("source", source))?;
    let disc = disc.map(Into::into);
    Ok(ovf.map(|ovf| Seed { source: source.to_string(), text, ovf, disc }))
}

impl Seed {
    /// Returns the content without the password; `None` if the password cannot be located.
    pub fn redacted(&self) -> Option<String> {
        ovf::redacted(&self.text)
    }
}

/// Keeps the file for later boots, which find the drive empty, and for Azure's agent.
pub fn save(sys: &System, data_dir: &str, text: &str) {
    let kept = sys.create_dir_all(data_dir, 0o700).and_then(|()| {
        sys.set_mode(data_dir, 0o700)?;
        sys.write(format!("{data_dir}/{OVF_ENV}"), text, WriteOptions::mode(0o600).durable())
    });
    if let Err(e) = kept {
        warning!(sys, "Azure: {e}");
    }
}
