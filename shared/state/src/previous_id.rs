//! The ID of the previous boot's instance.

use system::{System, warning};

use crate::Layout;

/// The previous instance ID of a new machine, as upstream writes it.
pub const NO_PREVIOUS_ID: &str = "NO_PREVIOUS_INSTANCE_ID";

/// The ID of the previous boot's instance, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousId {
    Known(String),
    /// There is no file: the machine is new, or the file was removed to make it so.
    Absent,
    /// The file is empty or cannot be read.
    Unknown,
}

impl PreviousId {
    /// Reads the ID from the data directory.
    pub fn read(sys: &System, layout: &Layout) -> PreviousId {
        match sys.read_text_if_exists(layout.instance_id()) {
            Ok(None) => PreviousId::Absent,
            Ok(Some(text)) => match text.trim() {
                NO_PREVIOUS_ID => PreviousId::Absent,
                "" => PreviousId::Unknown,
                id => PreviousId::Known(id.to_string()),
            },
            Err(e) => {
                warning!(sys, "{e}; cannot determine the previous instance ID");
                PreviousId::Unknown
            }
        }
    }

    /// Returns the ID if it is known.
    pub fn known(&self) -> Option<&str> {
        if let PreviousId::Known(id) = self { Some(id) } else { None }
    }
}
