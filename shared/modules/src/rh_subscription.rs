//! rh_subscription: registers the machine with Red Hat's subscription manager, unless it is registered, and sets its
//! pools, repositories and release.

use std::collections::BTreeSet;

use config::schema::{Deprecation, INT, STR, Type};
use config::{FromNode, Node, Reader};
use system::{Command, Error, Result, debug, info, warning};

use crate::values::text_values::Line;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("rh_subscription", Frequency::Instance, run).repeatable().on(&["fedora", "rhel"]);

config::keys! {
    pub struct Subscription {
        /// The user name.
        username: Option<Line>;
        /// The password.
        password: Option<Line>;
        /// The activation key; needs `org`.
        activation_key: Option<Line>, also "activation-key" since "25.3";
        /// The organization ID.
        org: Option<Org>;
        /// Attach matching subscriptions.
        auto_attach: Option<bool>, also "auto-attach" since "25.3";
        /// The service level; needs `auto_attach`.
        service_level: Option<Line>, also "service-level" since "25.3";
        /// IDs of pools to attach.
        add_pool: Vec<Line>, also "add-pool" since "25.3";
        /// IDs of repositories to enable.
        enable_repo: Vec<Line>, also "enable-repo" since "25.3";
        /// IDs of repositories to disable.
        disable_repo: Vec<Line>, also "disable-repo" since "25.3";
        /// The release to stay at.
        release_version: Option<Line>;
        /// The base URL of the packages.
        rhsm_baseurl: Option<Line>, also "rhsm-baseurl" since "25.3";
        /// The hostname of the subscription server.
        server_hostname: Option<Line>, also "server-hostname" since "25.3";
    }
    pub struct Keys {
        /// Register with Red Hat Subscription Manager.
        rh_subscription: Option<Subscription>, within once();
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Org(String);

const INTEGER_FORM: Deprecation = Deprecation::new("24.2", "a string").message(
    "Deprecated in version 24.2. Use of type integer for this value is deprecated. Use a string instead.",
);

impl FromNode for Org {
    const SCHEMA: &'static [Type] = &[STR, INT.deprecated(&INTEGER_FORM)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Org> {
        if node.as_int().is_some() {
            reader.report_deprecated_form(node, &INTEGER_FORM);
        }
        Line::read(node, reader).map(|text| Org(text.0))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let wanted = context.fully_valid_key(|k: Keys| k.rh_subscription)?;
    let sys = context.sys;
    let Some(wanted) = wanted.filter(is_configured) else {
        debug!(sys, "rh_subscription: neither a user with a password nor an activation key is set; skipped");
        return Ok(());
    };
    if manager(context, &["identity"]).is_ok() {
        info!(sys, "the machine is registered already");
        return Ok(());
    }
    // The machine works without a subscription: warnings, not a failure.
    match subscribe(context, &wanted) {
        Ok(()) => info!(sys, "the machine is registered"),
        Err(e) => warning!(sys, "rh_subscription was not completed: {e}"),
    }
    Ok(())
}

/// Returns whether there is something to log in with. Values are often filled in by a tool, and may be empty.
fn is_configured(wanted: &Subscription) -> bool {
    let is_set = |value: &Option<Line>| value.as_ref().is_some_and(|Line(text)| !text.is_empty());
    (is_set(&wanted.username) && is_set(&wanted.password)) || is_set(&wanted.activation_key)
}

fn subscribe(context: &Context<'_>, wanted: &Subscription) -> Result<()> {
    let sys = context.sys;
    let attaches = wanted.auto_attach == Some(true);
    if wanted.service_level.is_some() && !attaches {
        return Err(Error::new("service_level needs auto_attach"));
    }
    register(context, wanted)?;
    match &wanted.service_level {
        Some(Line(level)) => {
            drop(manager(context, &["attach", "--auto", &format!("--servicelevel={level}")])?)
        }
        None if attaches => drop(manager(context, &["attach", "--auto"])?),
        None => {}
    }
    if !wanted.add_pool.is_empty() {
        add_pools(context, &wanted.add_pool)?;
    }
    if !wanted.enable_repo.is_empty() || !wanted.disable_repo.is_empty() {
        update_repositories(context, &wanted.enable_repo, &wanted.disable_repo)?;
    }
    if let Some(Line(release)) = wanted.release_version.as_ref().filter(|Line(release)| !release.is_empty()) {
        manager(context, &["release", &format!("--set={release}")])?;
        // The cache belongs to another release.
        for directory in ["/var/cache/dnf", "/var/cache/yum"] {
            sys.remove_dir_all(directory)?;
        }
    }
    Ok(())
}

/// Runs the subscription manager and returns its output.
fn manager(context: &Context<'_>, arguments: &[&str]) -> Result<String> {
    let command = Command::new(["subscription-manager"].iter().chain(arguments).copied());
    context.sys.run(&command).map(|output| output.text())
}

fn register(context: &Context<'_>, wanted: &Subscription) -> Result<()> {
    let command = Command::new(["subscription-manager", "register"]);
    // The password is an argument, because this program does not read it from standard input.
    let mut command = match wanted {
        Subscription { activation_key: Some(Line(key)), org: Some(Org(org)), .. } => {
            command.secret("--activationkey=", key).arg(format!("--org={org}"))
        }
        Subscription { username: Some(Line(user)), password: Some(Line(password)), .. } => {
            command.arg(format!("--username={user}")).secret("--password=", password)
        }
        _ => return Err(Error::new("expected activation_key and org, or username and password")),
    };
    let urls = [("--baseurl", &wanted.rhsm_baseurl), ("--serverurl", &wanted.server_hostname)];
    for (option, value) in urls {
        if let Some(Line(value)) = value {
            command = command.arg(format!("{option}={value}"));
        }
    }
    context.sys.run(&command).map(drop)
}

fn add_pools(context: &Context<'_>, wanted: &[Line]) -> Result<()> {
    let list = |kind: &str| manager(context, &["list", kind, "--pool-only"]);
    let (available, consumed) = (list("--available")?, list("--consumed")?);
    let [available, consumed] =
        [&available, &consumed].map(|text| sort::collect::<BTreeSet<_>, _>(text.lines().map(str::trim)));
    let mut options = Vec::new();
    for Line(pool) in wanted {
        if available.contains(&**pool) && !consumed.contains(&**pool) {
            options.push(format!("--pool={pool}"));
        } else {
            warning!(context.sys, "rh_subscription.add_pool: pool {pool} is not available");
        }
    }
    if options.is_empty() {
        return Err(Error::new("none of the pools in add_pool can be attached"));
    }
    let arguments = std::iter::once("attach").chain(options.iter().map(String::as_str));
    manager(context, &arguments.collect::<Vec<_>>()).map(drop)
}

fn update_repositories(context: &Context<'_>, enable: &[Line], disable: &[Line]) -> Result<()> {
    let list = |kind: &str| -> Result<BTreeSet<String>> {
        let text = manager(context, &["repos", kind])?;
        let id = |line: &str| line.split_once("Repo ID:").map(|(_, id)| id.trim().to_string());
        Ok(sort::collect(text.lines().filter_map(id)))
    };
    let (active, inactive) = (list("--list-enabled")?, list("--list-disabled")?);
    let mut arguments = vec!["repos".to_string()];
    for Line(id) in disable {
        match active.contains(id) {
            true => arguments.push(format!("--disable={id}")),
            false => debug!(context.sys, "repository {id} is not enabled"),
        }
    }
    for Line(id) in enable {
        if inactive.contains(id) {
            arguments.push(format!("--enable={id}"));
        } else if !active.contains(id) {
            warning!(context.sys, "rh_subscription.enable_repo: repository {id} does not exist");
        }
    }
    manager(context, &arguments.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
}
