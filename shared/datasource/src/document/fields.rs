//! Checks the fields of a metadata document: an invalid field is reported with its path, ignored, and costs nothing else.
//! [`Fields`] reads fields one by one; [`crate::document::field_types::drop_invalid`] checks a document that is then used as a whole.

use std::cell::Cell;
use std::rc::Rc;

use config::{Node, Value};
use system::{System, warning};

/// The limit of a line of text in bytes: names, addresses, keys.
const MAX_LINE: usize = 16 << 10;
/// The limit of a string of several lines in bytes.
const MAX_TEXT: usize = 8 << 20;
/// The limit of a list's length.
const MAX_ITEMS: usize = 1000;

/// A part of a document, and its path for messages.
#[derive(Clone)]
pub struct Fields<'a> {
    sys: &'a System,
    /// `None`: the map is missing.
    node: Option<&'a Node>,
    /// The document's name and the path in it, such as `cloud.json: netadp[0]`.
    place: String,
    is_top: bool,
    /// It is not a map, which was reported: its fields are not missing.
    is_rejected: bool,
    /// The number of problems reported so far, of the whole document.
    rejections: Rc<Cell<usize>>,
}

impl<'a> Fields<'a> {
    /// Returns the fields of a whole document, which messages call `source`.
    pub fn of(sys: &'a System, source: &str, document: &'a Node) -> Fields<'a> {
        let (place, rejections) = (source.into(), Rc::default());
        Fields { sys, node: Some(document), place, is_top: true, is_rejected: false, rejections }
    }

    /// Reports a problem of a field; it is ignored.
    pub fn reject(&self, key: &str, problem: &str) {
        self.rejections.set(self.rejections.get() + 1);
        warning!(self.sys, "{}: {problem}; ignored", self.at(key));
    }

    /// Returns the number of problems that were reported of the whole document so far.
    pub fn rejections(&self) -> usize {
        self.rejections.get()
    }

    /// Reports a field of another type than expected.
    fn reject_type(&self, key: &str, expected: &str, found: &Node) {
        self.reject(key, &format!("expected {expected}, found {}", found.kind()));
    }

    fn child(&self, node: Option<&'a Node>, key: &str) -> Fields<'a> {
        Fields { node, place: self.at(key), is_top: false, ..self.clone() }
    }

    fn at(&self, key: &str) -> String {
        match self.is_top {
            true => format!("{}: {key}", self.place),
            false => format!("{}.{key}", self.place),
        }
    }

    fn field(&self, key: &str) -> Option<&'a Node> {
        self.node?.get(key).filter(|node| !node.is_null())
    }

    /// Returns the text of a scalar field on a single line, without surrounding whitespace. Missing and empty fields are
    /// `None`.
    pub fn text(&self, key: &str) -> Option<String> {
        let text = self.lines(key)?.trim().to_string();
        match line_problem(&text) {
            Some(problem) => {
                self.reject(key, problem);
                None
            }
            None => Some(text).filter(|text| !text.is_empty()),
        }
    }

    /// Returns a string field as [`Fields::text`] does, and reports it if it is missing or empty, unless the map was reported.
    pub fn expected_text(&self, key: &str) -> Option<String> {
        let is_empty = |node: &Node| node.as_str().is_some_and(|text| text.trim().is_empty());
        if !self.is_rejected && self.field(key).is_none_or(is_empty) {
            self.reject(key, "missing or empty");
        }
        self.text(key)
    }

    /// Returns the text of a scalar field, which may have several lines.
    pub fn lines(&self, key: &str) -> Option<String> {
        let node = self.field(key)?;
        match node.scalar_text() {
            Some(text) if text.len() <= MAX_TEXT => return Some(text),
            Some(_) => self.reject(key, "too long"),
            None => self.reject_type(key, "a string", node),
        }
        None
    }

    /// Returns the SSH keys of a string field, one on each line. Invalid lines are skipped; the first one is reported.
    pub fn keys(&self, key: &str) -> Vec<String> {
        valid_keys(self.sys, &self.at(key), &self.lines(key).unwrap_or_default())
    }

    /// Returns the fields of a map; none if it is missing.
    pub fn map(&self, key: &str) -> Fields<'a> {
        match self.field(key) {
            Some(node) if node.as_map().is_none() => {
                self.reject_type(key, "a map", node);
                Fields { is_rejected: true, ..self.child(None, key) }
            }
            node => self.child(node, key),
        }
    }

    /// Returns the maps of a list; none if it is missing.
    pub fn maps(&self, key: &str) -> Vec<Fields<'a>> {
        let fields = |(i, node): (usize, &'a Node)| {
            let item = format!("{key}[{i}]");
            if node.as_map().is_none() {
                self.reject_type(&item, "a map", node);
                return None;
            }
            Some(self.child(Some(node), &item))
        };
        self.items(key).iter().enumerate().filter_map(fields).collect()
    }

    /// Returns the lines of a list of strings.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let text = |(i, node): (usize, &Node)| {
            let text = node.as_str().map(str::trim).map(ToString::to_string);
            match text.as_deref().map_or(Some("expected a string"), line_problem) {
                Some(problem) => {
                    self.reject(&format!("{key}[{i}]"), problem);
                    None
                }
                None => text.filter(|text| !text.is_empty()),
            }
        };
        self.items(key).iter().enumerate().filter_map(text).collect()
    }

    fn items(&self, key: &str) -> &'a [Node] {
        match self.field(key).map(|node| (node, &node.value)) {
            Some((_, Value::Seq(items))) if items.len() <= MAX_ITEMS => items,
            Some((_, Value::Seq(_))) => {
                self.reject(key, "too many items");
                &[]
            }
            Some((node, _)) => {
                self.reject_type(key, "a list", node);
                &[]
            }
            None => &[],
        }
    }
}

