//! ansible: installs Ansible, and has it fetch collections, pull playbooks, or control other machines.

mod keys;
#[cfg(test)]
mod tests;

use config::{Map, Node};
use distro::Family;
use encoding::shell::quote;
use system::{Command, Error, Output, OutputMode, Result, warning};

use crate::packages::package_sources;
use crate::values::text_values::{Line, Operand, Word};
use crate::{Context, Frequency, Module, or_warn};
pub use keys::Keys;
use keys::{Actions, Ansible, Controller, Galaxy, Method, Playbook, Pull, Pulls};

// Not repeatable: playbooks are programs of the user.
pub const MODULE: Module = Module::if_set::<Keys>("ansible", Frequency::Instance, run);

/// The first version of ansible-pull with `--diff`, and the first that takes several playbooks.
const WITH_DIFF: [u32; 2] = [2, 7];
const WITH_PLAYBOOKS: [u32; 2] = [2, 12];

fn run(context: &Context<'_>) -> Result<()> {
    // An incomplete command does something else: without `check`, for example, a playbook changes the machine.
    let read = context.fully_valid_key(|k: Keys| k.ansible)?;
    let Some(ansible) = read else { return Ok(()) };
    if context.config.get("ansible").and_then(Node::as_map).is_none_or(Map::is_empty) {
        return Ok(());
    }
    if let Some(controller) = &ansible.setup_controller {
        check(controller)?;
    }
    let mut runner = Runner::new(context, &ansible);
    match ansible.install_method {
        Method::Distro => runner.install_package(&ansible.package_name.0)?,
        Method::Pip => runner.install_with_pip(&ansible.package_name.0)?,
    }
    if let Some(Galaxy { actions: Actions(actions) }) = &ansible.galaxy {
        if actions.is_empty() {
            warning!(context.sys, "ansible.galaxy.actions is empty");
        }
        for words in actions {
            // Only the first two words are logged; a later one may be a token, as may the value of an option and a whole command line.
            let is_name = |word: &&String| !word.contains(|c: char| c == '=' || c.is_whitespace());
            let shown = words.iter().take(2).filter(is_name).cloned().collect::<Vec<_>>().join(" ");
            runner.run(words, None, &shown)?;
        }
    }
    if let Some(Pulls(pulls)) = ansible.pull.as_ref().filter(|pulls| !pulls.0.is_empty()) {
        let version = runner.version()?;
        pulls.iter().try_for_each(|pull| runner.pull(pull, version))?;
    }
    for repository in ansible.setup_controller.iter().flat_map(|controller| &controller.repositories) {
        let (Word(source), Operand(path)) = (&repository.source, &repository.path);
        let words = ["git", "clone", source, path].map(String::from);
        runner.run(&words, None, &format!("git clone (source) {path}"))?;
    }
    for playbook in ansible.setup_controller.iter().flat_map(|controller| &controller.run_ansible) {
        let name = playbook.name.clone().unwrap_or_default();
        let shown = format!("ansible-playbook {name}{}", option_names(&playbook.options));
        let words: Vec<String> =
            ["ansible-playbook".into(), name].into_iter().chain(playbook.options.iter().cloned()).collect();
        runner.run(&words, playbook.directory.as_deref(), &shown)?;
    }
    Ok(())
}

/// Checks requirements of the module that the schema does not have.
fn check(controller: &Controller) -> Result<()> {
    if controller.repositories.is_empty() && controller.run_ansible.is_empty() {
        return Err(Error::new(
            "ansible.setup_controller: expected repositories or run_ansible; module skipped",
        ));
    }
    let is_incomplete = |playbook: &Playbook| playbook.name.is_none() || playbook.directory.is_none();
    match controller.run_ansible.iter().position(is_incomplete) {
        Some(i) => Err(Error::new(format!(
            "ansible.setup_controller.run_ansible[{i}]: playbook_name and playbook_dir are required; module skipped"
        ))),
        None => Ok(()),
    }
}

/// Returns options without their values, which may be secrets.
fn option_names(options: &[String]) -> String {
    options.iter().map(|option| format!(" {}", option.split('=').next().unwrap_or_default())).collect()
}

/// The user and the environment of commands.
struct Runner<'a> {
    context: &'a Context<'a>,
    user: Option<&'a str>,
    configuration: Option<&'a str>,
    /// The directory in which pip installs programs of the user.
    programs: Option<String>,
}

