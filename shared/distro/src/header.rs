//! The first line of files that this program writes: by which program, and when.

use system::{CLOUD_INIT_VERSION, System, rfc2822};

/// Returns `# Created by cloud-init v. 26.2 on Thu, 01 Jan 2026 00:00:00 +0000`. `verb` is `Created` or `Added`.
pub fn make_header(sys: &System, verb: &str) -> String {
    format!("# {verb} by cloud-init v. {CLOUD_INIT_VERSION} on {}", rfc2822(sys.clock().wall()))
}