/// Returns the SSH keys of a string, one on each line. Invalid lines are skipped; the first one is reported.
pub fn valid_keys(sys: &System, place: &str, text: &str) -> Vec<String> {
    // Some keys have a tab before their comment.
    let problem = |line: &str| line_problem(&line.replace('\t', " "));
    if let Some((at, problem)) = text.lines().enumerate().find_map(|(at, line)| Some((at, problem(line)?))) {
        warning!(sys, "{place}: line {}: {problem}; ignored", at + 1);
    }
    let keys = text.lines().filter(|line| problem(line).is_none()).map(str::trim);
    keys.filter(|key| !key.is_empty()).map(Into::into).collect()
}

/// Returns a string, or `None` if it is not a valid line, which is logged.
pub fn valid_line<'t>(sys: &System, place: &str, text: &'t str) -> Option<&'t str> {
    match line_problem(text.trim()) {
        Some(problem) => {
            warning!(sys, "{place}: {problem}; ignored");
            None
        }
        None => Some(text),
    }
}

/// Returns what is wrong with a string that should be a line.
pub fn line_problem(text: &str) -> Option<&'static str> {
    match text {
        _ if text.len() > MAX_LINE => Some("too long"),
        _ if text.contains(|c: char| c.is_control()) => Some("contains control characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_wrong_type_are_skipped_and_reported() {
        let sys = System::new("/nonexistent");
        let long = "x".repeat(MAX_LINE + 1);
        let document = format!(
            r#"{{"a": {{"t": " x ", "n": 7, "l": [1], "c": "a\nb", "long": "{long}", "e": "",
                "keys": "k\tx\r\n\n{long}\n\u0007\nl"}},
                "b": [{{"t": "y"}}, 3, {{"t": {{}}}}], "k": ["one", 2, "t\u0007wo", ""]}}"#
        );
        let document = config::json::parse(&document).unwrap();
        let all = Fields::of(&sys, "doc", &document);
        let a = all.map("a");
        assert_eq!((a.text("t").as_deref(), a.text("n").as_deref()), (Some("x"), Some("7")));
        assert_eq!(a.lines("c").as_deref(), Some("a\nb"));
        assert_eq!(a.keys("keys"), ["k\tx", "l"]);
        for key in ["l", "c", "long", "e", "missing"] {
            assert_eq!(a.text(key), None, "{key}");
        }
        assert_eq!((a.expected_text("e"), a.expected_text("missing")), (None, None));
        let texts: Vec<_> = all.maps("b").iter().map(|item| item.text("t")).collect();
        assert_eq!(texts, [Some("y".into()), None]);
        assert_eq!(all.texts("k"), ["one"]);
        assert!(
            all.map("b").expected_text("t").is_none()
                && all.maps("a").is_empty()
                && all.texts("none").is_empty()
        );
        let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        for (line, expected) in logged.iter().zip([
            "doc: a.keys: line 3: too long; ignored",
            "doc: a.l: expected a string, found a list; ignored",
            "doc: a.c: contains control characters; ignored",
            "doc: a.long: too long; ignored",
            "doc: a.e: missing or empty; ignored",
            "doc: a.missing: missing or empty; ignored",
            "doc: b[1]: expected a map, found an integer; ignored",
            "doc: b[2].t: expected a string, found a map; ignored",
            "doc: k[1]: expected a string; ignored",
            "doc: k[2]: contains control characters; ignored",
            "doc: b: expected a map, found a list; ignored",
            "doc: a: expected a list, found a map; ignored",
        ]) {
            assert_eq!(line, expected, "{logged:#?}");
        }
        assert_eq!(logged.len(), 12, "{logged:#?}");
        // `keys` reports lines, not fields.
        assert_eq!(all.rejections(), 11);
    }
}
