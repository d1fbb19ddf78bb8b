//! Every path of the state, named once. Paths are the machine's own; `System` puts its root before them.

/// Of a directory, in bytes (NAME_MAX of Linux).
const LONGEST_NAME: usize = 255;

/// Where the state lives; `system_info.paths` may move it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    cloud_dir: String,
    run_dir: String,
    templates_dir: String,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            cloud_dir: "/var/lib/cloud".into(),
            run_dir: "/run/cloud-init".into(),
            templates_dir: "/etc/cloud/templates".into(),
        }
    }
}

impl Layout {
    /// With `system_info.paths` applied; missing ones keep their defaults.
    pub fn with(cloud_dir: Option<&str>, run_dir: Option<&str>, templates_dir: Option<&str>) -> Layout {
        let usual = Layout::default();
        let pick = |given: Option<&str>, usual: String| match given.map(|g| g.trim_end_matches('/')) {
            Some(path) if path.starts_with('/') && path.len() > 1 => path.to_string(),
            _ => usual,
        };
        Layout {
            cloud_dir: pick(cloud_dir, usual.cloud_dir),
            run_dir: pick(run_dir, usual.run_dir),
            templates_dir: pick(templates_dir, usual.templates_dir),
        }
    }

    /// `/var/lib/cloud/NAME`; the directory itself with an empty name.
    pub fn cloud(&self, name: &str) -> String {
        below(&self.cloud_dir, name)
    }

    /// `/run/cloud-init/NAME`.
    pub fn run(&self, name: &str) -> String {
        below(&self.run_dir, name)
    }

    /// `/etc/cloud/templates/NAME.tmpl`.
    pub fn template(&self, name: &str) -> String {
        format!("{}/{name}.tmpl", self.templates_dir)
    }

    /// `/var/lib/cloud/instance/NAME`, through the link to the current instance.
    pub fn instance(&self, name: &str) -> String {
        below(&self.cloud("instance"), name)
    }

    /// `/var/lib/cloud/instances/ID`, where `/` in an id becomes `_`. An id that cannot be the name of a directory (empty,
    /// `.`, longer than 255 bytes, with control characters) becomes one that can, and that no other id has.
    pub fn instance_of(&self, id: &str) -> String {
        let name = id.replace('/', "_");
        let fits = !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(|c: char| c.is_control());
        let name = match name.as_str() {
            "." | ".." => name.replace('.', "_"),
            _ if fits => name,
            _ => {
                let begin: String = name.chars().filter(|c| !c.is_control()).take(48).collect();
                format!("{begin}-{}", encoding::md5::hex(id.as_bytes()))
            }
        };
        self.cloud(&format!("instances/{name}"))
    }

    /// `/var/lib/cloud/data/NAME`.
    pub fn data(&self, name: &str) -> String {
        self.cloud(&format!("data/{name}"))
    }

    /// The datasource cache. Its name is upstream's: image builders delete it to force a fresh search.
    pub fn cache(&self) -> String {
        self.instance("obj.pkl")
    }

    /// The datasource cache of this boot alone, used while `obj.pkl` is still Python's.
    pub fn cache_of_this_boot(&self) -> String {
        self.run("instance.json")
    }
}

fn below(directory: &str, name: &str) -> String {
    if name.is_empty() { directory.to_string() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let layout = Layout::with(Some("/x/"), Some("relative"), None);
        assert_eq!(layout.cache(), "/x/instance/obj.pkl");
        assert_eq!(layout.run(""), "/run/cloud-init");
    }

    #[test]
    fn any_id_has_a_directory() {
        let layout = Layout::with(Some("/x"), None, None);
        let (long, most) = ("i".repeat(300), "i".repeat(255));
        for (id, name) in [
            ("i-0abc", "i-0abc"),
            ("a/b", "a_b"),
            ("a b", "a b"),
            ("..", "__"),
            (".", "_"),
            ("../../etc", ".._.._etc"),
            ("", "-d41d8cd98f00b204e9800998ecf8427e"),
            ("a\nb", "ab-*"),
            ("a\0b", "ab-*"),
            (&most, &most),
            (&long, &format!("{}-*", "i".repeat(48))),
            (&"ü".repeat(200), &format!("{}-*", "ü".repeat(48))),
        ] {
            let path = layout.instance_of(id);
            let found = path.strip_prefix("/x/instances/").unwrap();
            match name.strip_suffix('*') {
                // The MD5 of the id.
                Some(begin) => {
                    assert!(found.starts_with(begin) && found.len() == begin.len() + 32, "{found}")
                }
                None => assert_eq!(found, name),
            }
            assert!(!found.is_empty() && found.len() <= 255 && !found.contains(['/', '\0', '\n']), "{id:?}");
        }
        // Those that are cut still differ.
        assert_ne!(layout.instance_of(&long), layout.instance_of(&"i".repeat(301)));
        assert_ne!(layout.instance_of("a\nb"), layout.instance_of("a\0b"));
    }
}
