//! Checks semaphores: unreadable ones, files of other programs, and work that began and did not end.

use state::Frequency;

use crate::finding::Findings;
use crate::machine::Machine;

/// The maximum number of names of a directory that are checked.
const MAX_NAMES: usize = 10_000;

pub fn check(machine: &Machine, checked: &mut Findings) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    for directory in [layout.instance_semaphores(), layout.machine_semaphores()] {
        let names = match sys.list(&directory) {
            Err(e) if e.is_not_found() => continue,
            names => checked.read(names).unwrap_or_default(),
        };
        if names.len() > MAX_NAMES {
            checked.unread.push(format!("{directory}: {} names, of which {MAX_NAMES} are read", names.len()));
        }
        for name in names.iter().take(MAX_NAMES) {
            let path = format!("{directory}/{name}");
            if !sys.is_file(&path) {
                let problem = "not a semaphore: expected a file, found another kind";
                checked.warning(&path, problem, "remove it if the work is to run again; it counts as done");
                continue;
            }
            let Some(text) = checked.read(sys.read_head(&path, 256)) else { continue };
            // One that a power failure has emptied is reported below.
            let is_of_per = name.starts_with("bootper.");
            if !is_of_per && !text.is_empty() && !text.contains(&0) && !is_semaphore(&text) {
                checked.note(&path, "not a semaphore of cloud-init; the work counts as done");
            }
        }
    }
    for (name, frequency) in state::unfinished(sys, layout) {
        let path = match frequency {
            Frequency::Once => layout.cloud(&format!("sem/{name}.once")),
            _ => layout.instance(&format!("sem/{name}")),
        };
        let remedy = "the next boot repeats it if that is safe, and reports it otherwise";
        let problem = "this work began and did not end, or may be lost after a power failure";
        checked.warning(path, problem, remedy);
    }
}

/// Returns whether the text begins with a process and a time.
fn is_semaphore(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let first = text.lines().next().unwrap_or_default();
    first
        .split_once(": ")
        .is_some_and(|(pid, time)| pid.parse::<u32>().is_ok() && encoding::float::parse(time).is_some())
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_pid_and_time_are_a_semaphore() {
        for (text, expected) in [
            ("12: 1700000000.5\n", true),
            ("12: 1700000000.5\nstarted\n", true),
            ("touched\n", false),
            ("\u{0}", false),
        ] {
            assert_eq!(super::is_semaphore(text.as_bytes()), expected, "{text:?}");
        }
    }
}
