//! The hostname: the file that stores it, and how it is set on the running system.

use system::{Command, Result, System, WriteOptions, debug, warning};

use crate::{Distro, HostnameMethod, InitSystem, make_header};

const HOSTNAME_FILE: &str = "/etc/hostname";

/// Returns the name in a hostname(5) text.
pub fn parse_hostname(text: &str) -> Option<&str> {
    text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()).find(|l| !l.is_empty())
}

/// Returns the text with the name replaced; comments are kept.
pub fn replace_hostname(text: &str, name: &str) -> String {
    let mut out = String::new();
    let mut done = false;
    for line in text.lines() {
        let (value, comment) = match line.find('#') {
            Some(i) => (line[..i].trim(), &line[i..]),
            None => (line.trim(), ""),
        };
        if value.is_empty() {
            out.push_str(line);
        } else if done {
            continue;
        } else {
            done = true;
            out.push_str(name);
            if !comment.is_empty() {
                out.push_str(&format!(" {comment}"));
            }
        }
        out.push('\n');
    }
    if !done {
        out.push_str(&format!("{name}\n"));
    }
    out
}

/// Returns a string of shell variables with one `KEY=value` replaced or added.
pub fn set_variable(text: &str, key: &str, value: &str) -> String {
    let mut out = String::new();
    let mut done = false;
    for line in text.lines() {
        match line.trim_start().strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) {
            Some(_) if done => continue,
            Some(_) => {
                done = true;
                out.push_str(&format!("{key}={value}\n"));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    if !done {
        out.push_str(&format!("{key}={value}\n"));
    }
    out
}

/// Returns the value of the last `KEY=value` in a string of shell variables, unquoted.
pub fn get_variable(text: &str, key: &str) -> Option<String> {
    let line = text.lines().rev().find_map(|l| l.trim_start().strip_prefix(key)?.strip_prefix('='))?;
    Some(line.trim().trim_matches(['"', '\'']).to_string())
}

/// Returns the failure of one of two steps that do not depend on each other; if both fail, the first is logged.
fn both(sys: &System, first: Result<()>, second: Result<()>) -> Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => {
            warning!(sys, "{first}");
            Err(second)
        }
        (first, second) => first.and(second),
    }
}

impl Distro {
    /// Sets the hostname, now and for later boots. Without `create_file` a missing /etc/hostname is not created.
    ///
    /// # Errors
    /// Fails if the file cannot be written or the kernel's hostname cannot be set.
    pub fn set_hostname(&self, sys: &System, name: &str, create_file: bool) -> Result<()> {
        let systemd = self.init_system(sys) == InitSystem::Systemd;
        if self.hostname == HostnameMethod::Hostnamectl && systemd {
            let mut argv = vec!["hostnamectl", "set-hostname"];
            if !create_file {
                argv.push("--transient");
            }
            argv.push(name);
            return match sys.run(&Command::new(argv)) {
                Ok(_) => Ok(()),
                // hostnamectl needs D-Bus, which may not be up yet; the file and the kernel's hostname do not.
                Err(e) => {
                    debug!(sys, "{e}; writing a new file");
                    let written = self.write_hostname(sys, name, create_file);
                    both(sys, written, sys.set_kernel_hostname(name))
                }
            };
        }
        let written = self.write_hostname(sys, name, create_file);
        let set = if self.hostname == HostnameMethod::FileAndHostnamectl && systemd {
            sys.run(&Command::new(["hostnamectl", "--transient", "set-hostname", name])).map(drop)
        } else {
            sys.set_kernel_hostname(name)
        };
        both(sys, written, set)
    }

