//! XML as in Azure's and OVF's files: elements and attributes with namespaces, text, CDATA, comments. The reader is
//! strict, works in one pass and is limited; document types, and with them custom entities, are rejected. (roxmltree
//! costs 40 KiB per program, quick-xml 32.) Messages contain the line and never the content, which may be a password.

use std::ops::Range;

/// Limits that no document of a cloud reaches.
const MAX_DEPTH: usize = 32;
const MAX_ELEMENTS: usize = 10_000;
const MAX_ATTRIBUTES: usize = 64;
/// The namespace of the prefix `xml`, which needs no declaration.
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

#[derive(Debug)]
pub struct Document<'t> {
    elements: Vec<Element<'t>>,
}

#[derive(Debug)]
pub struct Element<'t> {
    pub namespace: &'t str,
    pub name: &'t str,
    parent: Option<usize>,
    /// The element's own text, with references resolved, without that of its child elements.
    pub text: String,
    /// The range between its tags, in the document's bytes.
    pub content_range: Range<usize>,
    attributes: Vec<Attribute<'t>>,
}

#[derive(Debug)]
struct Attribute<'t> {
    namespace: &'t str,
    name: &'t str,
    value: String,
}

impl Element<'_> {
    /// Returns the value of an attribute; one without a prefix is in no namespace.
    pub fn attribute(&self, namespace: &str, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|a| a.namespace == namespace && a.name == name);
        found.map(|attribute| attribute.value.as_str())
    }
}

impl<'t> Document<'t> {
    /// Parses a document; the error has the problem and the line.
    pub fn parse(text: &'t str) -> Result<Document<'t>, String> {
        let mut reader =
            Reader { text, at: 0, elements: Vec::new(), open: Vec::new(), namespaces: Vec::new() };
        match reader.read() {
            Ok(()) => Ok(Document { elements: reader.elements }),
            Err(what) => {
                let before = text.as_bytes().get(..reader.at).unwrap_or_default();
                let line = 1 + before.iter().filter(|b| **b == b'\n').count();
                Err(format!("line {line}: {what}"))
            }
        }
    }

    pub fn elements(&self) -> &[Element<'t>] {
        &self.elements
    }

    /// Returns the child elements of that name, by their indexes in [`Document::elements`]. The root is 0.
    pub fn children(&self, parent: usize, namespace: &str, name: &str) -> impl Iterator<Item = usize> {
        let fits =
            move |e: &Element<'_>| e.parent == Some(parent) && e.namespace == namespace && e.name == name;
        self.elements.iter().enumerate().filter(move |(_, e)| fits(e)).map(|(i, _)| i)
    }

    /// Does the same as [`Document::children`] in any namespace.
    pub fn children_in_any_namespace(&self, parent: usize, name: &str) -> impl Iterator<Item = usize> {
        let fits = move |e: &Element<'_>| e.parent == Some(parent) && e.name == name;
        self.elements.iter().enumerate().filter(move |(_, e)| fits(e)).map(|(i, _)| i)
    }

    /// Returns the text of the first element at a path below the root, none of them in a namespace.
    pub fn plain_text(&self, path: &[&str]) -> Option<&str> {
        let at = path.iter().try_fold(0, |at, name| self.children(at, "", name).next())?;
        Some(self.elements.get(at)?.text.trim()).filter(|text| !text.is_empty())
    }
}

/// Returns a text with markup characters written as references.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

struct Reader<'t> {
    text: &'t str,
    /// The offset of the first unread byte.
    at: usize,
    elements: Vec<Element<'t>>,
    /// Open elements, with their names as written.
    open: Vec<(usize, &'t str)>,
    /// Prefixes and namespaces, with the depth of their declaration.
    namespaces: Vec<(usize, &'t str, &'t str)>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads up to a mark and skips the mark.
    fn until(&mut self, mark: &str) -> Result<&'t str, String> {
        let found = self.rest().split_once(mark);
        let (before, _) = found.ok_or_else(|| format!("no {mark} follows"))?;
        self.at += before.len() + mark.len();
        Ok(before)
    }

    fn accept(&mut self, what: &str) -> bool {
        let is_present = self.rest().starts_with(what);
        self.at += if is_present { what.len() } else { 0 };
        is_present
    }

    fn skip_whitespace(&mut self) -> bool {
        let rest = self.rest();
        let count = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += count;
        count > 0
    }

