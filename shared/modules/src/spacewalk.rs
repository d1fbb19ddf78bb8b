//! spacewalk: registers the machine with a Spacewalk server, unless it is registered.

use system::{Command, OutputMode, Result, debug, info};

use crate::hostname;
use crate::packages::package_sources;
use crate::values::text_values::Word;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("spacewalk", Frequency::Instance, run).repeatable().on(&[
    "rhel",
    "fedora",
    "openeuler",
]);

const CERTIFICATE: &str = "/usr/share/rhn/RHN-ORG-TRUSTED-SSL-CERT";

config::keys! {
    pub struct Spacewalk {
        /// The hostname of the server.
        server: Option<Word>;
        /// The proxy for connections to the server.
        proxy: Option<Word>;
        /// The activation key.
        activation_key: Option<Word>;
    }
    pub struct Keys {
        /// Register with a Spacewalk server.
        spacewalk: Option<Spacewalk>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(wanted) = context.valid_key(|k: Keys| k.spacewalk)? else { return Ok(()) };
    let sys = context.sys;
    let Some(Word(server)) = wanted.server else {
        debug!(sys, "spacewalk.server is not set; skipped");
        return Ok(());
    };
    package_sources::install_names(context, &["rhn-setup".into()])?;
    // It fails with this code on a machine that is not registered.
    let sync = Command::new(["rhn-profile-sync", "--verbose"]).output(OutputMode::Inherit).accept(&[0, 1]);
    if sys.run(&sync)?.code == 0 {
        return Ok(());
    }
    let profile = hostname::from_metadata_or_system(context).fqdn;
    info!(sys, "registering {profile} with {server}");
    let url = format!("https://{server}/XMLRPC");
    let mut argv = vec!["rhnreg_ks", "--serverUrl", &url, "--profilename", &profile];
    if let Some(Word(proxy)) = &wanted.proxy {
        argv.extend(["--proxy", proxy]);
    }
    argv.extend(["--sslCACert", CERTIFICATE]);
    let mut command = Command::new(argv);
    if let Some(Word(key)) = &wanted.activation_key {
        command = command.arg("--activationkey").secret("", key);
    }
    sys.run(&command.output(OutputMode::Inherit)).map(drop)
}
