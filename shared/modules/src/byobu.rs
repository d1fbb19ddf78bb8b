//! byobu: whether byobu starts at login, for the default user or for all users.

use config::Node;
use system::{Command, Error, Result, debug, warning};

use crate::accounts::users::Accounts;
use crate::packages::APT;
use crate::packages::package_sources;
use crate::services::activation::Activation;
use crate::{Context, Frequency, Module, last_failure};

pub const MODULE: Module = Module::of::<Keys>("byobu", Frequency::Instance, run).repeatable().on(APT);

config::string_enum! {
    pub enum Choice {
        EnableSystem = "enable-system",
        EnableUser = "enable-user",
        DisableSystem = "disable-system",
        DisableUser = "disable-user",
        Enable = "enable",
        Disable = "disable",
        User = "user",
        System = "system",
    }
}

config::keys! {
    pub struct Keys {
        /// Start byobu at login for the default user (`user`), for all users (`system`), or both. Every enabling value
        /// also enables it for all users.
        byobu_by_default: Option<Choice>;
    }
}

/// The users and the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    enable: bool,
    user: bool,
    system: bool,
}

impl Choice {
    fn plan(&self) -> Plan {
        match self {
            Choice::EnableUser | Choice::User => Plan { enable: true, user: true, system: true },
            Choice::EnableSystem | Choice::System | Choice::Enable => {
                Plan { enable: true, user: false, system: true }
            }
            Choice::DisableUser => Plan { enable: false, user: true, system: false },
            Choice::DisableSystem => Plan { enable: false, user: false, system: true },
            Choice::Disable => Plan { enable: false, user: true, system: true },
        }
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let from_argument: Node;
    let own = match context.first_arg() {
        Some(word) => {
            let mut map = config::Map::new();
            map.insert("byobu_by_default", word);
            from_argument = map.into();
            Context { config: &from_argument, ..*context }
        }
        None => Context { ..*context },
    };
    let Some(choice) = own.read_keys::<Keys>().and_then(|k| k.byobu_by_default) else {
        debug!(sys, "byobu_by_default is not set; skipping");
        return Ok(());
    };
    let plan = choice.plan();
    if sys.which("byobu").is_none() {
        package_sources::install_names(context, &["byobu".into()])?;
    }
    // A failure of one part does not stop the other.
    let mut failed: Vec<Error> = Vec::new();
    if plan.user {
        match Accounts::read(context).default_user() {
            Some(user) => {
                let launcher =
                    if plan.enable { "byobu-launcher-install" } else { "byobu-launcher-uninstall" };
                let activation = Activation::begin(context, "byobu_user", &[&user.name, launcher]);
                let install = Command::new(["sudo", "-Hu", &user.name, launcher]);
                failed.extend(activation.finish(false, || sys.run(&install).map(|_| true)).err());
            }
            None => warning!(sys, "byobu_by_default: there is no default user"),
        }
    }
    if plan.system {
        failed.extend(set_for_system(context, plan.enable).err());
    }
    last_failure(failed)
}

fn set_for_system(context: &Context<'_>, enable: bool) -> Result<()> {
    let answer = format!("byobu byobu/launch-by-default boolean {enable}\n");
    Activation::begin(context, "byobu_system", &[answer.trim_end()]).finish(false, || {
        context.sys.run(&Command::new(["debconf-set-selections"]).stdin(answer.as_str()))?;
        let reconfigure = Command::new(["dpkg-reconfigure", "byobu", "--frontend=noninteractive"]);
        context.sys.run(&reconfigure).map(|_| true)
    })
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;
    #[test]
    fn argument_overrides_the_key() {
        let mut sandbox = Sandbox::new("{byobu_by_default: enable, users: []}");
        sandbox.stub("byobu", "");
        sandbox.args = vec!["disable-user".into()];
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), "");
        assert_eq!(sandbox.logged_warnings(), ["byobu_by_default: there is no default user"]);
    }

    /// cloud-init installs byobu and takes such a word as one that disables it.
    #[test]
    fn an_unknown_word_installs_and_disables_nothing() {
        let sandbox = Sandbox::new("{byobu_by_default: x-system}");
        for program in ["apt-get", "debconf-set-selections", "dpkg-reconfigure"] {
            sandbox.stub(program, "");
        }
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), "");
    }
}
