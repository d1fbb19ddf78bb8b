//! spacewalk: registers the machine with a Spacewalk server, unless it is registered.

use system::{Command, OutputMode, Result, debug, info};

use crate::hostname;
use crate::packages::package_sources;
use crate::values::text_values::Word;
use crate::{Context, Distros, Frequency, Module, ModuleFlag, Section, valid_key};

pub const MODULE: Module = Module {
    distros: Distros::Named(&["rhel", "fedora", "openeuler"]),
    flags: &[ModuleFlag::Repeatable],
    activation: &["spacewalk"],
    ..Module::of::<Keys>("spacewalk", Frequency::Instance, run)
};

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

const CERTIFICATE: &str = "/usr/share/rhn/RHN-ORG-TRUSTED-SSL-CERT";

config::keys! {
    struct Spacewalk {
        /// The hostname of the server.
        server: Option<Word>;
        /// The proxy for connections to the server.
        proxy: Option<Word>;
        /// The activation key.
        activation_key: Option<Word>;
    }
    struct Keys {
        /// Register with a Spacewalk server.
        spacewalk: Option<Spacewalk>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(wanted) = valid_key(context, "spacewalk", Keys::read_known, |keys| keys.spacewalk)? else {
        return Ok(());
    };
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
