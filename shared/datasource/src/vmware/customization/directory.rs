//! The directory into which the tools unpack the customization file and those that it names.

use system::{Error, Level, Result, System};

/// Where the tools unpack.
pub const DIRECTORY: &str = "/var/run/vmware-imc";
/// The limit of file systems.
const MAX_FILE_NAME: usize = 255;

/// Removes the tools' files, which may contain a password.
pub fn remove_files(sys: &System) {
    sys.log_error(Level::Warning, sys.remove_dir_all(DIRECTORY));
}

/// Returns the path of a file beside the customization file. `key` is the setting that has its name.
pub fn path_of(key: &str, name: &str) -> Result<String> {
    let problem = match name {
        "" | "." | ".." => "found none",
        name if name.contains(char::is_control) => "found control characters",
        name if name.contains('/') => "found a path",
        name if name.len() > MAX_FILE_NAME => "found a longer string",
        name => return Ok(format!("{DIRECTORY}/{name}")),
    };
    Err(Error::new(format!("{key}: expected the name of a file, {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_cannot_leave_their_directory() {
        assert_eq!(path_of("A.B", "meta").unwrap(), "/var/run/vmware-imc/meta");
        for name in ["", ".", "..", "../../etc/shadow", "/etc/shadow", "a\0", "a\u{1b}", &"x".repeat(256)] {
            let e = path_of("A.B", name).unwrap_err().to_string();
            assert!(e.starts_with("A.B: expected the name of a file, ") && e.len() < 80, "{e:?}");
        }
    }
}
