//! `#include` and `#include-once`: parses the URLs of a part, fetches them and caches their content.

use std::time::Duration;

use system::{Request, Result, System, WriteOptions, debug};

use crate::options::Dirs;

/// As in upstream: long enough for a metadata service to restart.
// Wait: user-data | a connection to the server of an include, and each pause in its response | -
const TIMEOUT: Duration = Duration::from_secs(5);
const RETRIES: u32 = 10;
// Wait: user-data | the next attempt to fetch an include | -
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The directory of what was included once, in that of the instance. It and the names in it are upstream's.
const ONCE: &str = "data/urlcache";
/// The directory of what was included otherwise.
const WITH_USER_DATA: &str = "data/includes";

/// A URL to include.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The URL.
    pub url: String,
    /// Whether the content is kept although the user-data is fetched again.
    pub once: bool,
}

/// Parses the URLs of a part, one on each line. `once` applies to the lines before the first header.
pub fn parse_includes(text: &str, mut once: bool) -> Vec<Include> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut url = line.trim();
        for (header, keep) in [("#include-once", true), ("#include", false)] {
            if url.get(..header.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(header)) {
                once = keep;
                url = url[header.len()..].trim_start();
                break;
            }
        }
        if !url.is_empty() && !url.starts_with('#') {
            found.push(Include { url: url.to_string(), once });
        }
    }
    found
}

/// Returns the content of a URL, from the instance's directory if it was fetched before. As in upstream, a boot that need not
/// fetch the user-data itself does not fetch its includes either: their server may be gone. [`forget`] ends that.
///
/// Servers that request a client certificate get `data/ssl/cert.pem` of the instance, or of the machine.
///
/// # Errors
///
/// Fails if the URL cannot be fetched or the content cannot be kept.
pub fn fetch(sys: &System, dirs: &Dirs, include: &Include) -> Result<Vec<u8>> {
    let directory = if include.once { ONCE } else { WITH_USER_DATA };
    let kept = format!("{}/{directory}/{}", dirs.instance, encoding::md5::hex(include.url.as_bytes()));
    if sys.is_file(&kept) {
        match sys.read(&kept) {
            Ok(content) => return Ok(content),
            Err(e) => debug!(sys, "{e}; fetching again"),
        }
    }
    let identities = [&dirs.instance, &dirs.cloud].map(|dir| format!("{dir}/data/ssl"));
    let ask = Request::get(&include.url)
        .timeout(TIMEOUT)
        .retries(retries(dirs, include), RETRY_DELAY)
        .needs_route()
        .client_certificates(&identities);
    let fetched = sys.fetch(&ask);
    if fetched.is_err() {
        dirs.failed.borrow_mut().insert(include.url.clone());
    }
    let content = fetched?.body;
    state::clear_path(sys, &kept)?;
    sys.write(&kept, &content, WriteOptions::secret())?;
    Ok(content)
}

/// Data is read a second and a third time because of another include, which is a missing file or may be skipped.
fn retries(dirs: &Dirs, include: &Include) -> u32 {
    if dirs.tries_once || dirs.failed.borrow().contains(&include.url) { 0 } else { RETRIES }
}

/// Returns whether user-data with a missing include is not used at all, by features.py of Python's cloud-init or feature_overrides.py
/// beside it, which builders of images for Cluster API edit.
pub fn is_failure_an_error(sys: &System) -> bool {
    const SWITCH: &str = "ERROR_ON_USER_DATA_FAILURE";
    let pythons =
        sys.list("/usr/lib").unwrap_or_default().into_iter().filter(|name| name.starts_with("python3"));
    let packages = pythons
        .flat_map(|name| ["dist", "site"].map(|kind| format!("/usr/lib/{name}/{kind}-packages/cloudinit")));
    let files =
        packages.flat_map(|dir| ["features", "feature_overrides"].map(|name| format!("{dir}/{name}.py")));
    let texts = files.filter_map(|file| sys.read_text(file).ok());
    let values = |text: String| text.lines().filter_map(assigned).collect::<Vec<_>>();
    fn assigned(line: &str) -> Option<bool> {
        let (name, value) = line.split_once('=')?;
        let value = value.split('#').next().unwrap_or_default().trim();
        (name.trim_end() == SWITCH).then(|| value != "False")
    }
    texts.flat_map(values).last().unwrap_or(true)
}

/// Removes what was included without `-once`, because the user-data of the instance has been fetched again.
///
/// # Errors
///
/// Fails if it cannot be removed.
pub fn forget(sys: &System, dirs: &Dirs) -> Result<()> {
    state::clear_directory(sys, &format!("{}/data", dirs.instance))?;
    sys.remove_dir_all(format!("{}/{WITH_USER_DATA}", dirs.instance)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_of_pythons_files_is_read() {
        for (file, text, expected) in [
            (
                "python3/dist-packages/cloudinit/feature_overrides.py",
                "# BEGIN\nERROR_ON_USER_DATA_FAILURE = False\n# END\n",
                false,
            ),
            (
                "python3.9/site-packages/cloudinit/features.py",
                "ERROR_ON_USER_DATA_FAILURE=False  # why\r\n",
                false,
            ),
            (
                "python3/dist-packages/cloudinit/features.py",
                "#ERROR_ON_USER_DATA_FAILURE = False\nERROR_ON_USER_DATA_FAILURE = True\n",
                true,
            ),
            ("python3/dist-packages/other/features.py", "ERROR_ON_USER_DATA_FAILURE = False\n", true),
            (
                "python3/dist-packages/cloudinit/features.py",
                "    ERROR_ON_USER_DATA_FAILURE = False\nX == 1\n",
                true,
            ),
        ] {
            let root = scratch::TempDir::new();
            let sys = System::new(&root);
            sys.write(format!("/usr/lib/{file}"), text, WriteOptions::default()).unwrap();
            assert_eq!(is_failure_an_error(&sys), expected, "{file}: {text}");
        }
    }

    #[test]
    fn an_include_that_failed_is_not_retried_again() {
        let root = scratch::TempDir::new();
        let (sys, dirs) = (System::new(&root), Dirs::default());
        // Fails at once: there is no such port.
        let include = |path: &str| Include { url: format!("http://127.0.0.1:99999/{path}"), once: false };
        assert_eq!(retries(&dirs, &include("a")), RETRIES);
        fetch(&sys, &dirs, &include("a")).unwrap_err();
        assert_eq!([include("a"), include("b")].map(|include| retries(&dirs, &include)), [0, RETRIES]);
    }

    #[test]
    fn parses_include_lines() {
        for (text, expected) in [
            ("#include\nhttp://a\n\n  http://b \r\n", "http://a http://b"),
            ("#include http://a\nhttp://b", "http://a http://b"),
            (
                "#INCLUDE-once\nhttp://a\n#include\nhttp://b\n#include-once http://c",
                "http://a! http://b http://c!",
            ),
            ("#include\n# a comment\n#http://x\nfile:///a#b", "file:///a#b"),
            ("http://a", "http://a"),
            ("#include", ""),
            ("", ""),
        ] {
            let shown: Vec<String> = parse_includes(text, false)
                .iter()
                .map(|w| format!("{}{}", w.url, if w.once { "!" } else { "" }))
                .collect();
            assert_eq!(shown.join(" "), expected, "{text:?}");
        }
        assert!(parse_includes("http://a", true)[0].once);
    }
}
