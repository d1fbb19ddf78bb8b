//! byobu: whether byobu starts at login, for the default user or for all users.

use config::Node;
use state::Frequency;
use system::{Command, Error, Result, debug, warning};

use crate::accounts::users::Accounts;
use crate::packages::APT;
use crate::packages::package_sources;
use crate::schema::Section;
use crate::services::activation::Activation;
use crate::{Context, Module, ModuleFlag};

pub const MODULE: Module = Module {
    distros: APT,
    flags: &[ModuleFlag::Repeatable],
    keys: &[Keys::KEYS],
    ..Module::new("byobu", Frequency::Instance, run)
};

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

config::string_enum! {
    enum Choice {
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
    struct Keys {
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
    let Some(choice) = own.read_keys(Keys::read_known).and_then(|k| k.byobu_by_default) else {
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
    match failed.pop() {
        Some(e) => Err(e.with_causes(&failed)),
        None => Ok(()),
    }
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
    use crate::tests::sandbox::{Sandbox, yaml};

    const USER_ON: &str = "sudo -Hu ann byobu-launcher-install\n";
    const USER_OFF: &str = "sudo -Hu ann byobu-launcher-uninstall\n";
    const RECONFIGURE: &str = "dpkg-reconfigure byobu --frontend=noninteractive\n";

    fn sandbox(config: &str, sudo: &str) -> Sandbox {
        let mut sandbox = Sandbox::new(config);
        sandbox.system_info = yaml("default_user: {name: ann}");
        for (program, body) in
            [("byobu", ""), ("sudo", sudo), ("debconf-set-selections", ""), ("dpkg-reconfigure", "")]
        {
            sandbox.stub(program, body);
        }
        sandbox
    }

    fn system(on: bool) -> String {
        format!("debconf-set-selections\n< byobu byobu/launch-by-default boolean {on}\n{RECONFIGURE}")
    }

    #[test]
    fn every_choice_calls_its_tools() {
        for (word, calls) in [
            ("enable", system(true)),
            ("system", system(true)),
            ("enable-system", system(true)),
            ("user", format!("{USER_ON}{}", system(true))),
            ("enable-user", format!("{USER_ON}{}", system(true))),
            ("disable-user", USER_OFF.into()),
            ("disable-system", system(false)),
            ("disable", format!("{USER_OFF}{}", system(false))),
            ("maybe", String::new()),
            ("[x]", String::new()),
        ] {
            let sandbox = sandbox(&format!("{{byobu_by_default: {word}, users: [default]}}"), "");
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.calls(), calls, "{word}");
            assert_eq!(sandbox.logged_warnings().len(), calls.is_empty() as usize, "{word}");
        }
        let mut argument = sandbox("{byobu_by_default: enable, users: []}", "");
        argument.args = vec!["disable-user".into()];
        argument.run(&MODULE).unwrap();
        assert_eq!(argument.calls(), "");
        assert_eq!(argument.logged_warnings(), ["byobu_by_default: there is no default user"]);
    }

    #[test]
    fn an_unchanged_choice_is_not_applied_again() {
        let mut sandbox = sandbox("{byobu_by_default: user, users: [default]}", "");
        sandbox.run(&MODULE).unwrap();
        let first = sandbox.calls();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), first);
        sandbox.config = yaml("{byobu_by_default: disable, users: [default]}");
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.calls(), format!("{first}{USER_OFF}{}", system(false)));
    }

    #[test]
    fn a_failure_for_the_user_does_not_stop_the_system() {
        let sandbox = sandbox("{byobu_by_default: user, users: [default]}", "exit 3");
        assert!(sandbox.run(&MODULE).is_err());
        assert!(sandbox.calls().ends_with(RECONFIGURE));
    }
}
