//! Packages: one row per package manager, its command lines, and the order in which managers are tried.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Duration;

use system::{Command, Deadline, Error, OutputMode, Result, System, debug, info, redacted_urls};

use crate::{Distro, PackageManager};

/// The limit for one run of a package manager. Mirrors and maintainer scripts are slow, but after this time it hangs.
// Wait: modules | one run of a package manager | -
const TIMEOUT: Duration = Duration::from_secs(3600);
// Wait: modules | another process to release apt's lock | -
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// transactional-update(8) writes it with each new snapshot.
const SNAPSHOT_MARKER: &str = "/run/reboot-needed";
const APT_LOCKS: [&str; 4] = [
    "/var/lib/dpkg/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/cache/apt/archives/lock",
    "/var/lib/apt/lists/lock",
];

/// Ends an installation one by one: without a network each package fails, some managers after minutes.
// Wait: modules | packages that are installed one by one after a failure, while none succeeds | -
const TIME_WITHOUT_SUCCESS: Duration = Duration::from_secs(600);

/// A package, optionally of one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Package {
    /// The package's name.
    pub name: String,
    /// The version to install; `None` for the latest.
    pub version: Option<String>,
}

impl Package {
    /// Returns a package without a version.
    pub fn new(name: &str) -> Package {
        Package { name: name.into(), version: None }
    }
}

/// A requested package: for one manager, or for any that has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageRequest {
    /// Packages for the distribution's package manager.
    pub any: Vec<Package>,
    /// Packages for apt only.
    pub apt: Vec<Package>,
    /// Packages for snap only.
    pub snap: Vec<Package>,
}

/// `system_info`'s overrides of apt's command lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AptOptions {
    /// The replacement of `apt-get` and its options.
    pub command: Option<Vec<String>>,
    /// The wrapper program, used if it exists; `eatmydata` by default.
    pub wrapper: Wrapper,
    /// The subcommand for an upgrade, if configured.
    pub upgrade: Option<String>,
}

/// The use of a wrapper program for apt-get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wrapper {
    /// Runs apt-get through the wrapper if that is installed.
    #[default]
    Auto,
    /// Runs apt-get without the wrapper.
    Never,
    /// Runs apt-get through this command line; the flag says whether it is used even if its program is not found.
    Command(Vec<String>, bool),
}

/// An operation of a package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Refresh the package lists.
    Update,
    /// Upgrade installed packages.
    Upgrade,
    /// Install packages.
    Install,
    /// Find out whether packages can be installed; for apt only.
    Simulate,
}

const APT: &[&str] = &[
    "apt-get",
    "--option=Dpkg::Options::=--force-confold",
    "--option=Dpkg::options::=--force-unsafe-io",
    "--assume-yes",
    "--quiet",
];

