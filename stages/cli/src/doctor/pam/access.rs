//! access.conf(5): who may log in from where.

/// Returns the number of the line of access.conf(5) that refuses a user from everywhere; `None` also if it depends on more.
pub fn denied_by(text: &str, user: &str, groups: &[&str]) -> Option<usize> {
    for (number, line) in (1..).zip(text.lines()) {
        let fields: Vec<&str> =
            line.split('#').next().unwrap_or_default().splitn(3, ':').map(str::trim).collect();
        let [permission, users, origins] = fields[..] else { continue };
        if origins == "LOCAL" {
            continue;
        }
        let mut lists = users.split(" EXCEPT ");
        let (all, exceptions) = (lists.next().unwrap_or_default(), lists.next().unwrap_or_default());
        // Networks, lists in other forms, exceptions of exceptions, numbers.
        if users.contains(['@', ','])
            || lists.next().is_some()
            || users.split_whitespace().any(|word| word.parse::<u32>().is_ok())
        {
            return None;
        }
        let is_meant = |word: &str| {
            let group = word.trim_matches(['(', ')']);
            word == "ALL" || word == user || groups.contains(&group)
        };
        if all.split_whitespace().any(is_meant) && !exceptions.split_whitespace().any(is_meant) {
            // Of connections LOCAL are only those of the machine itself.
            let is_everywhere = ["ALL", "ALL EXCEPT LOCAL"].contains(&origins);
            return (permission == "-" && is_everywhere).then_some(number);
        }
    }
    None
}
