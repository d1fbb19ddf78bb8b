//! Whether PAM's rules for a service let in a user who has a valid account. Only rules that are certain count.

mod access;
mod faillock;
mod limits;
mod times;

use system::{System, User};

use access::denied_by;
use limits::{LEAST, limited_by};
use times::never_permitted;

const DIRECTORIES: [&str; 3] = ["/etc/pam.d", "/usr/lib/pam.d", "/usr/share/pam.d"];
/// The maximum number of files that are read for one service, which may include each other in a circle.
const MAX_FILES: usize = 32;
const ACCESS: &str = "/etc/security/access.conf";
/// In place of a module: the line includes a file that does not exist.
const MISSING: &str = "@";
const SHELLS: &str = "/etc/shells";
const TIMES: &str = "/etc/security/time.conf";

/// A line of a file of pam.d(5).
struct Rule {
    at: String,
    control: String,
    module: String,
    arguments: Vec<String>,
}

/// Why a module refuses a user, and its possible results.
struct Refusal {
    problem: String,
    results: &'static [&'static str],
}

/// What follows from the result of a module.
#[derive(PartialEq)]
enum Action {
    Continue,
    Jump(usize),
    Done,
    Refuse,
}

/// The kinds of rules that count for every login, and for one with a password.
pub const LOGIN: [&str; 2] = ["account", "session"];
pub const PASSWORD: [&str; 1] = ["auth"];

/// Returns the line among rules of these kinds that refuses the user, and why. Modules of which the result is not known are taken for
/// successful, unless rules are skipped by their result.
pub fn refusal(
    sys: &System,
    service: &str,
    kinds: &[&str],
    user: &User,
    groups: &[&str],
) -> Option<(String, String)> {
    let has_file = |name: &str| DIRECTORIES.iter().any(|top| sys.exists(format!("{top}/{name}")));
    kinds.iter().find_map(|kind| {
        let (mut rules, mut at, mut files) = (Vec::new(), 0, MAX_FILES);
        read(sys, if has_file(service) { service } else { "other" }, kind, &mut files, &mut rules);
        while let Some(rule) = rules.get(at).filter(|_| files > 0) {
            at += 1;
            let refusal = rule.refusal(sys, service, kind, user, groups);
            let is_known = refusal.is_some() || ["pam_unix.so", "pam_permit.so"].contains(&&*rule.module);
            let failed = refusal.as_ref().map_or(&["auth_err", "perm_denied"][..], |refusal| refusal.results);
            let (good, bad) = (action(&rule.control, &["success"]), action(&rule.control, failed));
            if !is_known
                && good != bad
                && [&good, &bad].iter().any(|action| matches!(action, Action::Jump(_)))
            {
                return None;
            }
            match if refusal.is_some() { bad } else { good } {
                Action::Continue => {}
                Action::Jump(count) => at = at.saturating_add(count),
                Action::Done => return None,
                Action::Refuse => return refusal.map(|refusal| (rule.at.clone(), refusal.problem)),
            }
        }
        None
    })
}

/// Adds the rules of a kind, with those of included files. A substack is one rule, of which the result is not known, except for passwords:
/// there it has the main rules. `files` is the number of files that may still be read.
fn read(sys: &System, file: &str, kind: &str, files: &mut usize, rules: &mut Vec<Rule>) {
    *files = files.saturating_sub(1);
    let path = DIRECTORIES.iter().map(|top| format!("{top}/{file}")).find(|path| sys.exists(path));
    let Some(path) = path.filter(|_| *files > 0) else { return };
    let text = sys.read_text(&path).unwrap_or_default();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut line = line.split('#').next().unwrap_or_default().to_string();
        while line.ends_with('\\') {
            line.pop();
            let next = lines.next().map_or("", |(_, next)| next.split('#').next().unwrap_or_default());
            line = format!("{line} {next}");
        }
        let (first, rest) = line.trim().split_once([' ', '\t']).unwrap_or((line.trim(), ""));
        let rule = |control: &str, module: String, arguments: Vec<String>| Rule {
            at: format!("{path}, line {number}"),
            control: control.into(),
            module,
            arguments,
        };
        let is_missing = |name: &str| {
            !name.starts_with('/') && !DIRECTORIES.iter().any(|top| sys.exists(format!("{top}/{name}")))
        };
        if first == "@include" {
            match is_missing(rest.trim()) {
                true => rules.push(rule("requisite", MISSING.into(), vec![rest.trim().into()])),
                false => read(sys, rest.trim(), kind, files, rules),
            }
        }
        if first != kind {
            continue;
        }
        let rest = rest.trim_start();
        let end =
            if rest.starts_with('[') { rest.find(']').map(|at| at + 1) } else { rest.find([' ', '\t']) };
        let (control, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let mut words = rest.split_whitespace().map(str::to_string);
        let module = words.next().unwrap_or_default();
        match control {
            "include" | "substack" if is_missing(&module) => {
                rules.push(rule("requisite", MISSING.into(), vec![module]))
            }
            "include" => read(sys, &module, kind, files, rules),
            "substack" if kind == "auth" => read(sys, &module, kind, files, rules),
            "substack" => rules.push(rule(control, String::new(), Vec::new())),
            control => rules.push(rule(control, module, words.collect())),
        }
    }
}

