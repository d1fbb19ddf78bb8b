use std::collections::BTreeMap;

/// Values by name, in the order in which they are first mentioned, with an index, because there may be thousands.
#[derive(Debug)]
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

impl<T> Named<T> {
    /// Returns the value of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&T> {
        Some(&self.entries[*self.index.get(name)?].1)
    }

    /// As [`Named::get`], to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        Some(&mut self.entries[*self.index.get(name)?].1)
    }

    /// Puts the values in the order of their names.
    pub fn sort(&mut self) {
        crate::sort_by(&mut self.entries, |a, b| a.0.cmp(&b.0));
        self.index.values_mut().zip(0..).for_each(|(place, at)| *place = at);
    }
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { entries: Vec::new(), index: BTreeMap::new() }
    }
}
