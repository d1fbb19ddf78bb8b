//! The place of the book's pages: the package firstlight-doc has them.

use system::System;

/// Where the package has the book: SUSE's rpms have a directory of their own.
const DIRECTORIES: [&str; 2] =
    ["/usr/share/doc/firstlight-doc/html", "/usr/share/doc/packages/firstlight-doc/html"];

/// Returns the path of a page (`docs/NAME.html`, with an anchor) on this host, or its name and the package if that is not installed.
pub fn place(page: &str) -> String {
    place_in(&System::new("/"), page)
}

fn place_in(sys: &System, page: &str) -> String {
    match DIRECTORIES.iter().find(|directory| sys.is_dir(directory)) {
        Some(directory) => format!("{directory}/{page}"),
        None => format!("{page} (package firstlight-doc)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_path_where_the_package_is_installed() {
        let page = "docs/reference/cloud-config.html#ntp";
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        assert_eq!(place_in(&sys, page), "docs/reference/cloud-config.html#ntp (package firstlight-doc)");
        for directory in DIRECTORIES.iter().rev() {
            sys.create_dir_all(directory, 0o755).unwrap();
            assert_eq!(place_in(&sys, page), format!("{directory}/{page}"));
        }
    }
}
