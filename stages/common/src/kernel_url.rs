//! `cloud-config-url=URL` on the kernel command line: configuration that is fetched before any other is read, and stored
//! in `/etc/cloud/cloud.cfg.d`, from where every stage reads it.

use std::time::Duration;

use system::{Request, System, WriteOptions, debug, info, warning};

use crate::StageName;

const FILE: &str = "/etc/cloud/cloud.cfg.d/91_kernel_cmdline_url.cfg";
const HEADER: &[u8] = b"#cloud-config";
/// Upstream's timeout and retries.
// Wait: local and network stage | the server of `cloud-config-url=` | -
const TIMEOUT: Duration = Duration::from_secs(10);
const RETRIES: u32 = 2;

/// Returns the URL on a kernel command line: the last one, as for the kernel's own parameters.
fn url_from_cmdline(line: &str) -> Option<&str> {
    let word = line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix("cloud-config-url="))?;
    (!word.is_empty()).then_some(word)
}

/// Fetches and stores the configuration, in the stages that look for an instance. Errors are logged; the boot continues.
pub(crate) fn fetch_and_store(sys: &System, stage: StageName, line: &str) {
    let Some(url) = url_from_cmdline(line).filter(|_| matches!(stage, StageName::Local | StageName::Network))
    else {
        return;
    };
    let is_local = url.starts_with('/') || url.starts_with("file://");
    if is_local && sys.exists(FILE) {
        // Fetched by the local stage or at an earlier boot; the file may have been edited since.
        debug!(sys, "{FILE} exists; cloud-config-url is not fetched again");
        return;
    }
    let too_early = stage == StageName::Local && !is_local;
    let pause = Duration::from_millis(if too_early { 100 } else { 1000 });
    // A server that stays busy takes 10 s of the local stage, which has yet to find the instance, and 100 s of the network stage.
    let request = Request::get(url).timeout(TIMEOUT).retries(RETRIES, pause).busy_timeout(pause * 100);
    match sys.fetch(&request) {
        Err(e) if too_early => debug!(sys, "cloud-config-url: {e}; the network stage will retry"),
        Err(e) => warning!(sys, "cloud-config-url: {e}"),
        Ok(response) if !response.body.starts_with(HEADER) => {
            warning!(sys, "cloud-config-url: response does not start with #cloud-config; ignored");
        }
        Ok(response) => match sys.write(FILE, &response.body, WriteOptions::secret()) {
            Ok(_) => info!(sys, "cloud-config-url: stored as {FILE}"),
            Err(e) => warning!(sys, "cloud-config-url: {e}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_url_wins() {
        for (line, url) in [
            ("ro quiet cloud-config-url=https://h/a?b=c console=ttyS0", Some("https://h/a?b=c")),
            ("cloud-config-url=/a cloud-config-url=/b", Some("/b")),
            ("url=http://h/ xcloud-config-url=/a", None),
            ("cloud-config-url=", None),
            ("", None),
        ] {
            assert_eq!(url_from_cmdline(line), url, "{line}");
        }
    }

    #[test]
    fn local_file_is_stored_once() {
        let dir = scratch::TempDir::new();
        let sys = System::new(&*dir);
        let kept = || sys.read_text(FILE).ok();
        sys.write("/seed/no", "a: 1\n", WriteOptions::default()).unwrap();
        sys.write("/seed/yes", "#cloud-config\na: 1\n", WriteOptions::default()).unwrap();
        sys.write("/seed/other", "#cloud-config\na: 2\n", WriteOptions::default()).unwrap();
        fetch_and_store(&sys, StageName::Network, "cloud-config-url=/seed/none");
        fetch_and_store(&sys, StageName::Network, "cloud-config-url=file:///seed/no");
        fetch_and_store(&sys, StageName::Config, "cloud-config-url=/seed/yes");
        assert_eq!(kept(), None);
        fetch_and_store(&sys, StageName::Local, "cloud-config-url=file:///seed/yes");
        fetch_and_store(&sys, StageName::Network, "cloud-config-url=/seed/other");
        assert_eq!(kept().as_deref(), Some("#cloud-config\na: 1\n"));
        let logged_warnings = sys.log().logged_warnings();
        assert_eq!(logged_warnings.len(), 2, "{logged_warnings:?}");
    }
}
