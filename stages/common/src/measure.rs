//! Measured boots (`tpm2_measure_pcr`): before the network configuration, user-data and vendor-data are used, their SHA-256
//! digests are extended into a PCR of the TPM. systemd's service does it (systemd-pcrextend(8)), which keeps the log of all
//! measurements.

use std::borrow::Cow;
use std::time::Duration;

use config::{Node, Value};
use netconfig::{Decision, Outcome};
use serde_json::json;
use system::{Command, Deadline, Error, Level, Result, Varlink, WriteOptions, debug, error, info};

use crate::Boot;

const KEY: &str = "tpm2_measure_pcr";
/// For configuration ("kernel-config" in systemd-analyze(1)): systemd extends it with credentials, and with the user-data that
/// systemd-imds imports.
const DEFAULT_PCR: i128 = 12;
const LAST_PCR: i128 = 23;
const SOCKET: &str = "/run/systemd/io.systemd.PCRExtend";
const SOCKET_UNIT: &str = "systemd-pcrextend.socket";
/// The file below the run directory with a line for each measurement of this boot.
const RECORD: &str = "measured";
/// The time limit of a stage's measurements. A TPM needs a fraction of a second for each; its driver may not be loaded yet.
// Wait: local and network stage | the TPM (`tpm2_measure_pcr`) | -
const LIMIT: Duration = Duration::from_secs(30);

/// Something to measure: its name, and its content.
pub(crate) type Measured<'a> = (&'a str, Cow<'a, [u8]>);

/// Measures the network configuration that applies, in the form of `network-config.json`, at each boot, whether or not
/// files are written.
pub(crate) fn network(boot: &Boot, decision: &Decision) {
    if let Outcome::Use(config) = &decision.outcome {
        measure(boot, || vec![("network-config", config::json::to_text(config, 1).into_bytes().into())]);
    }
}

/// Extends the PCR with what the function returns, if the image's configuration requests it. Each content is measured
/// once in a boot; empty content is not measured. A failure is logged, and the boot continues.
pub(crate) fn measure<'a>(boot: &Boot, contents: impl FnOnce() -> Vec<Measured<'a>>) {
    let Some(pcr) = pcr(boot) else { return };
    let measured = boot.sys.read_text(boot.layout.run(RECORD)).unwrap_or_default();
    let mut due = Vec::new();
    for (name, content) in contents().into_iter().filter(|(_, content)| !content.is_empty()) {
        let text = text_of(name, &content);
        match measured.lines().any(|line| line == record_line(pcr, &text)) {
            true => debug!(boot.sys, "PCR {pcr}: {name} was already measured in this boot"),
            false => due.push((name, text)),
        }
    }
    if due.is_empty() {
        return;
    }
    let mut done = 0;
    if let Err(e) = extend(boot, pcr, &due, &mut done) {
        let names: Vec<&str> = due[done..].iter().map(|(name, _)| *name).collect();
        error!(boot.sys, "PCR {pcr}: not measured: {}: {e}", names.join(", "));
    }
}

/// Returns the PCR to extend; `None` if nothing is to be measured here.
fn pcr(boot: &Boot) -> Option<i128> {
    let setting = boot.settings.system.get(KEY)?;
    let Ok(pcr) = parse_pcr(setting) else {
        error!(
            boot.sys,
            "{}: {KEY}: expected true, false or a PCR from 0 to {LAST_PCR}; nothing is measured", setting.at
        );
        return None;
    };
    // An image in a directory, and a plan, do not change this machine's TPM.
    pcr.filter(|_| boot.sys.is_live() && !boot.is_plan())
}

/// Extends the PCR with each text, and counts them.
fn extend(boot: &Boot, pcr: i128, texts: &[(&str, String)], done: &mut usize) -> Result<()> {
    let deadline = Deadline::after(LIMIT);
    let mut service = connect_pcrextend(boot, deadline)?;
    for (name, text) in texts {
        let parameters = json!({ "pcr": pcr as i64, "text": text });
        service.request("io.systemd.PCRExtend.Extend", &parameters, deadline.remaining())?;
        info!(boot.sys, "PCR {pcr}: measured {name}: {text}");
        *done += 1;
        let line = record_line(pcr, text) + "\n";
        boot.sys
            .log_error(Level::Error, boot.sys.append(boot.layout.run(RECORD), line, WriteOptions::secret()));
    }
    Ok(())
}

/// Connects to the service. The local stage is not ordered after the service's socket, which may have to wait for the TPM's
/// driver, so that boots without measurements do not wait; the socket is started here if necessary.
fn connect_pcrextend(boot: &Boot, deadline: Deadline) -> Result<Varlink> {
    let connect = || boot.sys.connect_varlink(SOCKET, deadline.remaining());
    match connect() {
        Err(e) if e.is_not_found() && boot.sys.is_dir("/run/systemd/system") => {
            let start = Command::new(["systemctl", "start", SOCKET_UNIT]).timeout(deadline.remaining());
            boot.sys.run(&start)?;
            connect().map_err(|e| match e.is_not_found() {
                true => Error::new(format!(
                    "{SOCKET_UNIT} is not listening: no TPM, or no measured boot (unified kernel image)"
                )),
                false => e,
            })
        }
        connected => connected,
    }
}

/// Returns the PCR of the setting, in the forms of `tpm2-measure-pcr=` in crypttab(5).
fn parse_pcr(setting: &Node) -> std::result::Result<Option<i128>, ()> {
    match &setting.value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(DEFAULT_PCR)),
        _ => setting.as_int().filter(|pcr| (0..=LAST_PCR).contains(pcr)).map(Some).ok_or(()),
    }
}

/// Returns the text whose digest extends the PCR. systemd's log of measurements has it too, so that it must not be a secret.
fn text_of(name: &str, content: &[u8]) -> String {
    format!("cloud-init:{name}:{}", encoding::hex::encode(&encoding::sha::sha256(content)))
}

fn record_line(pcr: i128, text: &str) -> String {
    format!("{pcr} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcr_is_parsed_as_in_crypttab() {
        for (text, expected) in [
            ("true", Ok(Some(12))),
            ("yes", Ok(Some(12))),
            ("false", Ok(None)),
            ("", Ok(None)),
            ("0", Ok(Some(0))),
            ("15", Ok(Some(15))),
            ("23", Ok(Some(23))),
            ("24", Err(())),
            ("-1", Err(())),
            ("1.5", Err(())),
            ("'12'", Err(())),
            ("kernel-config", Err(())),
            ("[12]", Err(())),
            ("99999999999999999999999999999999999999999", Err(())),
        ] {
            let root = config::yaml::parse("t", &format!("{KEY}: {text}\n")).unwrap().root;
            assert_eq!(parse_pcr(root.get(KEY).unwrap()), expected, "{text}");
        }
    }

    /// The digest is the output of sha256sum(1).
    #[test]
    fn measured_text_has_a_digest_instead_of_the_content() {
        let expected =
            "cloud-init:user-data:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text_of("user-data", b"abc"), expected);
    }
}
