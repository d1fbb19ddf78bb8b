//! The instance of the previous boot, and the switch to another one.

use system::{Level, Result, System, WriteGroup, WriteOptions, warning};

use crate::obstacle::{create_directory, move_aside, move_special_file_aside};
use crate::previous_id::{NO_PREVIOUS_ID, PreviousId};
use crate::{Cached, Instance, Layout};

/// The instance of the previous boot.
#[derive(Debug, Clone)]
pub struct Previous {
    id: PreviousId,
    /// The target of the link, whose last component is the ID with `/` replaced.
    link: Option<String>,
    /// The line in the file `datasource` of the current instance's directory.
    datasource: Option<String>,
}

impl Previous {
    /// Reads the files of the previous boot. What cannot be read is unknown, not an error.
    pub fn read(sys: &System, layout: &Layout) -> Previous {
        let line =
            |path: String| sys.read_text(path).ok().map(|t| t.trim().to_string()).filter(|t| !t.is_empty());
        Previous {
            id: PreviousId::read(sys, layout),
            link: sys.read_link(layout.instance("")).ok(),
            datasource: line(layout.datasource()),
        }
    }

    /// Returns the ID; `None` if there was no instance, or it is unknown.
    pub fn id(&self) -> Option<&str> {
        self.id.known()
    }

    /// Returns whether `instance` is another one than that of the previous boot. If that one's ID is unknown, the link
    /// decides; without a link it is not new, as host keys and passwords would be set again.
    pub fn is_new(&self, layout: &Layout, instance: &Instance) -> bool {
        self.is_new_id(layout, &instance.id)
    }

    /// Does the same as [`Previous::is_new`] for the ID alone.
    pub fn is_new_id(&self, layout: &Layout, of: &str) -> bool {
        match &self.id {
            PreviousId::Known(id) => *id != of.trim(),
            PreviousId::Absent => true,
            PreviousId::Unknown => {
                let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
                self.link.as_deref().is_some_and(|l| name(l) != name(&layout.instance_dir(of)))
            }
        }
    }
}

/// Makes `instance` the current one: creates its directories, points the link at them, and writes the files with its ID.
/// Returns the previous instance. The file that marks the instance as known is one of `files`, which are to be finished also after an
/// error.
///
/// # Errors
/// Fails if a file cannot be written. After an error of directories or link the previous instance is still the current
/// one; after any other error the new one is.
pub fn instancify(files: &mut WriteGroup<'_>, layout: &Layout, instance: &Instance) -> Result<Previous> {
    let sys = files.system();
    let previous = Previous::read(sys, layout);
    let line = |text: &str| format!("{text}\n");
    // First: if a later step fails, the later stages see that the link points at another instance.
    let marker = layout.boot_instance_id();
    if let Err(e) = sys.write(&marker, line(&instance.id), WriteOptions::default()) {
        // The boot goes on without it, but not with the ID of another instance.
        warning!(sys, "{e}");
        if sys.exists(&marker) {
            sys.remove(marker)?;
        }
    }
    let (directory, link) = (layout.instance_dir(&instance.id), layout.instance(""));
    if sys.is_dir(&link) && !sys.is_link(&link) {
        // A directory in the place of the link: a restored backup that followed it. Without a directory of this instance, it is
        // this instance's state and becomes its directory, so that nothing runs again; otherwise it is moved aside.
        let is_its = match Instance::load_without_raw_data(sys, layout) {
            Cached::Instance(cached) => cached.id == instance.id,
            Cached::Python { id } => id.as_ref() == Some(&instance.id),
            Cached::Corrupt | Cached::Missing => previous.id() == Some(&instance.id),
        };
        if is_its && !sys.exists(&directory) {
            sys.create_dir_all(layout.instances(), 0o755)?;
            sys.rename(&link, &directory)?;
        } else {
            move_aside(sys, &link)?;
        }
    }
    for name in ["", "/handlers", "/scripts", "/sem"] {
        create_directory(sys, layout, &format!("{directory}{name}"))?;
    }
    sys.link(&directory, &link)?;
    // After the files were read: one that cannot be read is unknown, not missing.
    for path in layout.state_files() {
        sys.log_error(Level::Warning, move_special_file_aside(sys, &path));
    }
    let mut failed = None;
    let mut keep = |path: String, text: String, how: WriteOptions| {
        if let Err(e) = sys.write(path, text, how) {
            failed.get_or_insert(e);
        }
    };
    let described = line(&format!("{}: {}", class_of(&instance.description), instance.description));
    // The description may differ between releases of cloud-init; the class decides.
    let class = |text: &str| text.split(':').next().unwrap_or_default().to_string();
    if previous.datasource.as_deref().map(class) != Some(class(&described))
        || !sys.exists(layout.datasource())
    {
        keep(layout.datasource(), described.clone(), WriteOptions::default());
    }
    let before = previous.datasource.as_deref().map_or(described, line);
    keep(layout.previous_datasource(), before, WriteOptions::default());
    let before = previous.id().unwrap_or(NO_PREVIOUS_ID);
    keep(layout.previous_instance_id(), line(before), WriteOptions::default());
    // Last: this file marks the instance as known.
    let known =
        files.write(layout.instance_id(), line(&instance.id).into_bytes(), WriteOptions::default().durable());
    failed.map_or(known, Err).map(|()| previous)
}