impl PackageManager {
    /// Returns its programs, in order of preference.
    fn programs(self) -> &'static [&'static str] {
        match self {
            PackageManager::Apt => &["apt-get"],
            // Small images of Azure Linux have only the last one.
            PackageManager::Dnf => &["dnf", "yum", "tdnf"],
            PackageManager::Tdnf => &["tdnf"],
            PackageManager::Zypper => &["zypper"],
            PackageManager::Apk => &["apk"],
            PackageManager::Pacman => &["pacman"],
            PackageManager::Emerge => &["emerge"],
            PackageManager::Oma => &["oma"],
            PackageManager::Snap => &["snap"],
        }
    }

    /// Returns the command line for `program`, without packages.
    fn base_argv(self, program: &str, verb: Verb) -> Vec<&'static str> {
        use PackageManager::*;
        type Words = &'static [&'static str];
        const DNF: [Words; 3] = [&["makecache"], &["upgrade"], &["install"]];
        let (head, [update, upgrade, install]): (Words, [Words; 3]) = match (self, program) {
            (Apt, _) => (APT, [&["update"], &["dist-upgrade"], &["install"]]),
            (Dnf, "yum") => (&["yum", "-t", "-y"], DNF),
            (Dnf, "tdnf") | (Tdnf, _) => (&["tdnf", "-y"], DNF),
            (Dnf, _) => (&["dnf", "-y"], DNF),
            (Zypper, _) => (
                &["zypper", "--non-interactive"],
                [&["refresh"], &["update"], &["install", "--auto-agree-with-licenses"]],
            ),
            (Apk, _) => {
                (&["apk", "--quiet"], [&["update"], &["upgrade", "--update-cache", "--available"], &["add"]])
            }
            (Pacman, _) => (&["pacman", "-Sy", "--quiet", "--noconfirm"], [&["-y"], &["-u"], &[]]),
            (Emerge, _) => (&["emerge", "--quiet"], [&["--sync"], &["--update", "world"], &[]]),
            (Oma, _) => (&["oma"], [&["refresh", "-y"], &["upgrade", "-y"], &["install", "-y"]]),
            (Snap, _) => (&["snap"], [&["refresh"], &["refresh"], &["install"]]),
        };
        let tail = match verb {
            Verb::Update => update,
            Verb::Upgrade => upgrade,
            Verb::Install => install,
            Verb::Simulate => &["install", "--simulate"],
        };
        [head, tail].concat()
    }

    /// Returns a package as this manager's command line has it.
    fn package_args(self, package: &Package) -> Vec<String> {
        match (&package.version, self) {
            (None, _) => vec![package.name.clone()],
            (Some(version), PackageManager::Apt) => vec![format!("{}={version}", package.name)],
            (Some(version), PackageManager::Snap) => vec![package.name.clone(), version.clone()],
            (Some(version), _) => vec![format!("{}-{version}", package.name)],
        }
    }

    /// Returns whether an installation needs the index to be refreshed before. The other package managers do this when they
    /// install, and a refresh of dnf's takes minutes.
    pub fn needs_refresh(self) -> bool {
        use PackageManager::{Apk, Apt, Emerge, Pacman};
        matches!(self, Apt | Apk | Pacman | Emerge)
    }

    /// Returns the complete command line.
    pub fn argv(self, program: &str, verb: Verb, packages: &[Package]) -> Vec<String> {
        let mut argv: Vec<String> = self.base_argv(program, verb).into_iter().map(Into::into).collect();
        argv.extend(packages.iter().flat_map(|p| self.package_args(p)));
        argv
    }
}

/// Returns the name as in apt's cache: without a release, a version, and apt's suffixes for "do not install" and "task".
pub fn bare_name(name: &str) -> &str {
    name.split(['/', '=']).next().unwrap_or(name).trim_end_matches(['-', '^'])
}

