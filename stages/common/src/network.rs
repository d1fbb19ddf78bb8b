//! Network configuration.

use crate::{Found, Stage};

impl Stage {
    pub fn apply_network(&mut self, _found: Option<&Found>) {}
}
