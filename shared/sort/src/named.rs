use std::collections::BTreeMap;

/// Values by name, in the order in which they are first mentioned, with an index, because there may be thousands.
pub struct Named<T> {
    /// The names, each once, and their values.
    pub entries: Vec<(String, T)>,
    index: BTreeMap<String, usize>,
}

impl<T: Default> Named<T> {
    /// Returns the value of a name, which is added if it is new.
    pub fn entry(&mut self, name: &str) -> &mut T {
        let at = *self.index.entry(name.to_string()).or_insert(self.entries.len());
        if at == self.entries.len() {
            self.entries.push((name.to_string(), T::default()));
        }
        &mut self.entries[at].1
    }
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { entries: Vec::new(), index: BTreeMap::new() }
    }
}
