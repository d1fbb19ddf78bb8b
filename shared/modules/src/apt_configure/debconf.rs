//! Answers for debconf, and a message about packages that are already installed.

use std::collections::BTreeSet;

use system::{Command, Result, System, warning};

/// Stores the answers of named strings, in the order of the names.
pub fn apply(sys: &System, selections: &[(String, String)]) -> Result<()> {
    if selections.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = selections.iter().map(|(_, text)| text.as_str()).collect();
    let mut all = texts.join("\n");
    if !all.ends_with('\n') {
        all.push('\n');
    }
    // Answers may be passwords.
    sys.run(&Command::new(["debconf-set-selections"]).stdin(all.clone()))?;
    let query = sys.run(&Command::new(["dpkg-query", "--list"]).read_only())?.text();
    let installed = installed_packages(&query);
    let named: Vec<&str> = packages(&all).into_iter().filter(|name| installed.contains(name)).collect();
    if !named.is_empty() {
        warning!(
            sys,
            "apt.debconf_selections: already installed, so the answers apply only to dpkg-reconfigure: {}",
            named.join(", ")
        );
    }
    Ok(())
}

/// Returns the packages that the answers are for.
fn packages(selections: &str) -> BTreeSet<&str> {
    let lines = selections.lines().filter(|line| !line.starts_with('#'));
    let first = lines.filter_map(|line| line.split(|c: char| c == ':' || c.is_whitespace()).next());
    sort::collect(first.filter(|name| !name.is_empty()))
}

/// Returns the installed packages in the output of `dpkg-query --list`, held ones included.
fn installed_packages(list: &str) -> BTreeSet<&str> {
    let name = |line| {
        let mut words = str::split_whitespace(line);
        let is_installed =
            words.next().is_some_and(|state| state.starts_with("ii") || state.starts_with("hi"));
        words.next().filter(|_| is_installed)?.split(':').next()
    };
    sort::collect(list.lines().filter_map(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_are_read_from_selections_and_lists() {
        let selections = "# x y\ntzdata tzdata/Areas select Etc\nlocales:amd64 a b c\n\n  d e\n";
        assert_eq!(Vec::from_iter(packages(selections)), ["locales", "tzdata"]);
        let list =
            "Desired=x\n||/ Name Version\nii  tzdata 1 all z\nrc  gone 1 all z\nhi  libc6:amd64 2 amd64 z\n";
        assert_eq!(Vec::from_iter(installed_packages(list)), ["libc6", "tzdata"]);
    }

    #[test]
    fn answers_for_cloud_init_are_stored_only() {
        let sandbox = crate::tests::sandbox::Sandbox::new("");
        for (program, body) in [
            ("debconf-set-selections", ""),
            ("dpkg-reconfigure", ""),
            ("dpkg-query", "echo 'ii  cloud-init 1 all z'"),
        ] {
            sandbox.stub(program, body);
        }
        let answer = "cloud-init cloud-init/datasources multiselect NoCloud";
        apply(&sandbox.sys, &[("a".into(), answer.into())]).unwrap();
        assert_eq!(sandbox.calls(), format!("debconf-set-selections\n< {answer}\ndpkg-query --list\n"));
        assert!(sandbox.logged_warnings()[0].ends_with("only to dpkg-reconfigure: cloud-init"));
    }
}