/// Returns the action of the first of these results that a control names, or of others.
fn action(control: &str, results: &[&str]) -> Action {
    let is_good = results == ["success"];
    let word = match control.strip_prefix('[') {
        None => match (control, is_good) {
            ("required" | "requisite", false) => "bad",
            ("sufficient", true) => "done",
            _ => "ignore",
        },
        Some(pairs) => {
            let pairs =
                pairs.trim_end_matches(']').split_whitespace().filter_map(|pair| pair.split_once('='));
            let of = |wanted: &dyn Fn(&str) -> bool| pairs.clone().find(|(result, _)| wanted(result));
            let found = of(&|result| results.contains(&result)).or_else(|| of(&|result| result == "default"));
            found.map_or("bad", |(_, action)| action)
        }
    };
    match word {
        "bad" | "die" => Action::Refuse,
        "done" => Action::Done,
        word => word.parse().map_or(Action::Continue, Action::Jump),
    }
}

impl Rule {
    /// Returns why the module refuses the user, if that is known.
    fn refusal(
        &self,
        sys: &System,
        service: &str,
        kind: &str,
        user: &User,
        groups: &[&str],
    ) -> Option<Refusal> {
        let argument = |name: &str| self.arguments.iter().find_map(|word| word.strip_prefix(name));
        let refused =
            |problem| Some(Refusal { problem, results: &["auth_err", "perm_denied", "session_err"] });
        match (&*self.module, kind) {
            (MISSING, _) => {
                let file = self.arguments.first()?;
                refused(format!("it includes {file}, which does not exist, so PAM refuses every user"))
            }
            ("pam_deny.so", _) => refused("pam_deny.so refuses every user".into()),
            // The files that it reads without an argument are reported anyway.
            ("pam_nologin.so", "account") => {
                let file = argument("file=").filter(|path| user.uid != 0 && sys.exists(path))?;
                refused(format!("pam_nologin.so lets in only root, because {file} exists"))
            }
            ("pam_access.so", "account") => {
                let file = argument("accessfile=").unwrap_or(ACCESS);
                let line = denied_by(&sys.read_text(file).ok()?, &user.name, groups)?;
                refused(format!("pam_access.so refuses user {} ({file}, line {line})", user.name))
            }
            ("pam_time.so", "account") => {
                let file = argument("conffile=").unwrap_or(TIMES);
                let line = never_permitted(&sys.read_text(file).ok()?, service, &user.name)?;
                refused(format!("pam_time.so refuses user {} at all times ({file}, line {line})", user.name))
            }
            ("pam_faillock.so", "auth") => {
                let failures = faillock::failures(sys, &self.arguments, user)?;
                refused(format!(
                    "pam_faillock.so refuses the password of user {} after {failures} failed logins",
                    user.name
                ))
            }
            ("pam_limits.so", "session") if argument("conf=").is_none() => {
                LEAST.iter().find_map(|(item, least, what)| {
                    let place = limited_by(sys, (item, *least), user, groups)?;
                    refused(format!("pam_limits.so allows user {} no {what} ({item} in {place})", user.name))
                })
            }
            ("pam_shells.so", _) => {
                let text = sys.read_text(SHELLS).ok()?;
                let shell = if user.shell.is_empty() { "/bin/sh" } else { &user.shell };
                text.lines().all(|line| line.trim() != shell).then_some(())?;
                refused(format!("pam_shells.so refuses the shell {shell}, which {SHELLS} does not list"))
            }
            ("pam_listfile.so", _) if argument("apply=").is_none() => {
                let names = match argument("item=")? {
                    "user" => vec![user.name.as_str()],
                    "group" => groups.to_vec(),
                    _ => return None,
                };
                let file = argument("file=")?;
                let text = sys.read_text(file).ok()?;
                let is_listed = text.lines().any(|line| names.contains(&line));
                let lists = if is_listed { "lists" } else { "does not list" };
                (is_listed == (argument("sense=")? == "deny")).then_some(())?;
                refused(format!("pam_listfile.so refuses user {}, whom {file} {lists}", user.name))
            }
            ("pam_succeed_if.so", _) if argument("use_uid").is_none() => {
                let test = self
                    .arguments
                    .windows(3)
                    .find(|words| fails([&words[0], &words[1], &words[2]], user, groups))?;
                refused(format!("pam_succeed_if.so refuses user {} ({})", user.name, test.join(" ")))
            }
            ("pam_exec.so", _) => {
                let program = self.arguments.iter().find(|word| word.starts_with('/'))?;
                (sys.is_live() && !sys.exists(program.as_str())).then_some(())?;
                refused(format!("pam_exec.so cannot run {program}, which does not exist"))
            }
            (module, _) => is_missing(sys, module).then(|| Refusal {
                problem: format!(
                    "the module {} does not exist, so PAM refuses every user",
                    config::shown_name(module)
                ),
                results: &["module_unknown"],
            }),
        }
    }
}