    fn read(&mut self) -> Result<(), String> {
        self.accept("\u{feff}");
        loop {
            let Some((before, _)) = self.rest().split_once('<') else {
                if !self.rest().trim().is_empty() {
                    return Err("text without an element".into());
                }
                break;
            };
            self.characters(before)?;
            self.at += before.len() + 1;
            if self.accept("!--") {
                self.until("-->")?;
            } else if self.accept("![CDATA[") {
                let text = self.until("]]>")?;
                self.current_text()?.push_str(&normalize_line_ends(text));
            } else if self.accept("?") {
                self.until("?>")?;
            } else if self.rest().starts_with('!') {
                return Err("a document type, or another declaration, is not taken".into());
            } else if self.accept("/") {
                self.end_tag()?;
            } else {
                self.start_tag()?;
            }
        }
        match self.open.last() {
            Some((_, name)) => Err(format!("the end of {name} is missing")),
            None if self.elements.is_empty() => Err("there is no element".into()),
            None => Ok(()),
        }
    }

    fn current_text(&mut self) -> Result<&mut String, String> {
        let (at, _) = self.open.last().ok_or("text without an element")?;
        self.elements.get_mut(*at).map(|e| &mut e.text).ok_or_else(|| "text without an element".into())
    }

    fn characters(&mut self, raw: &str) -> Result<(), String> {
        if raw.is_empty() || (self.open.is_empty() && raw.trim().is_empty()) {
            return Ok(());
        }
        let text = resolve_references(raw)?;
        self.current_text()?.push_str(&text);
        Ok(())
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let content_end = self.at - 2;
        let name = self.name()?;
        self.skip_whitespace();
        if !self.accept(">") {
            return Err(format!("expected the end of the tag {name}"));
        }
        match self.open.pop() {
            Some((at, opened)) if opened == name => {
                if let Some(element) = self.elements.get_mut(at) {
                    element.content_range.end = content_end;
                }
            }
            _ => return Err(format!("{name} ends, and another element is open")),
        }
        let depth = self.open.len();
        self.namespaces.retain(|(given, ..)| *given < depth);
        Ok(())
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let depth = self.open.len();
        if depth >= MAX_DEPTH || self.elements.len() >= MAX_ELEMENTS {
            return Err(format!("more than {MAX_DEPTH} levels or {MAX_ELEMENTS} elements"));
        }
        if depth == 0 && !self.elements.is_empty() {
            return Err("a second root element".into());
        }
        let name = self.name()?;
        let mut attributes = Vec::new();
        loop {
            let had_whitespace = self.skip_whitespace();
            if self.rest().starts_with(['>', '/']) {
                break;
            }
            let attribute = self.name()?;
            self.skip_whitespace();
            if !had_whitespace || !self.accept("=") {
                return Err(format!("expected an attribute of {name}"));
            }
            self.skip_whitespace();
            let quote = if self.accept("\"") { "\"" } else { "'" };
            if quote == "'" && !self.accept("'") {
                return Err(format!("{attribute}: expected a value in quotes"));
            }
            let value = self.until(quote)?;
            if value.contains('<') {
                return Err(format!("{attribute}: a value has no <"));
            }
            match attribute.strip_prefix("xmlns") {
                Some("") => self.namespaces.push((depth, "", value)),
                Some(prefix) if prefix.starts_with(':') => self.namespaces.push((depth, &prefix[1..], value)),
                _ if attributes.len() >= MAX_ATTRIBUTES => {
                    return Err(format!("{name}: more than {MAX_ATTRIBUTES} attributes"));
                }
                _ => attributes.push((attribute, value)),
            }
        }
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        let namespace = self.namespace(prefix)?;
        // Only now are all declarations of the element known.
        let attributes = attributes.into_iter().map(|(name, value)| self.attribute(name, value));
        let attributes = attributes.collect::<Result<_, _>>()?;
        let is_empty = self.accept("/");
        if !self.accept(">") {
            return Err(format!("expected the end of the tag {name}"));
        }
        let parent = self.open.last().map(|(at, _)| *at);
        let content_range = self.at..self.at;
        let text = String::new();
        self.elements.push(Element { namespace, name: local, parent, text, content_range, attributes });
        if is_empty {
            self.namespaces.retain(|(given, ..)| *given < depth);
        } else {
            self.open.push((self.elements.len() - 1, name));
        }
        Ok(())
    }

