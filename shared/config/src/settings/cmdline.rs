//! Configuration on the kernel command line: `cc: YAML end_cc`, repeatable.
//!
//! Unlike upstream, `cc:` is recognized at the start of a word only, so that a MAC address with the byte cc is not
//! treated as configuration.

/// Returns all configuration of a command line, joined by newlines; `None` if there is none.
pub fn inline_config(line: &str) -> Option<String> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(start) = word_start(rest) {
        let piece = &rest[start..];
        let (piece, after) = piece.split_once("end_cc").unwrap_or((piece, ""));
        pieces.push(encoding::percent::decode(piece.trim_start()).replace("\\n", "\n"));
        rest = after;
    }
    (!pieces.is_empty()).then(|| pieces.join("\n"))
}

/// Returns a command line for a log: `…` replaces the configuration, which may have passwords, and other passwords.
pub fn without_secrets(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(start) = word_start(rest) {
        shown += &rest[..start];
        shown.push('…');
        rest = rest[start..].split_once("end_cc").map_or("", |(_, after)| after);
    }
    let redacted = system::redacted_urls(&(shown + rest));
    let without_value = |word: &str| match word.split_once('=') {
        Some((name, value)) if is_secret(name, value) => format!("{}=…", name.trim_start_matches('"')),
        _ => word.to_string(),
    };
    // The kernel takes blanks between quotes as part of a word.
    let mut is_quoted = false;
    let is_end = |c| {
        is_quoted ^= c == '"';
        c == ' ' && !is_quoted
    };
    redacted.split(is_end).map(without_value).collect::<Vec<_>>().join(" ")
}

fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim_start_matches('"');
    let kinds = "pass= passwd= password= secret token credential";
    kinds.split(' ').any(|kind| format!("{name}=").contains(kind))
        || value.starts_with("iscsi:") && value.contains('@')
}

/// Returns the offset of the text after the next `cc:`.
fn word_start(line: &str) -> Option<usize> {
    line.match_indices("cc:")
        .find(|(at, _)| *at == 0 || line[..*at].ends_with(|c: char| c.is_ascii_whitespace()))
        .map(|(at, tag)| at + tag.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn inline_configuration_ends_at_end_cc() {
        for (line, expected) in [
            ("root=/dev/vda1 quiet", None),
            ("ro cc: ssh_import_id: [me] end_cc quiet", Some("ssh_import_id: [me] ")),
            ("cc:a: 1 end_cc x cc: b: 2", Some("a: 1 \nb: 2")),
            (r"cc: a:\n  b: 1\n end_cc", Some("a:\n  b: 1\n ")),
            ("cc:a:%20%5B1,2%5D%0Ab: %zz%", Some("a: [1,2]\nb: %zz%")),
            ("cc: a: %FF", Some("a: \u{FFFD}")),
            ("BOOTIF=01-aa:bb:cc:dd:ee:ff ip=dhcp", None),
            ("cc:", Some("")),
        ] {
            assert_eq!(super::inline_config(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn configuration_and_passwords_are_not_shown() {
        for (line, expected) in [
            ("rd.iscsi.password=x rd.iscsi.in.password=y z", "rd.iscsi.password=… rd.iscsi.in.password=… z"),
            ("netroot=iscsi:u:p@192.0.2.1::::iqn ro", "netroot=… ro"),
            ("ds=nocloud;s=http://u:p@h/x ro", "ds=nocloud;s=http://h/… ro"),
            ("systemd.set_credential=a:b cifsuser=u", "systemd.set_credential=… cifsuser=u"),
            ("cifspass=x root=LABEL=a", "cifspass=… root=LABEL=a"),
            ("BOOTIF=01-aa:bb:cc:dd:ee:ff ro", "BOOTIF=01-aa:bb:cc:dd:ee:ff ro"),
            (r#"cifspass="x y" quiet"#, "cifspass=… quiet"),
            (r#""cifspass=x y" dyndbg="file a +p" quiet"#, r#"cifspass=… dyndbg="file a +p" quiet"#),
            (r#"netroot="iscsi:u:p q@192.0.2.1::::iqn""#, "netroot=…"),
            (r#"cifspass="x y"#, "cifspass=…"),
            ("ro cc: password: x end_cc quiet", "ro cc:… quiet"),
            ("cc:a: 1end_cc ro cc: b: 2", "cc:… ro cc:…"),
        ] {
            assert_eq!(super::without_secrets(line), expected, "{line}");
        }
    }
}
