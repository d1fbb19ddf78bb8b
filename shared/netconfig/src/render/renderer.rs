//! The columns of [`super::RENDERERS`].

use std::borrow::Cow;

use config::{Node, Value};
use system::System;

use crate::model::Model;

use super::activator::Activator;
use super::output::RenderResult;
use super::target::Target;
use super::unsupported::Unsupported;

/// A renderer of the network configuration: one row of [`super::RENDERERS`], declared in the renderer's own file.
pub struct Renderer {
    /// The name in `-O/--output-kind` and in `system_info: {network: {renderers: …}}`.
    pub name: &'static str,
    /// The description of the written files in a few words, for `--help`.
    pub help: &'static str,
    /// Returns whether the system can use the files.
    pub available: fn(&System) -> bool,
    /// Renders a mapping of version 2 without parsing it, for the renderer whose own format version 2 is: keys that
    /// netplan adds work without a change here.
    pub passthrough: Option<fn(&Node, &Target) -> RenderResult>,
    /// Renders the model. An error means that no file may be written.
    pub render: fn(&Model, &Target) -> RenderResult,
    /// Runs once the files are written. An error means that the service rejects them.
    pub post_write: Option<fn(&System) -> system::Result<()>>,
    /// The way in which its network service brings interfaces up, for a renderer that has one of its own.
    pub activator: Option<Activator>,
    /// Whether drop-ins of its files keep the routes and rules by which systemd-imds restricts access to the metadata service.
    pub keeps_imds_lock: bool,
    /// Whether the files may name NICs by patterns; otherwise a link is rendered for each NIC that fits.
    pub has_patterns: bool,
    /// Returns what the format cannot express on this target; `None` if the renderer does not support the target.
    pub unsupported: fn(&Target) -> Option<&'static Unsupported>,
}

impl Renderer {
    /// Returns the model as this renderer takes it.
    pub fn model<'a>(&self, model: &'a Model) -> Cow<'a, Model> {
        if self.has_patterns { Cow::Borrowed(model) } else { model.resolved() }
    }

    /// Returns whether the renderer writes configurations of version 2 without parsing them, as netplan's does.
    pub fn has_passthrough(&self) -> bool {
        self.passthrough.is_some()
    }

    /// Returns whether the renderer writes this configuration without parsing it.
    pub fn passes_through(&self, config: &Node) -> bool {
        let version = match &config.value {
            Value::Map(map) => crate::parse::version(map),
            _ => None,
        };
        self.has_passthrough() && version == Some(2)
    }
}