impl Distro {
    fn program(&self, sys: &System, manager: PackageManager) -> Option<&'static str> {
        manager.programs().iter().copied().find(|p| sys.which(p).is_some())
    }

    /// Updates the package manager's index.
    ///
    /// # Errors
    /// Fails if the package manager fails.
    pub fn update_packages(&self, sys: &System, apt: &AptOptions) -> Result<()> {
        if self.name == "amazon" {
            return Ok(());
        }
        self.run_manager(sys, Verb::Update, &[], apt)
    }

    /// Upgrades the installed packages, and snaps unless they are held.
    ///
    /// # Errors
    /// Fails if a package manager fails.
    pub fn upgrade_packages(&self, sys: &System, apt: &AptOptions) -> Result<()> {
        self.run_manager(sys, Verb::Upgrade, &[], apt)?;
        if self.snap_fallback && self.program(sys, PackageManager::Snap).is_some() {
            let is_held =
                sys.run(&Command::new(["snap", "get", "system", "-d"]).read_only()).is_ok_and(|f| {
                    config::json::value(&f.stdout).is_ok_and(|v| v["refresh"]["hold"] == "forever")
                });
            if is_held {
                info!(sys, "not refreshing snaps: refresh.hold is 'forever'");
            } else {
                let argv = PackageManager::Snap.argv("snap", Verb::Upgrade, &[]);
                sys.run(&Command::new(argv).output(OutputMode::Inherit).timeout(TIMEOUT))?;
            }
        }
        Ok(())
    }

    /// Installs packages that this program needs.
    ///
    /// # Errors
    /// Fails as [`Distro::install_requested`] does.
    pub fn install(&self, sys: &System, packages: &[Package]) -> Result<()> {
        let wanted = PackageRequest { any: packages.to_vec(), ..PackageRequest::default() };
        self.install_requested(sys, &wanted, &AptOptions::default())
    }

    /// Installs packages with the distribution's package manager. Packages that it does not have are installed as snaps
    /// if snaps are supported. The caller has updated the index.
    ///
    /// # Errors
    /// Fails if a package manager fails, or with the names of the packages that no package manager has.
    pub fn install_requested(&self, sys: &System, wanted: &PackageRequest, apt: &AptOptions) -> Result<()> {
        let is_apt = self.package_manager == PackageManager::Apt;
        let (mut failed, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut failure = None;
        let for_apt: HashSet<&Package> = wanted.apt.iter().collect();
        let may_be_snap = |package: &Package| self.snap_fallback && !for_apt.contains(package);
        let mut for_snap = wanted.snap.clone();
        let mut first = wanted.any.clone();
        if is_apt {
            first.splice(0..0, wanted.apt.iter().cloned());
        } else {
            failed.extend(wanted.apt.iter().map(|p| p.name.clone()));
        }
        dedup(&mut first);
        if self.program(sys, self.package_manager).is_none() {
            debug!(sys, "no {:?} here", self.package_manager);
            let (snaps, missing): (Vec<_>, Vec<_>) = first.into_iter().partition(may_be_snap);
            for_snap = [snaps, for_snap].concat();
            failed.extend(missing.into_iter().map(|p| p.name));
        } else if !first.is_empty() {
            // A query makes apt write its caches, and in a dry run the index was not updated.
            let known = if is_apt && !sys.is_dry_run() { Some(self.apt_package_names(sys)?) } else { None };
            let is_known = |p: &Package| known.as_ref().is_none_or(|k| k.contains(bare_name(&p.name)));
            let (available, missing): (Vec<_>, Vec<_>) = first.into_iter().partition(is_known);
            if !missing.is_empty() {
                let names: Vec<_> = missing.iter().map(|p| &*p.name).collect();
                debug!(sys, "apt has no package {}; skipping it", redacted_urls(&names.join(", ")));
            }
            if !available.is_empty() {
                match self.install_available(sys, &available, apt) {
                    Ok(skipped) => failed.extend(skipped),
                    Err(e) => failure = Some(e),
                }
                sys.simulate_packages();
            }
            for package in missing {
                if may_be_snap(&package) {
                    for_snap.push(package);
                } else {
                    unknown.push(package.name);
                }
            }
        }
        dedup(&mut for_snap);
        for package in &for_snap {
            let _activity = sys.begin_activity(describe(Verb::Install, std::slice::from_ref(package)));
            let argv = PackageManager::Snap.argv("snap", Verb::Install, std::slice::from_ref(package));
            if let Err(e) = sys.run(&Command::new(argv).output(OutputMode::Inherit).timeout(TIMEOUT)) {
                info!(sys, "snap {} was not installed: {e}", redacted_urls(&package.name));
                failed.push(package.name.clone());
            }
        }
        let mut reasons = Vec::new();
        if !unknown.is_empty() {
            let why =
                "apt's index does not have it: the name or a repository is wrong, or 'apt-get update' failed";
            reasons.push(format!("{} ({why})", unknown.join(", ")));
        }
        if !failed.is_empty() {
            reasons.push(format!("{} (see the package manager's log)", failed.join(", ")));
        }
        match failure {
            Some(e) if reasons.is_empty() => return Err(e),
            Some(e) => reasons.push(e.to_string()),
            None if reasons.is_empty() => return Ok(()),
            None => {}
        }
        let reasons = redacted_urls(&reasons.join(", "));
        Err(Error::new(format!("failed to install: {reasons}")))
    }

    /// Installs packages in one run or, if that fails, one by one: managers install none if one of them or its version is
    /// unknown. Returns the names of those that failed.
    fn install_available(&self, sys: &System, packages: &[Package], apt: &AptOptions) -> Result<Vec<String>> {
        let failure = match self.run_manager(sys, Verb::Install, packages, apt) {
            Ok(()) => return Ok(Vec::new()),
            Err(e) => e,
        };
        // An error with a kind does not come from a package: the manager cannot be started, hangs, or is locked.
        if packages.len() == 1 || failure.kind().is_some() {
            return Err(failure);
        }
        // A script of a package failed: the others are installed, and it would fail again in each run.
        let is_apt = self.package_manager == PackageManager::Apt;
        if is_apt && self.run_manager(sys, Verb::Simulate, packages, apt).is_ok() {
            return Err(failure);
        }
        info!(sys, "installing the packages one by one: {}", redacted_urls(&failure.to_string()));
        let mut deadline = Deadline::after(TIME_WITHOUT_SUCCESS);
        let mut failed = Vec::new();
        for package in packages {
            let result = match deadline.is_expired() {
                true => Err(Error::new("no package was installed in the last ten minutes")),
                false => self.run_manager(sys, Verb::Install, std::slice::from_ref(package), apt),
            };
            match result {
                Ok(()) => deadline = Deadline::after(TIME_WITHOUT_SUCCESS),
                Err(e) => {
                    info!(sys, "{}", redacted_urls(&format!("{} was not installed: {e}", package.name)));
                    failed.push(package.name.clone());
                }
            }
        }
        Ok(failed)
    }

    fn apt_package_names(&self, sys: &System) -> Result<HashSet<String>> {
        let names = sys.run(&Command::new(["apt-cache", "pkgnames"]).read_only())?;
        Ok(names.text().lines().map(Into::into).collect())
    }

    fn run_manager(&self, sys: &System, verb: Verb, packages: &[Package], apt: &AptOptions) -> Result<()> {
        let _activity = sys.begin_activity(describe(verb, packages));
        if verb != Verb::Update && self.package_manager == PackageManager::Zypper && is_transactional(sys) {
            let mut argv: Vec<String> =
                ["transactional-update", "--non-interactive", "--drop-if-no-change"].map(Into::into).into();
            // An earlier run made a snapshot for the next boot. Without this option the new one, based on the running system, would
            // replace it.
            argv.extend(sys.exists(SNAPSHOT_MARKER).then(|| "--continue".into()));
            if verb == Verb::Upgrade {
                argv.push("up".into());
            } else {
                argv.extend(["pkg", "install", "--auto-agree-with-licenses"].map(Into::into));
                argv.extend(packages.iter().flat_map(|p| self.package_manager.package_args(p)));
            }
            return sys.run(&Command::new(argv).output(OutputMode::Inherit).timeout(TIMEOUT)).map(drop);
        }
        let programs = self.package_manager.programs();
        let program = self.program(sys, self.package_manager).unwrap_or(programs[0]);
        let argv = self.package_manager.argv(program, verb, packages);
        if self.package_manager != PackageManager::Apt {
            return sys.run(&Command::new(argv).output(OutputMode::Inherit).timeout(TIMEOUT)).map(drop);
        }
        let wrapper = wrapper(&apt.wrapper, |program| sys.which(program).is_some());
        let command = Command::new(apt_argv(argv, verb, apt, wrapper))
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output(OutputMode::Inherit)
            .timeout(TIMEOUT);
        run_with_locks(sys, &command)
    }
}

