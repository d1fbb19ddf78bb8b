//! Whether sudo accepts the rules of the configured users.

use std::time::Duration;

use config::Node;
use system::Command;

use super::page::Page;
use crate::finding::{Layer, Severity};
use crate::machine::Machine;

/// The rules that cloud-init writes.
const RULES: &str = "/etc/sudoers.d/90-cloud-init-users";
// Wait: doctor | visudo, which checks the rules of sudo | -
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn section(machine: &Machine, merged: &Node, page: &mut Page) {
    let sys = &machine.sys;
    if !sys.is_live() || !Machine::is_root() || !sys.is_dir("/etc/sudoers.d") {
        return;
    }
    page.findings.layer = Layer::Login;
    // With the files of /etc/sudoers.d, owners and modes: a file that sudo refuses has no effect.
    let check = Command::new(["visudo", "-c"]).timeout(TIMEOUT).accept_all().read_only();
    if sys.which("sudo").is_none() {
        // A note: the image's user has a rule everywhere, and a minimal image no sudo.
        let problem = "users have rules for sudo, which is not installed";
        if sys.exists(RULES) {
            page.findings.add(Severity::Note, RULES, problem, "install it: packages: [sudo]");
        }
        return;
    }
    if let Ok(done) = sys.run(&check)
        && done.code != 0
    {
        let text = [done.stderr, done.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        // `FILE:LINE:COLUMN: syntax error`, before sudo 1.9.11 `>>> FILE: syntax error near line LINE <<<`
        let line = text.lines().find(|line| line.contains('/')).unwrap_or_default();
        let line = line.trim_matches(['>', '<', ' ']);
        let place = line.split(':').next().filter(|path| path.starts_with('/')).unwrap_or(RULES);
        let problem = format!("sudo does not accept its rules: {line}");
        let remedy = "correct the key sudo of the user, or the file in write_files; check it with: visudo -c";
        page.findings.error(place, problem, remedy);
    }
    for file in merged.get("write_files").and_then(Node::as_seq).unwrap_or_default() {
        let path = file.get("path").and_then(Node::as_str).unwrap_or_default();
        let name = path.strip_prefix("/etc/sudoers.d/").unwrap_or_default();
        let is_rule = || sys.read_text(path).is_ok_and(|text| text.contains("ALL"));
        if (name.contains('.') || name.ends_with('~')) && is_rule() {
            let problem = "sudo ignores it: its name has a '.', or ends with '~'";
            page.findings.error(path, problem, "choose another name in write_files");
        }
    }
}
