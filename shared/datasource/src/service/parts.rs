//! The parts of a metadata document, for services that serve all metadata in one document and most fields at paths of
//! their own as well. A document that exceeds the size limit does so because of its user-data: name, keys and network
//! configuration are then read one by one.

use config::{Map, Node};
use system::{Deadline, Result, System};

use crate::service::retry::RetryPolicy;
use crate::service::{metadata_network, tree};
use crate::standard;

/// A document as a tree of directories and values.
pub struct Parts<'p> {
    /// The URL of the top directory, which ends in `/`.
    pub top: String,
    /// Headers of each request.
    pub headers: &'p [(&'p str, &'p str)],
    /// Pairs of a name in the tree and the different name in the document.
    pub names: &'p [(&'p str, &'p str)],
}

/// Fields that may be too large; each is ignored by itself.
const DATA: [&str; 2] = ["user-data", "vendor-data"];

impl Parts<'_> {
    /// Reads the tree and returns it in the structure of the document.
    ///
    /// # Errors
    ///
    /// Fails if a directory or a value other than user-data and vendor-data cannot be read.
    pub fn read(&self, sys: &System, policy: &RetryPolicy) -> Result<Node> {
        let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
        let mut data: Vec<(&str, String)> = Vec::new();
        let tree = tree::read(sys, &self.top, &mut |url| {
            let response = metadata_network::request(sys, policy, url.into(), self.headers, deadline);
            let read = response.and_then(|response| tree::body(response, url));
            let Some(name) = DATA.into_iter().find(|name| url.strip_prefix(&self.top) == Some(name)) else {
                return read;
            };
            let bytes = standard::ignore_too_large(sys, url, read)?.unwrap_or_default();
            data.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            Ok(Some(Vec::new()))
        })?;
        let mut document = self.to_document(&tree);
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

    /// Converts a directory whose entries are numbers to a list.
    fn to_document(&self, node: &Node) -> Node {
        let Some(map) = node.as_map() else { return node.clone() };
        let pairs =
            map.iter().map(|(key, value)| (key.as_str().unwrap_or_default(), self.to_document(value)));
        let number = |(key, value): &(&str, Node)| Some((key.parse::<u32>().ok()?, value.clone()));
        let pairs: Vec<(&str, Node)> = pairs.collect();
        match pairs.iter().map(number).collect::<Option<Vec<_>>>() {
            Some(mut items) if !items.is_empty() => {
                sort::sort_by_key(&mut items, |(number, _)| *number);
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