fn class_of(description: &str) -> &str {
    description.split([' ', '[']).next().unwrap_or(description)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn unknown_previous_id_is_not_a_new_instance() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let instance = |id: &str| Instance { id: id.into(), ..Instance::default() };
        let is_new = |id| Previous::read(&sys, &layout).is_new(&layout, &instance(id));
        assert!(is_new("i-1"));
        let mut files = sys.write_group();
        instancify(&mut files, &layout, &instance("i-1")).unwrap();
        files.finish().unwrap();
        assert!(!is_new("i-1"));
        assert!(is_new("i-2"));
        sys.write(layout.instance_id(), "", WriteOptions::default()).unwrap();
        assert!(!is_new("i-1"));
        assert!(is_new("i-2"));
        sys.remove(layout.instance("")).unwrap();
        assert!(!is_new("i-2"));
        sys.remove(layout.instance_id()).unwrap();
        assert!(is_new("i-1"));
    }

    /// Records the instance i-1 on a machine that was changed, and returns the current directory, and the warnings.
    fn recorded(change: impl Fn(&System, &Layout)) -> (Option<String>, Vec<String>, bool) {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let instance = Instance { id: "i-1".into(), ..Instance::default() };
        change(&sys, &layout);
        let mut files = sys.write_group();
        crate::mark_network_due(&mut files, &layout, "i-1").unwrap();
        instancify(&mut files, &layout, &instance).unwrap();
        instance.store_in(&mut files, &layout).unwrap();
        files.finish().unwrap();
        assert_eq!(sys.read_text(layout.instance_id()).unwrap(), "i-1\n");
        let warnings = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        (sys.read_link(layout.instance("")).ok(), warnings, sys.exists(layout.lost_state()))
    }

    #[test]
    fn an_instance_is_recorded_although_its_id_cannot_be_written_to_run() {
        let unconfirmed = Layout::default().unconfirmed();
        let record = format!("{unconfirmed}/network-is-due");
        for (path, is_directory, expected) in
            [(Layout::default().run(""), false, 1), (unconfirmed, false, 0), (record, true, 1)]
        {
            let (link, warnings, _) = recorded(|sys, _| match is_directory {
                true => sys.create_dir_all(&path, 0o755).unwrap(),
                false => drop(sys.write(&path, "", WriteOptions::default()).unwrap()),
            });
            assert_eq!(
                (link.as_deref(), warnings.len()),
                (Some("/var/lib/cloud/instances/i-1"), expected),
                "{path}: {warnings:?}"
            );
        }
    }

    #[test]
    fn files_in_the_place_of_directories_are_moved_aside_and_the_reverse() {
        let is_moved = |name: &str, warnings: &[String]| {
            let moved = format!("/{} was in the way", name.rsplit('/').next().unwrap());
            assert!(
                warnings.last().is_some_and(|text| text.contains(&moved) && text.ends_with(".saved")),
                "{name}: {warnings:?}"
            );
        };
        let to_itself = |sys: &System, path: String| {
            sys.link(&path, &path).unwrap();
        };
        let file = |sys: &System, path: String| {
            sys.write(path, "x", WriteOptions::default()).unwrap();
        };
        let directory = |sys: &System, path: String| sys.create_dir_all(path, 0o755).unwrap();
        let linked_directory = |sys: &System, path: String| {
            sys.link("/", path).unwrap();
        };
        let socket = |sys: &System, path: String| {
            sys.create_dir_all(path.rsplit_once('/').unwrap().0, 0o755).unwrap();
            std::os::unix::net::UnixListener::bind(sys.root().host(path)).unwrap();
        };
        let (_, warnings, _) =
            recorded(|sys, layout| to_itself(sys, layout.cloud("instances/i-1/scripts/runcmd")));
        let saved = "moved to /var/lib/cloud/instance/scripts-runcmd.";
        assert!(warnings.iter().any(|text| text.contains(saved)), "not where it runs: {warnings:?}");
        for (name, is_lost) in [
            ("instances/i-1", true),
            ("instances/i-1/sem", true),
            ("instances/i-1/handlers", false),
            ("instances/i-1/scripts", false),
        ] {
            for make in [to_itself, file] {
                let (link, warnings, lost) = recorded(|sys, layout| make(sys, layout.cloud(name)));
                assert_eq!(
                    (link.as_deref(), lost),
                    (Some("/var/lib/cloud/instances/i-1"), is_lost),
                    "{name}"
                );
                is_moved(name, &warnings);
            }
        }
        for name in [
            "instances/i-1/obj.pkl",
            "instances/i-1/user-data.txt",
            "instances/i-1/user-data.txt.i",
            "instances/i-1/boot-finished",
            "instances/i-1/network-is-due",
            "instances/i-1/scripts/runcmd",
            "data/instance-id",
            "data/previous-datasource",
            "data/set-hostname",
        ] {
            for make in [directory, linked_directory, socket, to_itself] {
                let (link, warnings, lost) = recorded(|sys, layout| make(sys, layout.cloud(name)));
                assert_eq!((link.as_deref(), lost), (Some("/var/lib/cloud/instances/i-1"), false), "{name}");
                is_moved(name, &warnings);
            }
        }
    }

    /// A disk that is not mounted: its semaphores are unknown, and nobody wants the machine's keys replaced.
    #[test]
    fn a_link_to_a_missing_directory_counts_as_lost_state() {
        for (name, is_lost) in
            [("instances/i-1", true), ("instances/i-1/sem", true), ("instances/i-1/scripts", false)]
        {
            let (_, warnings, lost) = recorded(|sys, layout| {
                sys.link("/mnt/gone", layout.cloud(name)).unwrap();
            });
            let reported = format!(
                "/var/lib/cloud/{name} is a link to a directory that did not exist; created an empty one"
            );
            assert_eq!((warnings, lost), (vec![reported], is_lost), "{name}");
        }
    }

    #[test]
    fn links_to_files_are_kept() {
        for content in [None, Some("old")] {
            let (_, warnings, _) = recorded(|sys, layout| {
                sys.link("/srv/datasource", layout.cloud("instances/i-1/datasource")).unwrap();
                if let Some(content) = content {
                    sys.write("/srv/datasource", content, WriteOptions::default()).unwrap();
                }
            });
            assert_eq!(warnings, [""; 0], "{content:?}");
        }
    }
}