/// Returns apt's command line with the configured replacements.
fn apt_argv(argv: Vec<String>, verb: Verb, options: &AptOptions, wrapper: Vec<String>) -> Vec<String> {
    let rest = argv.get(APT.len()..).unwrap_or_default();
    let head = options.command.clone().unwrap_or_else(|| argv[..APT.len()].to_vec());
    let mut rest = rest.to_vec();
    if verb == Verb::Upgrade
        && let (Some(word), Some(first)) = (&options.upgrade, rest.first_mut())
    {
        first.clone_from(word);
    }
    [wrapper, head, rest].concat()
}

fn wrapper(which: &Wrapper, is_installed: impl Fn(&str) -> bool) -> Vec<String> {
    match which {
        Wrapper::Never => Vec::new(),
        Wrapper::Auto if is_installed("eatmydata") => vec!["eatmydata".into()],
        Wrapper::Auto => Vec::new(),
        Wrapper::Command(words, must) if *must || words.first().is_some_and(|w| is_installed(w)) => {
            words.clone()
        }
        Wrapper::Command(..) => Vec::new(),
    }
}

/// Runs apt when no other process does (unattended upgrades also start at boot): waits for its locks, and retries if
/// another process takes them between the check and the start.
fn run_with_locks(sys: &System, command: &Command) -> Result<()> {
    let deadline = Deadline::after(LOCK_TIMEOUT);
    let mut wait = None;
    loop {
        let mut holder = lock_holder(sys);
        if holder.is_none() {
            // The wait ends, and is logged.
            wait = None;
            let failure = match sys.run(command) {
                Ok(_) => return Ok(()),
                Err(e) => e,
            };
            holder = lock_holder(sys);
            if holder.is_none() {
                return Err(failure);
            }
        }
        let what = format!("apt's lock held by {}", process_name(sys, holder.unwrap_or_default()));
        if deadline.is_expired() {
            let (argv, limit) = (command.command_line(), LOCK_TIMEOUT.as_secs());
            let message = format!("running {argv}: {what} for more than {limit} s");
            return Err(Error::with_kind(ErrorKind::TimedOut, message));
        }
        wait.get_or_insert_with(|| sys.begin_wait(what));
        // No wait: LOCK_TIMEOUT bounds it.
        sys.clock().sleep(Duration::from_secs(1));
    }
}

