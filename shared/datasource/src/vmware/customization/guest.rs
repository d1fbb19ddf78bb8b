//! The steps of a customization that are done once: scripts before and after it, and root's password.

use std::time::Duration;

use config::Ini;
use system::{Command, Error, Result, System, WriteOptions, debug, info, parse_passwd};

use super::directory::{DIRECTORY, path_of};
use super::report::{ErrorCode, Reporter};
use crate::Search;

const SCRIPT_DIR: &str = "/root/.customization";
const SCRIPT: &str = "/root/.customization/customize.sh";
/// The tools' script that starts the customer's script again, in the final stage.
const POST_SCRIPT: &str = "post-customize-guest.sh";
const POST_PENDING: &str = "/.guest-customization-post-reboot-pending";
const MARKER_PREFIX: &str = ".markerfile";
const MAX_SCRIPT_SIZE: u64 = 16 << 20;
// Wait: VMware | VMware's tools to take a status report | -
const TOOLS_TIMEOUT: Duration = Duration::from_secs(10);
/// `vmware-toolbox-cmd config get` of a key that is not set.
const UNAVAILABLE: i32 = 69;

/// A customization of the guest, which is done once.
pub struct GuestCustomization<'c> {
    /// The ID by which it is recognised at later boots.
    pub id: &'c str,
    /// The name of the customer's script.
    pub script: Option<&'c str>,
    /// The time limit of the script.
    pub timeout: Duration,
}

/// Runs scripts and sets the password, unless that was done for this ID. Each failure is reported, and the
/// other steps are done.
pub fn customize_once(
    ctx: &Search<'_>,
    reporter: &Reporter<'_>,
    ini: &Ini<'_>,
    guest: &GuestCustomization<'_>,
) {
    let sys = ctx.sys;
    match mark(ctx, guest.id) {
        Ok(true) => {}
        Ok(false) => return debug!(sys, "VMware customization {} was already performed", guest.id),
        // Without the marker a script would run again.
        Err(e) => return reporter.fail("writing the marker file", &e, ErrorCode::CustomizeFailed),
    }
    let script = guest.script.filter(|_| {
        let is_enabled = are_scripts_enabled(sys, ini.is_yes("MISC", "DEFAULT-RUN-POST-CUST-SCRIPT"));
        if !is_enabled {
            let why = Error::new("disabled in the configuration of VMware's tools (enable-custom-scripts)");
            reporter.fail("running the custom script", &why, ErrorCode::ScriptDisabled);
        }
        is_enabled
    });
    if let Some(Err(e)) = script.map(|name| run_script(sys, name, guest.timeout)) {
        reporter.fail("running the script before customization", &e, ErrorCode::CustomizeFailed);
    }
    if let Err(e) = set_password(sys, ini) {
        reporter.fail("setting the password", &e, ErrorCode::CustomizeFailed);
    }
    if let Some(Err(e)) = script.map(|_| install_post_script(ctx)) {
        reporter.fail("installing the script after customization", &e, ErrorCode::CustomizeFailed);
    }
}

/// Writes the marker of a customization, and removes those of others. Returns whether it is new.
fn mark(ctx: &Search<'_>, id: &str) -> Result<bool> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !id.chars().all(is_valid) {
        return Err(Error::new("MISC.MARKER-ID: expected letters, digits, '-', '_' and '.'"));
    }
    let sys = ctx.sys;
    let marker = format!("{MARKER_PREFIX}-{id}.txt");
    if sys.exists(ctx.layout.data(&marker)) {
        return Ok(false);
    }
    let directory = ctx.layout.data("");
    for name in sys.list(&directory).unwrap_or_default() {
        if name.starts_with(MARKER_PREFIX) {
            sys.remove(ctx.layout.data(&name))?;
        }
    }
    sys.write(ctx.layout.data(&marker), "", WriteOptions::default().durable())?;
    Ok(true)
}