    /// Returns the namespace of a prefix; the empty prefix need not be declared.
    fn namespace(&self, prefix: &str) -> Result<&'t str, String> {
        match self.namespaces.iter().rev().find(|(_, given, _)| *given == prefix) {
            Some((.., namespace)) => Ok(namespace),
            None if prefix.is_empty() => Ok(""),
            None if prefix == "xml" => Ok(XML_NAMESPACE),
            None => Err(format!("undeclared namespace prefix {prefix}")),
        }
    }

    fn attribute(&self, name: &'t str, value: &str) -> Result<Attribute<'t>, String> {
        let (namespace, name) = match name.split_once(':') {
            Some((prefix, local)) => (self.namespace(prefix)?, local),
            // The default namespace is for elements only.
            None => ("", name),
        };
        // White space becomes spaces, unless it is written as references (XML 1.0, 3.3.3).
        let value = normalize_line_ends(value).replace(['\n', '\t'], " ");
        Ok(Attribute { namespace, name, value: resolve_references(&value)? })
    }

    fn name(&mut self) -> Result<&'t str, String> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let name = rest.find(|c| !is_part(c)).and_then(|end| rest.get(..end)).unwrap_or(rest);
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Err("expected a name".into());
        }
        self.at += name.len();
        Ok(name)
    }
}

/// Replaces the line ends that XML recognizes by a single character.
fn normalize_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns text with its references resolved: the five names of XML, and numbers.
fn resolve_references(raw: &str) -> Result<String, String> {
    let raw = normalize_line_ends(raw);
    let mut pieces = raw.split('&');
    let mut out = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (name, text) = piece.split_once(';').ok_or("a reference without its end")?;
        let c = match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => character_reference(name).ok_or("a reference to what XML has no name for")?,
        };
        out.push(c);
        out.push_str(text);
    }
    Ok(out)
}

