//! Which instance this was before, and making another one the current one.

use system::{Result, System, WriteOptions, warning};

use crate::{Cached, Instance, Layout};

/// Written where upstream writes it before there was any instance.
const NO_PREVIOUS_ID: &str = "NO_PREVIOUS_INSTANCE_ID";

/// What is known of the instance that this machine was when it last ran.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PreviousId {
    Known(String),
    /// No file: the machine was none yet, or somebody removed it to say so.
    Absent,
    /// The file is there, and empty or not to be read.
    Unknown,
}

fn read_previous_id(sys: &System, layout: &Layout) -> PreviousId {
    match sys.read_text_if_exists(layout.data("instance-id")) {
        Ok(None) => PreviousId::Absent,
        Ok(Some(text)) => match text.trim() {
            NO_PREVIOUS_ID => PreviousId::Absent,
            "" => PreviousId::Unknown,
            id => PreviousId::Known(id.to_string()),
        },
        Err(e) => {
            warning!(sys, "{e}; which instance this was before is uncertain");
            PreviousId::Unknown
        }
    }
}

/// The id of the last instance, where it can be told.
pub(crate) fn previous_id(sys: &System, layout: &Layout) -> Option<String> {
    if let PreviousId::Known(id) = read_previous_id(sys, layout) { Some(id) } else { None }
}

/// What the machine was when it last ran.
#[derive(Debug, Clone)]
pub struct Previous {
    id: PreviousId,
    /// Where the link pointed, whose last part is the id with `/` replaced.
    link: Option<String>,
    /// The line of the `datasource` file that the current instance's directory has.
    datasource: Option<String>,
}

impl Previous {
    /// Reads what an earlier boot left; what cannot be read is in doubt, not an error.
    pub fn read(sys: &System, layout: &Layout) -> Previous {
        let line =
            |path: String| sys.read_text(path).ok().map(|t| t.trim().to_string()).filter(|t| !t.is_empty());
        Previous {
            id: read_previous_id(sys, layout),
            link: sys.read_link(layout.instance("")).ok(),
            datasource: line(layout.instance("datasource")),
        }
    }

    /// The id of the last instance; `None` when there was none, and in doubt.
    pub fn id(&self) -> Option<&str> {
        if let PreviousId::Known(id) = &self.id { Some(id) } else { None }
    }

    /// Whether `instance` is another one than the machine was before. In doubt the link decides, and without
    /// one the answer is no: what would re-run is host keys and passwords.
    pub fn is_new(&self, layout: &Layout, instance: &Instance) -> bool {
        self.is_new_id(layout, &instance.id)
    }

    /// As [`Previous::is_new`], for who has no more than the id of an instance yet.
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

/// Makes `instance` the current one: its directories, the link, the files that name it. Returns what was before. An error
/// of directories and link leaves those of the instance before; after any other error the instance is the current one.
pub fn instancify(sys: &System, layout: &Layout, instance: &Instance) -> Result<Previous> {
    let previous = Previous::read(sys, layout);
    let line = |text: &str| format!("{text}\n");
    // First: whatever fails behind it, later stages must not work for another instance that the link still points at.
    sys.write(layout.run(".instance-id"), line(&instance.id), WriteOptions::default())?;
    let (directory, link) = (layout.instance_dir(&instance.id), layout.instance(""));
    if sys.is_dir(&link) && !sys.is_link(&link) {
        // Somebody restored a copy that followed the link. Where that is all there is, it is this instance's state, and
        // what ran must not run again; else its content is not lost, only moved aside.
        let is_its = match Instance::load_without_raw_data(sys, layout) {
            Cached::Instance(cached) => cached.id == instance.id,
            Cached::Python { id } => id.as_ref() == Some(&instance.id),
            Cached::Corrupt | Cached::Missing => previous.id() == Some(&instance.id),
        };
        if is_its && !sys.exists(&directory) {
            sys.create_dir_all(layout.cloud("instances"), 0o755)?;
            sys.rename(&link, &directory)?;
        } else {
            sys.rename(&link, format!("{link}.{}.saved", sys.clock().wall().as_secs()))?;
        }
    }
    for name in ["", "/handlers", "/scripts", "/sem"] {
        sys.create_dir_all(format!("{directory}{name}"), 0o755)?;
    }
    sys.link(&directory, &link)?;
    let mut failed = None;
    let mut keep = |path: String, text: String, how: WriteOptions| {
        if let Err(e) = sys.write(path, text, how) {
            failed.get_or_insert(e);
        }
    };
    let described = line(&format!("{}: {}", class_of(&instance.description), instance.description));
    // The same datasource described by another release of cloud-init is not worth a change.
    let class = |text: &str| text.split(':').next().unwrap_or_default().to_string();
    if previous.datasource.as_deref().map(class) != Some(class(&described))
        || !sys.exists(layout.instance("datasource"))
    {
        keep(layout.instance("datasource"), described.clone(), WriteOptions::default());
    }
    let before = previous.datasource.as_deref().map_or(described, line);
    keep(layout.data("previous-datasource"), before, WriteOptions::default());
    let before = previous.id().unwrap_or(NO_PREVIOUS_ID);
    keep(layout.data("previous-instance-id"), line(before), WriteOptions::default());
    // Last: with this file the instance counts as known.
    keep(layout.data("instance-id"), line(&instance.id), WriteOptions::default().durable());
    failed.map_or(Ok(previous), Err)
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
        instancify(&sys, &layout, &instance("i-1")).unwrap();
        assert!(!is_new("i-1"));
        assert!(is_new("i-2"));
        sys.write(layout.data("instance-id"), "", WriteOptions::default()).unwrap();
        assert!(!is_new("i-1"));
        assert!(is_new("i-2"));
        sys.remove(layout.instance("")).unwrap();
        assert!(!is_new("i-2"));
        sys.remove(layout.data("instance-id")).unwrap();
        assert!(is_new("i-1"));
    }
}
