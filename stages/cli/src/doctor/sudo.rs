//! Whether sudo accepts the rules of the configured users.

use std::time::Duration;

use system::Command;

use super::page::Page;
use crate::finding::{Layer, Severity};
use crate::machine::Machine;

/// The rules that cloud-init writes.
const RULES: &str = "/etc/sudoers.d/90-cloud-init-users";
// Wait: doctor | visudo, which checks the rules of sudo | -
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn section(machine: &Machine, page: &mut Page) {
    let sys = &machine.sys;
    if !sys.is_live() || !Machine::is_root() || !sys.exists(RULES) {
        return;
    }
    page.findings.layer = Layer::Login;
    let check = Command::new(["visudo", "-c", "-f", RULES]).timeout(TIMEOUT).accept_all().read_only();
    if sys.which("sudo").is_none() {
        // A note: the image's user has a rule everywhere, and a minimal image no sudo.
        let problem = "users have rules for sudo, which is not installed";
        page.findings.add(Severity::Note, RULES, problem, "install it: packages: [sudo]");
    } else if let Ok(done) = sys.run(&check)
        && done.code != 0
    {
        let text = [done.stderr, done.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        // `FILE:LINE:COLUMN: syntax error`, before sudo 1.9.11 `>>> FILE: syntax error near line LINE <<<`
        let line = text.lines().find(|line| line.contains('/')).unwrap_or_default();
        let problem = format!("sudo does not accept its rules: {}", line.trim_matches(['>', '<', ' ']));
        page.findings.error(
            RULES,
            problem,
            "correct the key sudo of the user; check it with: visudo -c -f FILE",
        );
    }
}
