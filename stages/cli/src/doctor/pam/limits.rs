//! limits.conf(5): limits by which a user cannot log in.

use system::{System, User};

const LIMITS: &str = "/etc/security/limits.conf";
const LIMITS_DIRECTORY: &str = "/etc/security/limits.d";
/// Items of limits.conf(5), values below which no shell runs, and what the user lacks then.
pub const LEAST: [(&str, u64, &str); 6] = [
    ("maxlogins", 1, "login"),
    ("maxsyslogins", 1, "login"),
    ("nproc", 1, "process"),
    ("nofile", 4, "open files"),
    ("as", 4096, "memory for a shell"),
    ("data", 64, "memory for a shell"),
];

/// Returns the file and the line of limits.conf(5) that allow a user none of this item; `None` also if it depends on more.
pub fn limited_by(
    sys: &System,
    (limited, least): (&str, u64),
    user: &User,
    groups: &[&str],
) -> Option<String> {
    let mut files = sys.list(LIMITS_DIRECTORY).unwrap_or_default();
    files.retain(|name| name.ends_with(".conf"));
    sort::sort(&mut files);
    let files = files.iter().map(|name| format!("{LIMITS_DIRECTORY}/{name}"));
    let mut found: Option<(usize, bool, String)> = None;
    for path in std::iter::once(LIMITS.to_string()).chain(files) {
        let text = sys.read_text(&path).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let fields: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let [domain, kind, ref item @ ..] = fields[..] else { continue };
            // A row for the user goes before those for groups, and these before one for all users but root.
            let is_meant = [
                domain == user.name,
                domain.strip_prefix('@').is_some_and(|group| groups.contains(&group)),
                domain == "*" && user.uid != 0,
            ];
            let rank = is_meant.iter().position(|is_meant| *is_meant);
            match (item, rank) {
                // No limits for the user; a range of IDs.
                ([], Some(_)) if kind == "-" => return None,
                ([item, _], _) if *item == limited && domain.contains(':') => return None,
                ([item, value], Some(rank))
                    if *item == limited && found.as_ref().is_none_or(|(of, ..)| rank <= *of) =>
                {
                    found = Some((
                        rank,
                        value.parse().is_ok_and(|value: u64| value < least),
                        format!("{path}, line {number}"),
                    ));
                }
                _ => {}
            }
        }
    }
    found.and_then(|(_, is_none, place)| is_none.then_some(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_counts_for_a_user_is_found() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        let accounts =
            system::parse_passwd("amy:x:1000:1000::/home/amy:/bin/sh\nroot:x:0:0::/root:/bin/sh\n");
        for (limits, at, expected) in [
            ("* - maxlogins 0", 0, true),
            ("* - maxlogins 0", 1, false),
            ("root - maxlogins 0", 1, true),
            ("* - maxlogins 0\namy - maxlogins 4", 0, false),
            ("amy - maxlogins 0\n* - maxlogins 4", 0, true),
            ("amy - maxlogins 0\namy - maxlogins 4", 0, false),
            ("* - maxlogins 0\namy -", 0, false),
            ("* - maxlogins 0\n1000: - maxlogins 4", 0, false),
            ("bob - maxlogins 0\n@bob - maxlogins 0\n%amy - maxlogins 0\n* hard nproc 0", 0, false),
        ] {
            root.put("etc/security/limits.conf", limits);
            assert_eq!(
                limited_by(&sys, ("maxlogins", 1), &accounts[at], &["amy"]).is_some(),
                expected,
                "{limits}"
            );
        }
    }
}