fn character_reference(name: &str) -> Option<char> {
    let digits = name.strip_prefix('#')?;
    let (digits, base) = digits.strip_prefix('x').map_or((digits, 10), |hex| (hex, 16));
    let is_plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let c = char::from_u32(u32::from_str_radix(digits, base).ok().filter(|_| is_plain)?)?;
    (c >= ' ' || matches!(c, '\t' | '\n' | '\r')).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each element as `parent>space|name=text@inside`.
    fn dump(text: &str) -> String {
        match Document::parse(text) {
            Ok(document) => {
                let one = |e: &Element<'_>| {
                    let parent = e.parent.map(|p| p.to_string()).unwrap_or_default();
                    format!(
                        "{parent}>{}|{}={}@{}",
                        e.namespace,
                        e.name,
                        e.text,
                        &text[e.content_range.clone()]
                    )
                };
                document.elements().iter().map(one).collect::<Vec<_>>().join(" ; ")
            }
            Err(e) => e,
        }
    }

    #[test]
    fn documents() {
        for (text, expected) in [
            ("<a/>", ">|a=@"),
            ("\u{feff}<?xml version='1.0'?><!-- <x> --><a b='1' c = \"<\"/>", "line 1: c: a value has no <"),
            ("<a>x<b>y</b >z</a>\n<!-- end -->\n", ">|a=xz@x<b>y</b >z ; 0>|b=y@y"),
            (
                "<a xmlns='u' xmlns:p=\"v\"><p:b/><c xmlns=''/><d/></a>",
                ">u|a=@<p:b/><c xmlns=''/><d/> ; 0>v|b=@ ; 0>|c=@ ; 0>u|d=@",
            ),
            ("<a><b xmlns:p='v'><p:c/></b><p:d/></a>", "line 1: undeclared namespace prefix p"),
            (
                "<a>&lt;&#65;&#x20AC;&amp;&quot;&apos;&gt;</a>",
                ">|a=<A€&\"'>@&lt;&#65;&#x20AC;&amp;&quot;&apos;&gt;",
            ),
            ("<a>1\r\n2<![CDATA[<&b>\r]]>3</a>", ">|a=1\n2<&b>\n3@1\r\n2<![CDATA[<&b>\r]]>3"),
            ("<a>&b;</a>", "line 1: a reference to what XML has no name for"),
            ("<a>&#0;</a>", "line 1: a reference to what XML has no name for"),
            ("<a>&#+65;</a>", "line 1: a reference to what XML has no name for"),
            ("<a>b & c</a>", "line 1: a reference without its end"),
            (
                "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>",
                "line 1: a document type, or another declaration, is not taken",
            ),
            ("<a>\n<b>\n</a>", "line 3: a ends, and another element is open"),
            ("<a>\n<b>", "line 2: the end of b is missing"),
            ("<a/><b/>", "line 1: a second root element"),
            ("<a/>x", "line 1: text without an element"),
            ("x<a/>", "line 1: text without an element"),
            ("<![CDATA[x]]>", "line 1: text without an element"),
            ("", "line 1: there is no element"),
            ("<a b></a>", "line 1: expected an attribute of a"),
            ("<a b=c></a>", "line 1: b: expected a value in quotes"),
            ("<a b='1'c='2'/>", "line 1: expected an attribute of a"),
            ("<a b='1></a>", "line 1: no ' follows"),
            ("<a/ >", "line 1: expected the end of the tag a"),
            ("<a", "line 1: expected a name"),
            ("<", "line 1: expected a name"),
            ("<1/>", "line 1: expected a name"),
            ("<a>\n<!-- ", "line 2: no --> follows"),
            ("</a>", "line 1: a ends, and another element is open"),
        ] {
            assert_eq!(dump(text), expected, "{text}");
        }
    }

    #[test]
    fn limits() {
        assert!(dump(&"<a>".repeat(40)).contains("more than 32 levels"));
        assert!(dump(&format!("<a>{}</a>", "<b/>".repeat(MAX_ELEMENTS))).contains("more than"));
        assert!(!dump(&format!("<a>{}</a>", "<b/>".repeat(MAX_ELEMENTS - 1))).contains("more than"));
    }

    /// Whatever is removed from a document, parsing ends with a result.
    #[test]
    fn truncated_documents() {
        let text =
            "<?xml version=\"1.0\"?><a xmlns:p='ü'><!-- c --><p:b x=\"1\">&amp;&#xe4;<![CDATA[d]]></p:b></a>";
        let ends: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
        let mut good = 0;
        for &from in &ends {
            for &to in ends.iter().filter(|to| **to >= from) {
                good += usize::from(Document::parse(&text[from..to]).is_ok());
            }
        }
        // From the declaration or the root on, and never the inner element, whose prefix belongs to another one.
        assert_eq!(good, 2);
    }

    /// The same for a changed byte; and ranges are within the text.
    #[test]
    fn replaced_bytes() {
        let text = "<?x?><a b='c' xmlns:d=\"e\"><!-- f --><d:g/>h&lt;&#9;<![CDATA[i]]></a>";
        let mut bad = 0;
        for at in 0..text.len() {
            for other in
                ["<", ">", "&", ";", "'", "\"", "/", "!", "?", "[", "]", "-", "=", ":", " ", "\u{e4}", ""]
            {
                let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                match Document::parse(&changed) {
                    Ok(document) => {
                        let ranges = document.elements().iter().map(|e| changed.get(e.content_range.clone()));
                        assert!(ranges.into_iter().all(|text| text.is_some()), "{changed}");
                    }
                    Err(e) => bad += usize::from(e.starts_with("line 1: ")),
                }
            }
        }
        assert!(bad > 500, "{bad}");
    }

    #[test]
    fn attributes() {
        let text = "<e:a xmlns:e='u' e:k='1' k=\"x&#10;y\nz&amp;\" xml:lang='de' xmlns='u'><b k=''/></e:a>";
        let document = Document::parse(text).unwrap();
        let [a, b] = document.elements() else { panic!("{document:?}") };
        assert_eq!((a.attribute("u", "k"), a.attribute("", "k")), (Some("1"), Some("x\ny z&")));
        assert_eq!((a.attribute(XML_NAMESPACE, "lang"), a.attribute("v", "k")), (Some("de"), None));
        assert_eq!((b.attribute("", "k"), b.attribute("u", "k")), (Some(""), None));
        for (text, expected) in [
            ("<a p:b='1'/>", "line 1: undeclared namespace prefix p"),
            ("<a b='&c;'/>", "line 1: a reference to what XML has no name for"),
            (&format!("<a {}/>", "b='' ".repeat(65)), "line 1: a: more than 64 attributes"),
        ] {
            assert_eq!(dump(text), expected, "{text}");
        }
    }

    #[test]
    fn text_at_a_path() {
        let document = Document::parse("<a><b><c> 1 </c><c>2</c></b><d/></a>").unwrap();
        assert_eq!(document.plain_text(&["b", "c"]), Some("1"));
        assert_eq!((document.plain_text(&["d"]), document.plain_text(&["b", "x"])), (None, None));
        assert_eq!(document.children(1, "", "c").count(), 2);
        assert_eq!(escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