/// Returns whether a condition of pam_succeed_if(8) certainly does not hold for a user.
fn fails([field, operator, value]: [&str; 3], user: &User, groups: &[&str]) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let is_in = || value.split(':').any(|group| groups.contains(&group));
    let order = match (field, value.parse::<u32>()) {
        ("uid", Ok(value)) => user.uid.cmp(&value),
        ("gid", Ok(value)) => user.gid.cmp(&value),
        ("user", _) if operator == "ingroup" => return !is_in(),
        ("user", _) if operator == "notingroup" => return is_in(),
        ("user", _) if operator == "=" => return user.name != value && !value.contains(['*', '?', '[']),
        _ => return false,
    };
    match operator {
        "eq" => order != Equal,
        "ne" => order == Equal,
        "lt" | "<" => order != Less,
        "le" | "<=" => order == Greater,
        "gt" | ">" => order != Greater,
        "ge" | ">=" => order == Less,
        _ => false,
    }
}

/// Returns whether a module is in none of the directories that may be PAM's.
fn is_missing(sys: &System, module: &str) -> bool {
    let tops = ["/usr/lib64", "/usr/lib", "/lib"];
    let directories = tops.iter().flat_map(|top| {
        let inner = sys.list(top).unwrap_or_default().into_iter().filter(|name| name.contains("-linux-"));
        inner.map(move |name| format!("{top}/{name}/security")).chain([format!("{top}/security")])
    });
    let directories: Vec<String> = directories.collect();
    let has = |name: &str| directories.iter().any(|directory| sys.exists(format!("{directory}/{name}")));
    !module.starts_with('/') && !module.is_empty() && has("pam_unix.so") && !has(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_refuse_everybody_are_found() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        let accounts = system::parse_passwd("amy:x:1000:1000::/home/amy:/bin/sh\n");
        let user = &accounts[0];
        root.put("etc/own-nologin", "");
        root.put("usr/lib/x86_64-linux-gnu/security/pam_unix.so", "");
        for module in ["permit", "deny", "nologin", "access", "succeed_if", "listfile", "limits", "shells"] {
            root.put(&format!("usr/lib/x86_64-linux-gnu/security/pam_{module}.so"), "");
        }
        let common = "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\naccount requisite pam_deny.so\naccount required pam_permit.so\n";
        root.put("etc/pam.d/common-account", common);
        root.put("etc/pam.d/two", "account required pam_deny.so\n");
        root.put("usr/lib/security/pam_own.so", "");
        root.put("etc/pam.d/common-broken", common.replace("success=1", "success=ok"));
        root.put("etc/security/limits.conf", "#* - maxlogins 1\n@amy - maxlogins 2\n");
        root.put(
            "etc/security/limits.d/90-own.conf",
            "* hard nofile 9\n@amy hard maxlogins 0\n* - maxlogins 3\n",
        );
        root.put("etc/shells", "# /bin/sh\n/bin/zsh\n");
        root.put("etc/listed", "root\namy\n");
        root.put("etc/unlisted", "root\n#amy\n");
        root.put("etc/security/access.conf", "# -:ALL:ALL\n+:root:ALL\n- : ALL : ALL\n");
        root.put("etc/security/own.conf", "-:ALL EXCEPT amy:ALL\n");
        root.put("etc/security/others.conf", "-:bob EXCEPT al:ALL\n-:ALL EXCEPT root:ALL\n");
        root.put("etc/security/nested.conf", "-:ALL EXCEPT root EXCEPT amy:ALL\n");
        for (rules, expected) in [
            ("auth required pam_deny.so\n@include common-account\n", None),
            ("account include common-account\nsession optional pam_deny.so\n", None),
            ("account sufficient pam_unix.so\naccount required pam_deny.so\n", None),
            (
                "account [success=1 default=ignore] pam_succeed_if.so user = root\naccount required pam_deny.so\n",
                Some(("sshd, line 2", "pam_deny.so refuses every user")),
            ),
            (
                "@include common-gone\n",
                Some(("sshd, line 1", "it includes common-gone, which does not exist")),
            ),
            ("account substack gone\n", Some(("sshd, line 1", "it includes gone"))),
            ("auth include gone\naccount include /etc/pam.d/two\n", None),
            ("account required pam_nologin.so\n", None),
            ("account required \\\n pam_unix.so\n", None),
            ("account [success=1 default=ignore] \\\n pam_unix.so\naccount requisite pam_deny.so\n", None),
            (
                "account [success=ignore default=1] pam_succeed_if.so user ingroup x\naccount required pam_deny.so\n",
                None,
            ),
            ("account [success=ok module_unknown=ignore default=bad] pam_not_there.so\n", None),
            ("account substack two\naccount required pam_permit.so\n", None),
            ("@include sshd\n@include sshd\n@include sshd\naccount required pam_deny.so\n", None),
            ("account required pam_own.so\n", None),
            ("account [default=18446744073709551615] pam_deny.so\n", None),
            ("account required pam_access.so accessfile=/etc/security/own.conf\n", None),
            ("-account required pam_not_there.so\n", None),
            ("account required pam_listfile.so item=user sense=allow file=/etc/listed onerr=fail\n", None),
            ("account required pam_listfile.so item=group sense=deny file=/etc/unlisted onerr=fail\n", None),
            ("account required pam_listfile.so item=tty sense=deny file=/etc/listed onerr=fail\n", None),
            (
                "account required pam_listfile.so item=user sense=allow file=/etc/not-there onerr=succeed\n",
                None,
            ),
            ("account required pam_succeed_if.so quiet user ingroup wheel:amy\n", None),
            ("account required pam_succeed_if.so uid >= 1000 user notingroup wheel\n", None),
            (
                "account required pam_listfile.so item=user sense=allow file=/etc/unlisted onerr=fail\n",
                Some(("sshd, line 1", "whom /etc/unlisted does not list")),
            ),
            (
                "account required pam_listfile.so item=group sense=deny file=/etc/listed onerr=succeed\n",
                Some(("sshd, line 1", "whom /etc/listed lists")),
            ),
            (
                "account [success=1 default=ignore] pam_succeed_if.so quiet user ingroup wheel\naccount required pam_deny.so\n",
                Some(("sshd, line 2", "pam_deny.so")),
            ),
            (
                "account required pam_succeed_if.so quiet user ingroup wheel\n",
                Some(("sshd, line 1", "refuses user amy (user ingroup wheel)")),
            ),
            (
                "account required pam_succeed_if.so uid >= 2000\n",
                Some(("sshd, line 1", "refuses user amy (uid >= 2000)")),
            ),
            ("session required pam_limits.so conf=/etc/own\naccount required pam_limits.so\n", None),
            (
                "session required pam_limits.so\n",
                Some(("sshd, line 1", "(maxlogins in /etc/security/limits.d/90-own.conf, line 2)")),
            ),
            (
                "account required pam_shells.so\n",
                Some(("sshd, line 1", "the shell /bin/sh, which /etc/shells does not list")),
            ),
            (
                "account required pam_deny.so # all\n",
                Some(("sshd, line 1", "pam_deny.so refuses every user")),
            ),
            ("\n@include common-broken\n", Some(("common-broken, line 2", "pam_deny.so"))),
            ("session [default=die] pam_deny.so\n", Some(("sshd, line 1", "pam_deny.so"))),
            (
                "account required pam_nologin.so file=/etc/own-nologin\n",
                Some(("sshd, line 1", "/etc/own-nologin exists")),
            ),
            ("account required pam_access.so\n", Some(("sshd, line 1", "access.conf, line 3"))),
            (
                "account required pam_not_there.so\n",
                Some(("sshd, line 1", "pam_not_there.so does not exist")),
            ),
            ("@include sshd\n", None),
            (
                "account required pam_access.so accessfile=/etc/security/others.conf\n",
                Some(("sshd, line 1", "others.conf, line 2")),
            ),
            ("account required pam_access.so accessfile=/etc/security/nested.conf\n", None),
        ] {
            root.put("etc/pam.d/sshd", rules);
            let found = refusal(&sys, "sshd", &LOGIN, user, &["amy"]);
            match expected {
                None => assert_eq!(found, None, "{rules}"),
                Some((place, problem)) => assert!(
                    found.as_ref().is_some_and(|(at, why)| at.ends_with(place) && why.contains(problem)),
                    "{rules}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn a_service_without_a_file_has_the_rules_of_other() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        let accounts = system::parse_passwd("amy:x:1000:1000::/home/amy:/bin/sh\n");
        root.put("etc/pam.d/other", "account required pam_deny.so\n");
        let found = refusal(&sys, "sshd", &LOGIN, &accounts[0], &[]);
        assert!(found.is_some_and(|(place, _)| place == "/etc/pam.d/other, line 1"));
        root.put("etc/pam.d/sshd", "");
        assert_eq!(refusal(&sys, "sshd", &LOGIN, &accounts[0], &[]), None);
    }
}
