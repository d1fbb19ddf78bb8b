//! Files that SmartOS promises to its users: scripts and data from the metadata, where older images of Joyent have them.

use system::{Result, System, WriteOptions, warning};

/// The directory of older images.
const LEGACY_DIR: &str = "/var/db";
/// The bytes at the beginning of a script that are examined.
const EXAMINED: usize = 8192;

/// Writes the scripts to the instance's data directory and the legacy user-data to [`LEGACY_DIR`]. A file without content is
/// removed. Failures are logged.
pub fn write(
    sys: &System,
    user_script: (&str, Option<&[u8]>),
    operator_script: (&str, Option<&[u8]>),
    data: Option<&[u8]>,
) {
    let (path, script) = user_script;
    let script = script.map(with_interpreter);
    let link = format!("{LEGACY_DIR}/user-script");
    let linked = || match &script {
        Some(_) => sys.link(path, &link).map(drop),
        None if sys.is_link(&link) => sys.remove(&link).map(drop),
        None => Ok(()),
    };
    for result in [
        write_or_remove(sys, path, script.as_deref(), 0o700),
        linked(),
        write_or_remove(sys, operator_script.0, operator_script.1, 0o700),
        write_or_remove(sys, &format!("{LEGACY_DIR}/mdata-user-data"), data, 0o400),
    ] {
        if let Err(e) = result {
            warning!(sys, "SmartOS: {e}");
        }
    }
}

fn write_or_remove(sys: &System, path: &str, content: Option<&[u8]>, mode: u32) -> Result<()> {
    match content {
        Some(content) => sys.write(path, content, WriteOptions::mode(mode)).map(drop),
        None => sys.remove(path).map(drop),
    }
}

/// Returns a script that the kernel can execute: text without an interpreter is for bash, as SmartOS documents.
fn with_interpreter(script: &[u8]) -> Vec<u8> {
    let is_text_byte = |b: &u8| *b >= 0x80 || matches!(*b, 0x07..=0x0d | 0x1b | 0x20..=0x7e);
    let is_text = script[..script.len().min(EXAMINED)].iter().all(is_text_byte);
    if script.starts_with(b"#!") || !is_text {
        return script.to_vec();
    }
    [b"#!/bin/bash\n", script].concat()
}

#[cfg(test)]
mod tests {
    use scratch::TempDir;

    use super::*;

    #[test]
    fn text_without_an_interpreter_runs_in_bash() {
        for (script, is_added) in [
            (&b"#!/bin/sh\ntrue\n"[..], false),
            (b"echo hi\n", true),
            (b"echo \xc3\xbc\n", true),
            (b"\x7fELF\x02\x01\x01\x00", false),
            (b"", true),
        ] {
            let written = with_interpreter(script);
            assert_eq!(written.starts_with(b"#!/bin/bash\n"), is_added);
            assert!(written.ends_with(script));
        }
    }

    #[test]
    fn files_without_content_are_removed() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let (user, operator) = ("/data/user-script", "/data/operator-script");
        let some = |text: &'static str| Some(text.as_bytes());
        write(&sys, (user, some("u")), (operator, some("#!/o")), some("d"));
        assert_eq!(sys.read_text("/var/db/user-script").unwrap(), "#!/bin/bash\nu");
        assert_eq!(sys.read_text(operator).unwrap(), "#!/o");
        assert_eq!(sys.read_text("/var/db/mdata-user-data").unwrap(), "d");
        write(&sys, (user, None), (operator, None), None);
        assert!(!sys.exists(user) && !sys.exists(operator) && !sys.is_link("/var/db/user-script"));
        assert!(!sys.exists("/var/db/mdata-user-data"));
        assert!(sys.log().logged_warnings().is_empty());
    }
}
