//! salt_minion: installs Salt's minion, writes its configuration, grains and keys, and starts it.

use config::yaml::{Style, emit};
use distro::ServiceAction;
use system::{Command, OutputMode, Result, WriteOptions};

use crate::packages::package_sources;
use crate::services::activation::{Activation, is_changed};
use crate::values::text_values::{AnyMap, Line, Word};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("salt_minion", Frequency::Instance, run).repeatable();

config::keys! {
    pub struct Salt {
        /// The package name.
        pkg_name: Word = "salt-minion";
        /// The service name.
        service_name: Word = "salt-minion";
        /// The configuration directory.
        config_dir: Line = "/etc/salt";
        /// The minion's configuration. With `file_client: local`, states are applied once and the service is disabled.
        conf: Option<AnyMap>;
        /// The minion's grains.
        grains: Option<AnyMap>;
        /// The minion's public key; needs `private_key`.
        public_key: Option<String>;
        /// The minion's private key; needs `public_key`.
        private_key: Option<String>;
        /// The key directory. The default is `pki/minion` in `config_dir`, or `pki` if that does not exist.
        pki_dir: Option<Line>;
    }
    pub struct Keys {
        /// Install and configure the Salt minion.
        salt_minion: Option<Salt>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(salt) = context.valid_key(|k: Keys| k.salt_minion)? else { return Ok(()) };
    let (sys, distro) = (context.sys, context.distro);
    package_sources::install_names(context, &[salt.pkg_name.0])?;
    let service = salt.service_name.0.as_str();
    let client = salt.conf.as_ref().and_then(|AnyMap(conf)| conf.get("file_client")?.as_str());
    let is_service = client != Some("local");
    let kind = if is_service { "service" } else { "local" };
    let activation = Activation::begin(context, "salt_minion", &[service, kind]);
    let mut changed = false;
    let directory = salt.config_dir.0.trim_end_matches('/');
    sys.create_dir_all(directory, 0o755)?;
    for (name, document) in [("minion", &salt.conf), ("grains", &salt.grains)] {
        if let Some(AnyMap(node)) = document {
            let text = emit(node, Style::DOCUMENT);
            changed |= is_changed(sys.write(format!("{directory}/{name}"), text, WriteOptions::default())?);
        }
    }
    if let (Some(public), Some(private)) = (&salt.public_key, &salt.private_key) {
        let usual = ["pki/minion", "pki"].map(|name| format!("{directory}/{name}"));
        let usual = if sys.is_dir(&usual[0]) { &usual[0] } else { &usual[1] };
        let keys = salt.pki_dir.as_ref().map_or(usual.as_str(), |path| path.0.trim_end_matches('/'));
        sys.create_dir_all(keys, 0o700)?;
        changed |= is_changed(sys.write(format!("{keys}/minion.pub"), public, WriteOptions::default())?);
        // Upstream leaves the private key readable for all users who can enter the directory.
        changed |= is_changed(sys.write(format!("{keys}/minion.pem"), private, WriteOptions::secret())?);
    }
    // A minion without a master is not a service.
    let (at_boot, now) = match is_service {
        true => (ServiceAction::Enable, ServiceAction::Restart),
        false => (ServiceAction::Disable, ServiceAction::Stop),
    };
    activation.finish(changed, || {
        distro.manage_service(sys, at_boot, service)?;
        distro.manage_service(sys, now, service).map(|()| true)
    })?;
    if is_service {
        return Ok(());
    }
    // Each time: the states may have changed, and Salt changes only what differs from them.
    let apply = Command::new(["salt-call", "--local", "state.apply"]);
    sys.run(&apply.output(OutputMode::Inherit).timeout(context.script_timeout)).map(drop)
}
