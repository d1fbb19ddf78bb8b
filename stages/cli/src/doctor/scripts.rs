//! The scripts of the instance and its configuration, and the administrator's units and scripts of the boot.

use super::relations::UNITS;
use crate::machine::Machine;

/// Bytes of a script that a unit calls.
const MAX_SCRIPT: u64 = 256 << 10;
/// Commands that change an account, also one that a variable names, and those that change its files.
const ACCOUNT_COMMANDS: &str = "userdel deluser usermod passwd chpasswd chage chsh gpasswd groupdel delgroup";
const FILE_COMMANDS: &str = "chown chmod setfacl rm mv cp sed tee";

/// Returns the configuration and the scripts of the instance.
pub fn texts(machine: &Machine) -> Vec<String> {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let scripts = sys.list(layout.user_scripts()).unwrap_or_default();
    let paths = scripts.iter().map(|name| format!("scripts/{name}")).chain(["cloud-config.txt".to_string()]);
    paths.filter_map(|path| sys.read_text(layout.instance(&path)).ok()).collect()
}

/// Returns the administrator's units and scripts of the boot with one of these texts, also in a script that they call. Those of the user-data are
/// not searched.
pub fn own_files_with(machine: &Machine, wanted: &[&str]) -> Vec<String> {
    own_files(machine, &|text| wanted.iter().any(|one| text.contains(one)))
}

/// Returns the administrator's units and scripts of the boot with a command that changes the account of a user.
pub fn account_changes(machine: &Machine, user: &str) -> Vec<String> {
    let changes = |line: &str| changes_account(line, user);
    let files = own_files(machine, &|text| text.lines().any(changes));
    files.into_iter().map(|file| format!("{file} changes the account of {user}")).collect()
}

/// Returns whether a line has a command that changes the account of a user or its files.
fn changes_account(line: &str, user: &str) -> bool {
    let is_end = |c: char| !c.is_ascii_alphanumeric() && !"_-./".contains(c);
    let mut words = line.split(is_end);
    let has_user = words.clone().any(|word| word.split('/').any(|part| part == user));
    let has_command = |commands: &str| {
        let is_command = |word: &str| {
            let name = word.rsplit_once("bin/").map_or(word, |(_, name)| name);
            commands.split(' ').any(|command| command == name)
        };
        line.split(is_end).any(is_command)
    };
    let writes_keys = line.contains('>') && words.any(|word| word.ends_with("/authorized_keys"));
    !line.contains("getent")
        && (has_command(ACCOUNT_COMMANDS) && (has_user || line.contains('$'))
            || has_user && (has_command(FILE_COMMANDS) || writes_keys))
}

fn own_files(machine: &Machine, has_one: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (sys, texts) = (&machine.sys, texts(machine));
    let in_directory = |top: &&str| {
        let top = top.to_string();
        let names = sys.list(&top).unwrap_or_default().into_iter();
        names.map(move |name| format!("{top}/{name}")).collect::<Vec<_>>()
    };
    let files = [UNITS, "/etc/cron.d"].iter().flat_map(in_directory).chain(["/etc/rc.local".to_string()]);
    let calls_one = |word: &str| {
        let path = word.trim_start_matches(|c| c != '/');
        let start = if path.is_empty() || !sys.is_file(path) {
            Vec::new()
        } else {
            sys.read_head(path, MAX_SCRIPT).unwrap_or_default()
        };
        start.starts_with(b"#!") && has_one(&String::from_utf8_lossy(&start))
    };
    let has_text = |path: &String| {
        let own = sys.read_text(path).unwrap_or_default();
        has_one(&own) || own.split_whitespace().any(calls_one)
    };
    files.filter(|path| has_text(path) && !texts.iter().any(|own| own.contains(path.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_that_change_an_account_are_known() {
        for (line, expected) in [
            ("ExecStart=/usr/sbin/usermod -L amy", true),
            ("for u in $(ls /home); do passwd -l $u; done", true),
            ("ExecStart=/bin/sh -c ': >/home/amy/.ssh/authorized_keys'", true),
            ("chmod -R 775 /home/amy", true),
            ("usermod -L bob", false),
            ("getent passwd $u", false),
            ("while read u; do echo $u; done </etc/passwd", false),
            ("cat /home/amy/.ssh/authorized_keys", false),
            ("chown root $FILE", false),
        ] {
            assert_eq!(super::changes_account(line, "amy"), expected, "{line}");
        }
    }
}
