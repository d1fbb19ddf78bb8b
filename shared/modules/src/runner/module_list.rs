//! Module lists in their three forms: `name`, `[name, frequency, args…]` or `{name, frequency, args}`.

use config::{Node, Value};
use state::Frequency;

/// One entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleEntry {
    /// The name as written, for the semaphore's name and the log.
    pub name: String,
    /// The frequency; `None` for the module's own.
    pub frequency: Option<Frequency>,
    /// Arguments for the module.
    pub args: Vec<Node>,
    /// An invalid frequency.
    pub bad_frequency: Option<String>,
}

impl ModuleEntry {
    /// Returns what is wrong with the frequency.
    pub(crate) fn frequency_problem(&self) -> Option<String> {
        let word = self.bad_frequency.as_ref()?;
        let near = config::suggestion(word, ["once", "once-per-instance", "always"]);
        Some(format!(
            "unknown frequency{near} (expected once, once-per-instance or always); using the module's default"
        ))
    }
}

/// Returns the entries of a list in order, and the invalid ones. Empty entries are dropped.
pub fn parse_module_list(list: Option<&Node>) -> (Vec<ModuleEntry>, Vec<String>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let items = match list.map(|l| &l.value) {
        None | Some(Value::Null) => return (good, bad),
        Some(Value::Seq(items)) => &items[..],
        Some(_) => {
            bad.extend(list.map(|l| format!("{}: expected a list of modules, found {}", l.at, l.kind())));
            return (good, bad);
        }
    };
    for item in items.iter().filter(|i| !i.is_falsy()) {
        match parse_entry(item) {
            Some(entry) => good.push(entry),
            None => bad.push(format!("{}: expected a module, found {}", item.at, item.kind())),
        }
    }
    (good, bad)
}

/// Returns the entry; `None` for a value of another form.
pub(crate) fn parse_entry(item: &Node) -> Option<ModuleEntry> {
    let (name, frequency, args) = match &item.value {
        Value::Str(name) => (name.clone(), None, Vec::new()),
        Value::Seq(parts) => {
            (parts.first()?.as_str()?.to_string(), parts.get(1), parts.iter().skip(2).cloned().collect())
        }
        Value::Map(map) => {
            let args = match map.get("args").map(|a| &a.value) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Seq(items)) => items.clone(),
                Some(_) => map.get("args").cloned().into_iter().collect(),
            };
            (map.get("name")?.as_str()?.to_string(), map.get("frequency"), args)
        }
        _ => return None,
    };
    let word = frequency.filter(|f| !f.is_falsy()).and_then(Node::scalar_text);
    let known = word.as_deref().and_then(Frequency::parse);
    let bad_frequency = if known.is_none() { word } else { None };
    Some(ModuleEntry { name: name.trim().to_string(), frequency: known, args, bad_frequency })
}
