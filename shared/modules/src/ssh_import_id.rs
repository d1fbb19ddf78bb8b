//! ssh_import_id: public keys of users, fetched from GitHub or Launchpad by the program ssh-import-id, which runs as the
//! user that gets them.

use std::collections::BTreeSet;
use std::time::Duration;

use config::Node;
use system::{Command, Error, OutputMode, Result, debug, error, warning};

use crate::accounts::user_keys::ImportId;
use crate::accounts::users::Accounts;
use crate::{Context, Frequency, Module, last_failure};

pub const MODULE: Module = Module::of::<Keys>("ssh_import_id", Frequency::Instance, run).repeatable().on(&[
    "alpine",
    "cos",
    "debian",
    "raspberry-pi-os",
    "ubuntu",
]);

const PROGRAM: &str = "ssh-import-id";
/// The pause before the only retry.
const RETRY_DELAY: Duration = Duration::from_millis(500);

config::keys! {
    pub struct Keys {
        /// Public keys to import for the default user: `gh:NAME` (GitHub) or `lp:NAME` (Launchpad).
        ssh_import_id: Vec<ImportId>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let own = context.read_keys::<Keys>().map(|k| k.ssh_import_id).unwrap_or_default();
    let wanted = match context.args.split_first() {
        Some((user, ids)) => {
            let ids = valid_ids(context, ids);
            user.scalar_text().map(|user| (user, ids)).into_iter().collect()
        }
        None => requested_ids(&Accounts::read(context), &own),
    };
    let wanted: Vec<(String, Vec<String>)> = wanted.into_iter().filter(|(_, ids)| !ids.is_empty()).collect();
    if wanted.is_empty() {
        debug!(sys, "ssh_import_id is not set for a user; skipping");
        return Ok(());
    }
    if sys.which(PROGRAM).is_none() {
        warning!(
            sys,
            "ssh-import-id is not installed, but module ssh_import_id is configured. Skipping module."
        );
        return Ok(());
    }
    let mut failed = Vec::new();
    for (user, ids) in &wanted {
        let result = import(context, user, ids);
        failed.extend(result.err().inspect(|e| warning!(sys, "ssh-import-id failed for {user}: {e}")));
    }
    last_failure(failed)
}

/// Returns the users and the IDs of their keys. The default user has the top-level key's IDs and those of its own entry.
fn requested_ids(accounts: &Accounts, top_level: &[ImportId]) -> Vec<(String, Vec<String>)> {
    let ids_of = |user: &crate::accounts::users::User| {
        let top_level = if user.is_default { top_level } else { &[] };
        let mut known = BTreeSet::new();
        let of_user = top_level.iter().chain(&user.keys.ssh_import_id);
        // No ID has a comma: a string may be a list of them, as in `groups`.
        let ids = of_user.flat_map(|ImportId(id)| id.split(',')).filter(|id| !id.is_empty());
        (user.name.clone(), ids.filter(|id| known.insert(*id)).map(String::from).collect())
    };
    accounts.users.iter().map(ids_of).collect()
}

/// Returns the IDs of the module's arguments.
fn valid_ids(context: &Context<'_>, arguments: &[Node]) -> Vec<String> {
    let texts = arguments.iter().filter_map(Node::scalar_text);
    let ids: Vec<String> = texts.filter(|id| ImportId::is_valid(id)).collect();
    if ids.len() < arguments.len() {
        let count = arguments.len() - ids.len();
        warning!(context.sys, "ssh_import_id: expected IDs such as gh:NAME; {count} arguments are invalid");
    }
    ids
}

fn import(context: &Context<'_>, user: &str, ids: &[String]) -> Result<()> {
    let sys = context.sys;
    // In a dry run, new users do not exist.
    if sys.user(user).is_none() && !sys.is_dry_run() {
        return Err(Error::new(format!("user {user} does not exist")));
    }
    let as_user: &[&str] = if sys.which("sudo").is_some() {
        &["sudo", "--preserve-env=https_proxy", "-Hu", user, PROGRAM]
    } else if sys.which("doas").is_some() {
        &["doas", "-u", user, PROGRAM]
    } else {
        error!(sys, "neither sudo nor doas is installed; cannot import the SSH keys of user {user}");
        return Ok(());
    };
    let command = Command::new(as_user.iter().copied().chain(ids.iter().map(String::as_str)));
    let command = command.output(OutputMode::Inherit);
    match sys.run(&command) {
        Err(e) => {
            debug!(sys, "{e}; retrying once");
            sys.clock().sleep_about(RETRY_DELAY);
            sys.run(&command).map(drop)
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;
    use system::WriteOptions;

    #[test]
    fn arguments_override_the_configuration() {
        let mut sandbox = Sandbox::new("{ssh_import_id: [gh:a], user: {name: ann, ssh_import_id: [gh:own]}}");
        sandbox.sys.write("/etc/passwd", "ann:x:1001:1001::/:/bin/sh\n", WriteOptions::default()).unwrap();
        sandbox.stub("ssh-import-id", "");
        sandbox.stub("doas", "");
        sandbox.args = ["ann", "lp:ann", "-x"].map(Node::from).to_vec();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), "doas -u ann ssh-import-id lp:ann\n");
        assert_eq!(sandbox.logged_warnings().len(), 1, "{:?}", sandbox.logged_warnings());
        sandbox.args.clear();
        sandbox.run(&MODULE).unwrap();
        assert!(
            sandbox.calls().ends_with("\ndoas -u ann ssh-import-id gh:a gh:own\n"),
            "{}",
            sandbox.calls()
        );
    }
}
