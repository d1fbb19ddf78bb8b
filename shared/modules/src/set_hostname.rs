//! set_hostname: sets the hostname once per instance. The stages also call it before the network is configured, if the
//! name is known by then.

use serde_json::json;
use system::{Result, WriteOptions, debug, warning};

use crate::hostname;
pub use crate::hostname::Keys;
use crate::{Context, Frequency, Module};

/// The module, for the runner.
pub const MODULE: Module = Module::of::<Keys>("set_hostname", Frequency::Instance, run).repeatable();

fn run(context: &Context<'_>) -> Result<()> {
    apply(context, false)
}

/// Sets the hostname before the network is configured, because DHCP requests contain it. Does nothing unless the
/// configuration or the cloud has a name.
///
/// # Errors
/// Fails if the name cannot be set.
pub fn set_hostname_early(context: &Context<'_>) -> Result<()> {
    apply(context, true)
}

fn apply(context: &Context<'_>, metadata_only: bool) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    if keys.preserve_hostname {
        debug!(sys, "preserve_hostname is set; keeping the hostname");
        return Ok(());
    }
    if !metadata_only {
        hostname::report_invalid_cloud_name(context);
    }
    let names = hostname::resolve(context, &keys, metadata_only);
    let Some(names) = names.filter(|_| !hostname::is_kept(context, &keys)) else {
        debug!(sys, "no hostname is known yet");
        return Ok(());
    };
    let path = context.layout.data("set-hostname");
    let record = json!({ "hostname": names.hostname, "fqdn": names.fqdn });
    let before = match state::read_json(sys, &path) {
        Ok(before) => Some(before),
        Err(e) if e.is_not_found() => None,
        Err(e) => {
            debug!(sys, "{e}");
            None
        }
    };
    // After a power failure the record may have survived without the hostname.
    if before.as_ref() == Some(&record) && !context.is_repeat {
        debug!(sys, "the hostname is unchanged");
        return Ok(());
    }
    if names.is_default && names.hostname == "localhost" {
        debug!(sys, "no hostname is configured; keeping the current one");
        return Ok(());
    }
    let prefer_fqdn = hostname::prefer_fqdn(context, &keys);
    let name = names.preferred(prefer_fqdn);
    if prefer_fqdn && name != names.fqdn {
        warning!(sys, "prefer_fqdn_over_hostname: the fqdn is not a hostname; using {name}");
    }
    debug!(sys, "setting the hostname to {} ({})", names.fqdn, names.hostname);
    context.distro.set_hostname(sys, name, keys.create_hostname_file)?;
    sys.write(path, state::json_text(&record, 1), WriteOptions::default()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    fn hostname_file(sandbox: &Sandbox) -> Option<String> {
        sandbox.sys.read_text("/etc/hostname").ok()
    }

    #[test]
    fn written_once_and_again_when_it_changes() {
        let mut sandbox = Sandbox::new("fqdn: web.example.com\n");
        sandbox.run(&MODULE).unwrap();
        assert_eq!(hostname_file(&sandbox).as_deref(), Some("web\n"));
        let (record, mode) = sandbox.file("/var/lib/cloud/data/set-hostname");
        assert_eq!(record, "{\n \"fqdn\": \"web.example.com\",\n \"hostname\": \"web\"\n}\n");
        assert_eq!(mode, 0o644);
        sandbox.sys.write("/etc/hostname", "mine\n", WriteOptions::default()).unwrap();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(hostname_file(&sandbox).as_deref(), Some("mine\n"));
        // A power failure may keep the record and lose the file.
        sandbox.is_repeat = true;
        sandbox.run(&MODULE).unwrap();
        assert_eq!(hostname_file(&sandbox).as_deref(), Some("web\n"));
        sandbox.config = crate::tests::sandbox::yaml("hostname: other");
        sandbox.run(&MODULE).unwrap();
        assert_eq!(hostname_file(&sandbox).as_deref(), Some("other\n"));
    }

    /// The names of CloudSigma and AliYun are not split; a configured name is.
    #[test]
    fn whole_hostname_of_the_cloud_is_not_split() {
        for (config, expected) in [("{}", "web-1.test\n"), ("hostname: a.b", "a\n"), ("fqdn: c.d", "c\n")] {
            let mut sandbox = Sandbox::new(config);
            sandbox.instance.local_hostname = Some("web-1.test".into());
            sandbox.instance.is_hostname_whole = true;
            sandbox.run(&MODULE).unwrap();
            assert_eq!(hostname_file(&sandbox).as_deref(), Some(expected), "{config}");
        }
    }
}
