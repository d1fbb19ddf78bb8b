//! For services that give all that they have in one document, and most of it at paths of their own beside it. Where the
//! document is larger than is taken, user-data made it so: name, keys and network are read by themselves.

use config::{Map, Node};
use system::{Deadline, Response, Result, System, warning};

use crate::retry::RetryPolicy;
use crate::{metadata_network, seed, standard, tree};

/// The document that was asked for, or in place of one that is too large what `parts` reads. The inner error is that of a
/// document that came and cannot be read.
pub fn document(
    sys: &System,
    what: &str,
    asked: Result<(usize, Response)>,
    parts: impl FnOnce() -> Result<Node>,
) -> Result<Result<Node>> {
    match asked {
        Ok((_, answer)) => Ok(seed::parse_map(what, &answer.body)),
        Err(e) if e.is_too_large() => {
            warning!(sys, "{what}: {e}; reading its parts");
            parts().map(Ok)
        }
        Err(e) => Err(e),
    }
}

/// Where a service has the parts of its document as a tree of directories and values.
pub struct Parts<'p> {
    /// The top directory's URL, which ends in `/`.
    pub top: String,
    pub headers: &'p [(&'p str, &'p str)],
    /// Names in the tree, and in the document, where these differ.
    pub names: &'p [(&'p str, &'p str)],
}

/// What may be large, and is read by itself.
const DATA: [&str; 2] = ["user-data", "vendor-data"];

impl Parts<'_> {
    /// The parts, in the document's shape.
    pub fn read(&self, sys: &System, policy: &RetryPolicy) -> Result<Node> {
        let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
        let mut data: Vec<(&str, String)> = Vec::new();
        let tree = tree::read(sys, &self.top, &mut |url| {
            let read = metadata_network::get_optional(sys, policy, url.into(), self.headers, deadline);
            let Some(name) = DATA.into_iter().find(|name| url.strip_prefix(&self.top) == Some(name)) else {
                return read;
            };
            let bytes = standard::ignore_too_large(sys, url, read)?.unwrap_or_default();
            data.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            Ok(Some(Vec::new()))
        })?;
        let mut document = self.shaped(&tree);
        if let Some(map) = document.as_map_mut() {
            for (name, text) in data {
                map.insert(self.name(name), text);
            }
        }
        Ok(document)
    }

    fn name<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, name)| name)
    }

    /// Directories whose names are numbers are lists.
    fn shaped(&self, node: &Node) -> Node {
        let Some(map) = node.as_map() else { return node.clone() };
        let pairs = map.iter().map(|(key, value)| (key.as_str().unwrap_or_default(), self.shaped(value)));
        let number = |(key, value): &(&str, Node)| Some((key.parse::<u32>().ok()?, value.clone()));
        let pairs: Vec<(&str, Node)> = pairs.collect();
        match pairs.iter().map(number).collect::<Option<Vec<_>>>() {
            Some(mut items) if !items.is_empty() => {
                items.sort_by_key(|(number, _)| *number);
                items.into_iter().map(|(_, value)| value).collect::<Vec<_>>().into()
            }
            _ => pairs
                .into_iter()
                .map(|(key, value)| (Node::from(self.name(key)), value))
                .collect::<Map>()
                .into(),
        }
    }
}