/// Returns what a package manager does, with the names of the first packages.
fn describe(verb: Verb, packages: &[Package]) -> String {
    const SHOWN: usize = 5;
    match verb {
        Verb::Update => return "updating the package lists".into(),
        Verb::Upgrade => return "upgrading packages".into(),
        Verb::Install | Verb::Simulate => {}
    }
    let names: Vec<&str> = packages.iter().take(SHOWN).map(|package| package.name.as_str()).collect();
    let names = redacted_urls(&names.join(", "));
    match packages.len().saturating_sub(SHOWN) {
        0 => format!("installing {names}"),
        more => format!("installing {names} and {more} more"),
    }
}

/// Returns the process that holds one of apt's locks.
fn lock_holder(sys: &System) -> Option<u32> {
    APT_LOCKS.iter().find_map(|path| sys.lock_holder(path))
}

fn process_name(sys: &System, pid: u32) -> String {
    if pid == 0 {
        return "a process of another container".into();
    }
    match sys.read_text(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("PID {pid} ({})", name.trim()),
        Err(_) => format!("PID {pid}"),
    }
}

/// Returns whether the root is a read-only btrfs snapshot (MicroOS).
fn is_transactional(sys: &System) -> bool {
    let root_is_btrfs = sys.read_text("/proc/mounts").is_ok_and(|text| {
        text.lines().any(|l| {
            let mut fields = l.split(' ').skip(1);
            fields.next() == Some("/") && fields.next() == Some("btrfs")
        })
    });
    root_is_btrfs && sys.which("transactional-update").is_some()
}

fn dedup(packages: &mut Vec<Package>) {
    let mut seen = HashSet::new();
    packages.retain(|p| seen.insert(p.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_depend_on_the_package_manager() {
        let some = [Package::new("a"), Package { name: "b".into(), version: Some("1".into()) }];
        for (manager, program, verb, line) in [
            (PackageManager::Dnf, "dnf", Verb::Install, "dnf -y install a b-1"),
            (PackageManager::Dnf, "yum", Verb::Install, "yum -t -y install a b-1"),
            (PackageManager::Dnf, "tdnf", Verb::Install, "tdnf -y install a b-1"),
            (
                PackageManager::Zypper,
                "zypper",
                Verb::Install,
                "zypper --non-interactive install --auto-agree-with-licenses a b-1",
            ),
            (PackageManager::Apk, "apk", Verb::Install, "apk --quiet add a b-1"),
            (PackageManager::Pacman, "pacman", Verb::Install, "pacman -Sy --quiet --noconfirm a b-1"),
            (PackageManager::Snap, "snap", Verb::Install, "snap install a b 1"),
        ] {
            assert_eq!(manager.argv(program, verb, &some).join(" "), line);
        }
        let apt = PackageManager::Apt.argv("apt-get", Verb::Install, &some);
        assert_eq!(
            apt.join(" "),
            "apt-get --option=Dpkg::Options::=--force-confold --option=Dpkg::options::=--force-unsafe-io \
             --assume-yes --quiet install a b=1"
        );
    }

    #[test]
    fn descriptions_name_at_most_five_packages() {
        let packages: Vec<Package> = ["a", "b", "c", "d", "e", "f"].map(Package::new).into();
        assert_eq!(describe(Verb::Install, &packages[..2]), "installing a, b");
        assert_eq!(describe(Verb::Install, &packages), "installing a, b, c, d, e and 1 more");
        assert_eq!(describe(Verb::Update, &[]), "updating the package lists");
    }

    #[test]
    fn apt_command_wrapper_and_subcommand_can_be_configured() {
        let options = AptOptions {
            command: Some(vec!["aptitude".into()]),
            wrapper: Wrapper::Command(vec!["nice".into(), "-5".into()], false),
            upgrade: Some("safe-upgrade".into()),
        };
        let argv = PackageManager::Apt.argv("apt-get", Verb::Upgrade, &[]);
        let line = apt_argv(argv, Verb::Upgrade, &options, wrapper(&options.wrapper, |_| true));
        assert_eq!(line.join(" "), "nice -5 aptitude safe-upgrade");
        assert!(wrapper(&options.wrapper, |_| false).is_empty());
        assert_eq!(wrapper(&Wrapper::Auto, |p| p == "eatmydata"), ["eatmydata"]);
        assert!(wrapper(&Wrapper::Never, |_| true).is_empty());
    }

    #[test]
    fn suffixes_of_apt_package_names_are_removed() {
        for (written, bare) in
            [("a", "a"), ("a=1", "a"), ("a/sid", "a"), ("a-", "a"), ("lamp-server^", "lamp-server")]
        {
            assert_eq!(bare_name(written), bare);
        }
    }
}