impl<'a> Runner<'a> {
    fn new(context: &'a Context<'a>, ansible: &'a Ansible) -> Runner<'a> {
        Runner {
            context,
            user: ansible.run_user.as_ref().map(|Word(name)| name.as_str()),
            configuration: ansible
                .ansible_config
                .as_ref()
                .map(|Line(path)| path.as_str())
                .filter(|p| !p.is_empty()),
            programs: None,
        }
    }

    /// Returns a command of the user. `shown` is its text in logs.
    fn command(&self, words: &[String], directory: Option<&str>, shown: &str) -> Command {
        let Some(user) = self.user else {
            // Some of Ansible's modules need HOME.
            let home = self.context.sys.user("root").map_or_else(|| "/root".into(), |root| root.home);
            let command = Command::new(words).env("HOME", home).redacted(shown);
            let command = match self.configuration {
                Some(path) => command.env("ANSIBLE_CONFIG", path),
                None => command,
            };
            return match directory {
                Some(directory) => command.current_dir(directory),
                None => command,
            };
        };
        let mut line = directory.map_or_else(String::new, |path| format!("cd {} && ", quote(path)));
        line.push_str("env PATH=\"$PATH\"");
        if let Some(programs) = &self.programs {
            line.push_str(&format!(":{}", quote(programs)));
        }
        if let Some(path) = self.configuration {
            line.push_str(&format!(" ANSIBLE_CONFIG={}", quote(path)));
        }
        words.iter().for_each(|word| line.push_str(&format!(" {}", quote(word))));
        Command::new(["su", "-", user, "-c", &line]).redacted(format!("su - {user} -c {shown}"))
    }

    fn run(&self, words: &[String], directory: Option<&str>, shown: &str) -> Result<()> {
        let command = self.command(words, directory, shown).output(OutputMode::Inherit);
        self.context.sys.run(&command.timeout(self.context.script_timeout)).map(drop)
    }

    /// Runs a command that changes nothing and returns its output.
    fn query(&self, words: &[&str]) -> Result<Output> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        self.context.sys.run(&self.command(&words, None, &words.join(" ")))
    }

    fn install_package(&self, package: &str) -> Result<()> {
        let sys = self.context.sys;
        let is_installed = || sys.which("ansible").is_some();
        if !is_installed() {
            package_sources::install_names(self.context, &[package.into()])?;
        }
        // A dry run installs nothing.
        if is_installed() || sys.is_dry_run() { Ok(()) } else { Err(not_installed()) }
    }

    fn install_with_pip(&mut self, package: &str) -> Result<()> {
        let sys = self.context.sys;
        let has_pip = sys.run(&Command::new(["python3", "-c", "import pip"]).read_only()).is_ok();
        if !has_pip {
            let package = match self.context.distro.family {
                Family::Alpine => "py3-pip",
                Family::Arch => "python-pip",
                _ => "python3-pip",
            };
            package_sources::install_names(self.context, &[package.into()])?;
        }
        if self.user.is_some() {
            let base = self.query(&["python3", "-c", "import site; print(site.getuserbase())"])?.text();
            self.programs = Some(format!("{}/bin", base.trim_end())).filter(|path| path.starts_with("/"));
        }
        if self.pip_lists_ansible()? {
            return Ok(());
        }
        let mut pip = vec!["python3", "-m", "pip", "install"];
        if self.is_externally_managed() {
            pip.push("--break-system-packages");
        }
        if self.user.is_some() {
            pip.push("--user");
        }
        let install = |more: &[&str]| {
            let words: Vec<String> = pip.iter().chain(more).map(|word| word.to_string()).collect();
            self.run(&words, None, &words.join(" "))
        };
        or_warn!(sys, install(&["--upgrade", "pip"]), "pip is not upgraded");
        install(&[package])?;
        if sys.is_dry_run() || self.pip_lists_ansible()? { Ok(()) } else { Err(not_installed()) }
    }

    fn pip_lists_ansible(&self) -> Result<bool> {
        let list = ["python3", "-m", "pip", "list", "--user"];
        let words = if self.user.is_some() { &list[..] } else { &list[..4] };
        Ok(self.query(words)?.text().contains("ansible"))
    }

    /// Returns whether the distribution keeps pip from installing beside its packages.
    fn is_externally_managed(&self) -> bool {
        let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
        let answer = self.context.sys.run(&Command::new(["python3", "-c", ask]).read_only());
        let directory = answer.map(|output| output.text()).unwrap_or_default();
        self.context.sys.exists(format!("{}/EXTERNALLY-MANAGED", directory.trim_end()))
    }

    /// Returns the version of ansible-pull; 0.0 if its output has none.
    fn version(&self) -> Result<[u32; 2]> {
        let text = self.query(&["ansible-pull", "--version"])?.text();
        let version = parse_version(&text);
        if version.is_none() && !self.context.sys.is_dry_run() {
            warning!(self.context.sys, "ansible: the output of ansible-pull --version has no version");
        }
        Ok(version.unwrap_or_default())
    }

    fn pull(&self, pull: &Pull, version: [u32; 2]) -> Result<()> {
        let is_diff = |option: &String| option == "--diff" || option.starts_with("--diff=");
        if version != [0, 0] && version < WITH_DIFF && pull.options.iter().any(is_diff) {
            let [major, minor] = version;
            return Err(Error::new(format!("ansible.pull: Ansible {major}.{minor} does not support diff")));
        }
        let run = |playbooks: &[String]| {
            let shown = format!("ansible-pull{} {}", option_names(&pull.options), playbooks.join(" "));
            let words = ["ansible-pull".to_string()].into_iter();
            let words: Vec<String> =
                words.chain(pull.options.iter().cloned()).chain(playbooks.iter().cloned()).collect();
            self.run(&words, None, &shown)
        };
        match version >= WITH_PLAYBOOKS {
            true => run(&pull.playbooks),
            false => pull.playbooks.iter().try_for_each(|playbook| run(std::slice::from_ref(playbook))),
        }
    }
}

fn not_installed() -> Error {
    Error::new("Ansible is not installed, and its package did not install it")
}

/// Returns the first two numbers of the first version in the first line: `ansible-pull [core 2.16.3]`.
fn parse_version(text: &str) -> Option<[u32; 2]> {
    let line = text.lines().next()?;
    let start = line.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = line[start..].split(|c: char| !c.is_ascii_digit());
    Some([numbers.next()?.parse().ok()?, numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0)])
}
