//! Installers that their makers publish as a script.

use std::time::Duration;

use system::{Command, Error, OutputMode, Request, Result, WriteOptions};

use crate::Context;

/// The largest script.
const LIMIT: usize = 16 << 20;
/// The largest number of retries.
const MAX_RETRIES: u32 = 100;

/// Downloads a script and runs it with these arguments. `name` is its file name. Only a complete download that begins as a
/// script does is run.
///
/// # Errors
/// Fails if the download fails or is not a script, or if the script fails.
pub fn run(context: &Context<'_>, url: &str, retries: i64, name: &str, arguments: &[&str]) -> Result<()> {
    let sys = context.sys;
    let retries = u32::try_from(retries.max(0)).unwrap_or(MAX_RETRIES).min(MAX_RETRIES);
    // Wait: ansible, chef | the next attempt to download the installer | -
    let request = Request::get(url).retries(retries, Duration::from_secs(1)).limit(LIMIT).needs_route();
    let script = sys.fetch(&request)?.body;
    if !script.starts_with(b"#!") {
        return Err(Error::new(format!("{name}: the download is not a script; it is not run")));
    }
    // Not in a directory that others may write to, as root runs it; nor in /run, which may be mounted noexec.
    let path = context.layout.instance(name);
    sys.write(&path, script, WriteOptions::mode(0o700))?;
    let command = Command::new([path.as_str()].iter().chain(arguments));
    let result = sys.run(&command.output(OutputMode::Inherit).timeout(context.script_timeout));
    sys.remove(&path)?;
    result.map(drop)
}
