//! update_hostname: sets the configured hostname at every boot, unless an administrator changed it.

use distro::{HostnameMethod, parse_hostname};
use system::{Result, WriteOptions, debug, info};

use crate::hostname;
use crate::{Context, Frequency, Module, ModuleFlag};

pub const MODULE: Module = Module::of::<hostname::Keys>("update_hostname", Frequency::Always, run)
    .flags(&[ModuleFlag::NeedsUserData]);

config::keys! {
    /// Updates the hostname in every boot, unless it was changed by hand. Has the keys of set_hostname.
    pub struct Keys {}
}

/// The files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Update {
    /// An administrator's name is kept.
    Nothing,
    /// Whether to write the record of the last name, and the machine's name.
    Files { record: bool, machine: bool },
}

fn decide(previous: Option<&str>, current: Option<&str>, wanted: &str) -> Update {
    match (previous, current) {
        (Some(previous), Some(current)) if previous != current => Update::Nothing,
        _ => Update::Files {
            record: previous != Some(wanted),
            machine: current.is_none() || (current == previous && current != Some(wanted)),
        },
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<hostname::Keys>() else { return Ok(()) };
    if keys.preserve_hostname {
        debug!(sys, "preserve_hostname is set; keeping the hostname");
        return Ok(());
    }
    let Some(names) = hostname::resolve(context, &keys, false) else { return Ok(()) };
    if hostname::is_kept(context, &keys) || (names.is_default && names.hostname == "localhost") {
        debug!(sys, "no hostname is configured");
        return Ok(());
    }
    let record = context.layout.data("previous-hostname");
    let previous = sys.read_text_if_exists(&record)?;
    let previous = previous.as_deref().and_then(parse_hostname);
    let current = context.distro.read_hostname(sys);
    let wanted = names.preferred(hostname::prefer_fqdn(context, &keys));
    match decide(previous, current.as_deref(), wanted) {
        Update::Nothing => {
            info!(sys, "hostname differs from {record}: changed by an administrator; keeping it");
            Ok(())
        }
        Update::Files { record: writes_record, machine } => {
            if machine {
                context.distro.write_hostname(sys, wanted, keys.create_hostname_file)?;
                sys.set_kernel_hostname(&names.hostname)?;
            }
            // With hostnamectl the record has upstream's form: a bare name, written in any case.
            let (make, end) = match context.distro.hostname {
                HostnameMethod::Hostnamectl => (true, ""),
                _ => (keys.create_hostname_file || sys.exists(&record), "\n"),
            };
            if writes_record && make {
                sys.write(&record, format!("{wanted}{end}"), WriteOptions::default())?;
            }
            Ok(())
        }
    }
}
