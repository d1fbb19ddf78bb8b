//! Every path of the state, named once. Paths are the machine's own; `System` puts its root before them.

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

    /// `/var/lib/cloud/instances/ID`, where `/` in an id becomes `_`.
    pub fn instance_of(&self, id: &str) -> String {
        let name = match id.replace('/', "_") {
            dots if dots == "." || dots == ".." => dots.replace('.', "_"),
            name => name,
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
        assert_eq!(layout.instance_of("a/b"), "/x/instances/a_b");
        assert_eq!(layout.instance_of(".."), "/x/instances/__");
    }
}