/// Returns whether the administrator of this machine allows scripts, or the customization's own default.
fn are_scripts_enabled(sys: &System, default: bool) -> bool {
    let words = ["vmware-toolbox-cmd", "config", "get", "deployPkg", "enable-custom-scripts"];
    let command = Command::new(words).timeout(TOOLS_TIMEOUT).accept(&[0, UNAVAILABLE]).read_only();
    if sys.which(words[0]).is_none() {
        return default;
    }
    let output = sys.run(&command).inspect_err(|e| debug!(sys, "{e}"));
    output.ok().and_then(|output| parse_setting(&output.text())).unwrap_or(default)
}

/// Parses the tools' answer, `KEY = VALUE`.
fn parse_setting(answer: &str) -> Option<bool> {
    let (_, value) = answer.lines().next()?.split_once('=')?;
    Some(value.trim().eq_ignore_ascii_case("true"))
}

fn run_script(sys: &System, name: &str, timeout: Duration) -> Result<()> {
    let mut content = sys.read_at_most(path_of("CUSTOM-SCRIPT.SCRIPT-NAME", name)?, MAX_SCRIPT_SIZE)?;
    content.retain(|byte| *byte != b'\r');
    sys.create_dir_all(SCRIPT_DIR, 0o755)?;
    sys.write(SCRIPT, content, WriteOptions::mode(0o544))?;
    info!(sys, "running the customization script {name}");
    sys.run(&Command::new([SCRIPT, "precustomization"]).timeout(timeout)).map(drop)
}

/// Leaves the second run of the script to the module scripts_per_instance.
fn install_post_script(ctx: &Search<'_>) -> Result<()> {
    let content = ctx.sys.read_at_most(format!("{DIRECTORY}/{POST_SCRIPT}"), MAX_SCRIPT_SIZE)?;
    let directory = ctx.layout.instance_scripts();
    ctx.sys.create_dir_all(&directory, 0o755)?;
    ctx.sys.write(format!("{directory}/{POST_SCRIPT}"), content, WriteOptions::mode(0o755))?;
    ctx.sys.write(POST_PENDING, "", WriteOptions::mode(0o644)).map(drop)
}

/// Sets root's password, and has it changed at the next login.
fn set_password(sys: &System, ini: &Ini<'_>) -> Result<()> {
    if let Some(encoded) = ini.get("PASSWORD", "-PASS").filter(|text| !text.is_empty()) {
        let password = encoding::base64::decode(encoded.as_bytes());
        let password = password.ok_or_else(|| Error::new("PASSWORD.-PASS: expected base64"))?;
        if password.is_empty() || password.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return Err(Error::new("PASSWORD.-PASS: expected a single-line string"));
        }
        let line = [&b"root:"[..], &password, b"\n"].concat();
        sys.run(&Command::new(["chpasswd"]).stdin(line).redacted("chpasswd (password of root)"))?;
    }
    let reset = ini.get("PASSWORD", "RESET").unwrap_or("no");
    if !["yes", "no"].iter().any(|word| reset.eq_ignore_ascii_case(word)) {
        return Err(Error::new("PASSWORD.RESET: expected yes or no"));
    }
    if !reset.eq_ignore_ascii_case("yes") {
        return Ok(());
    }
    let users = parse_passwd(&sys.read_text("/etc/passwd")?);
    let shadow = sys.read_text("/etc/shadow")?;
    let has_password = |name: &str| shadow.lines().any(|line| line.split(':').next() == Some(name));
    let mut failure = Ok(());
    for user in users.iter().filter(|user| user.uid == 0 && has_password(&user.name)) {
        let expired = sys.run(&Command::new(["passwd", "--expire", &user.name]));
        if let Err(e) = expired.or_else(|_| sys.run(&Command::new(["chage", "-d", "0", &user.name]))) {
            failure = Err(e);
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_of_the_tools_is_true_only_if_it_says_so() {
        for (answer, expected) in [
            ("[deployPkg] enable-custom-scripts = true\n", Some(true)),
            ("[deployPkg] enable-custom-scripts = TRUE\n", Some(true)),
            ("[deployPkg] enable-custom-scripts = false\n", Some(false)),
            ("enable-custom-scripts =\n", Some(false)),
            ("'enable-custom-scripts' is not set\n", None),
            ("", None),
        ] {
            assert_eq!(parse_setting(answer), expected, "{answer}");
        }
    }
}
