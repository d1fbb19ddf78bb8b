//! `#include` and `#include-once`: parses the URLs of a part, fetches them and caches their content.

use std::time::Duration;

use system::{Error, Request, Result, System, WriteOptions, debug};

use crate::options::Dirs;

/// As in upstream: long enough for a metadata service to restart.
// Wait: user-data | a connection to the server of an include, and each pause in its response | -
const TIMEOUT: Duration = Duration::from_secs(5);
const RETRIES: u32 = 10;
// Wait: user-data | the next attempt to fetch an include | -
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The time that includes in vain may take together, of a unit that has half an hour. Each is then requested once, and after as much
/// time again no more.
// Wait: user-data | all includes of a stage that cannot be fetched; then each is requested once, and after twice this time none | -
const MAX_LOST: Duration = Duration::from_secs(300);

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
    let Some(retries) = retries(dirs, include) else {
        let url = system::redacted_url(&include.url);
        let spent = MAX_LOST.as_secs() / 60 * 2;
        return Err(Error::new(format!("{url}: not requested, as other includes failed for {spent} min")));
    };
    let identities = [&dirs.instance, &dirs.cloud].map(|dir| format!("{dir}/data/ssl"));
    let ask = Request::get(&include.url)
        .timeout(TIMEOUT)
        .retries(retries, RETRY_DELAY)
        .needs_route()
        .client_certificates(&identities);
    let begun = sys.clock().elapsed();
    let fetched = sys.fetch(&ask);
    if fetched.is_err() {
        dirs.lost.set(dirs.lost.get() + sys.clock().elapsed().saturating_sub(begun));
        dirs.failed.borrow_mut().insert(include.url.clone());
    }
    let content = fetched?.body;
    state::clear_path(sys, &kept)?;
    sys.write(&kept, &content, WriteOptions::secret())?;
    Ok(content)
}

/// Returns how often an include is requested again; `None` if it is not requested. Data is read a second and a third time because of
/// another include, which is a missing file or may be skipped.
fn retries(dirs: &Dirs, include: &Include) -> Option<u32> {
    let has_failed = dirs.tries_once || dirs.failed.borrow().contains(&include.url);
    match dirs.lost.get() {
        lost if lost >= 2 * MAX_LOST => None,
        lost if lost >= MAX_LOST || has_failed => Some(0),
        _ => Some(RETRIES),
    }
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
        assert_eq!(retries(&dirs, &include("a")), Some(RETRIES));
        fetch(&sys, &dirs, &include("a")).unwrap_err();
        assert_eq!(
            [include("a"), include("b")].map(|include| retries(&dirs, &include)),
            [0, RETRIES].map(Some)
        );
    }

    /// Otherwise a list of servers that do not answer uses up the time limit of the stage.
    #[test]
    fn includes_in_vain_have_a_limit_together() {
        let root = scratch::TempDir::new();
        let (sys, dirs) = (System::new(&root), Dirs::default());
        let include = |i: u64| Include { url: format!("http://u:pw@127.0.0.1:99999/{i}"), once: false };
        let mut requests = Vec::new();
        for i in 0..100 {
            let before = dirs.lost.get();
            let allowed = retries(&dirs, &include(i));
            let failed = fetch(&sys, &dirs, &include(i)).unwrap_err().to_string();
            let is_limit = failed.ends_with("not requested, as other includes failed for 10 min");
            assert!(is_limit == allowed.is_none() && !failed.contains("pw"), "{failed}");
            assert!(is_limit || dirs.lost.get() > before, "{i}");
            // As a server that does not answer.
            let took = allowed.map(|retries| (retries + 1) * TIMEOUT + retries * RETRY_DELAY);
            dirs.lost.set(before + took.unwrap_or_default());
            requests.extend(allowed.map(|retries| 1 + retries));
        }
        assert_eq!(requests.iter().filter(|count| **count == 1 + RETRIES).count(), 5);
        assert!(requests.len() < 70 && dirs.lost.get() <= 2 * MAX_LOST + TIMEOUT, "{requests:?}");
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