    /// Writes the hostname to its file only.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn write_hostname(&self, sys: &System, name: &str, create_file: bool) -> Result<()> {
        let path = self.hostname_file(sys);
        let old = sys.read_text_if_exists(&path)?;
        if old.is_none() && !create_file {
            return Ok(());
        }
        let old = old.unwrap_or_default();
        let text = match path.as_str() {
            HOSTNAME_FILE | "/etc/HOSTNAME" => replace_hostname(&old, name),
            "/etc/conf.d/hostname" => set_variable(&old, "hostname", &format!("\"{name}\"")),
            _ => {
                let note = if old.is_empty() { make_header(sys, "Created") + "\n" } else { String::new() };
                note + &set_variable(&old, "HOSTNAME", name)
            }
        };
        sys.write(&path, text, WriteOptions::default()).map(drop)
    }

    fn hostname_file(&self, sys: &System) -> String {
        let systemd = self.init_system(sys) == InitSystem::Systemd || sys.exists(HOSTNAME_FILE);
        match (self.hostname, self.family) {
            (HostnameMethod::Gentoo, _) if self.init_system(sys) == InitSystem::OpenRc => {
                "/etc/conf.d/hostname"
            }
            (HostnameMethod::Hostnamectl, crate::Family::RedHat)
                if !systemd && sys.exists("/etc/sysconfig/network") =>
            {
                "/etc/sysconfig/network"
            }
            (HostnameMethod::Hostnamectl, crate::Family::Suse) if !systemd => "/etc/HOSTNAME",
            _ => HOSTNAME_FILE,
        }
        .to_string()
    }

    /// Returns the stored hostname: that of the file, else the kernel's.
    pub fn read_hostname(&self, sys: &System) -> Option<String> {
        let path = self.hostname_file(sys);
        let text = sys.read_text_if_exists(&path).inspect_err(|e| warning!(sys, "{e}")).ok().flatten();
        let from_file = text.as_deref().and_then(|text| match path.as_str() {
            "/etc/conf.d/hostname" => get_variable(text, "hostname"),
            "/etc/sysconfig/network" => get_variable(text, "HOSTNAME"),
            _ => parse_hostname(text).map(Into::into),
        });
        if self.hostname == HostnameMethod::Hostnamectl && sys.is_live() {
            return Some(sys.kernel_hostname()).filter(|n| !n.is_empty()).or(from_file);
        }
        from_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostname_file_keeps_comments() {
        for (before, after) in [
            ("", "new\n"),
            ("old\n", "new\n"),
            ("# mine\n\nold # here\n", "# mine\n\nnew # here\n"),
            ("a\nb\n", "new\n"),
        ] {
            assert_eq!(replace_hostname(before, "new"), after);
            assert_eq!(parse_hostname(after), Some("new"));
        }
        assert_eq!(parse_hostname("# none\n\n"), None);
    }

    #[test]
    fn the_hostname_is_set_if_its_file_cannot_be_written() {
        for distro in ["debian", "rhel", "alpine"] {
            let top = scratch::TempDir::new();
            let sys = System::new(&top);
            for file in [HOSTNAME_FILE, "/etc/sysconfig/network"] {
                sys.create_dir_all(file, 0o755).unwrap();
            }
            let failed = Distro::named(distro).unwrap().set_hostname(&sys, "new", true).unwrap_err();
            assert!(failed.to_string().contains("/etc/"), "{distro}: {failed}");
            let is_set = |effect: &system::Effect| matches!(effect, system::Effect::Other { what } if what == "hostname new");
            assert!(sys.effects().iter().any(is_set), "{distro}: {:?}", sys.effects());
        }
    }

    #[test]
    fn shell_variables_are_replaced_or_appended() {
        let text = "# x\nNETWORKING=yes\nHOSTNAME=a\n";
        assert_eq!(set_variable(text, "HOSTNAME", "b"), "# x\nNETWORKING=yes\nHOSTNAME=b\n");
        assert_eq!(set_variable("", "hostname", "\"b\""), "hostname=\"b\"\n");
        assert_eq!(get_variable("A=1\nA='2'\nAB=3\n", "A").as_deref(), Some("2"));
        assert_eq!(get_variable("AB=3\n", "A"), None);
    }
}
