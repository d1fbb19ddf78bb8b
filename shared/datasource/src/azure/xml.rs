//! XML as Azure's files have it: elements with namespaces, text, CDATA, comments; attributes are read over. Strict, in one
//! pass, bounded; document types, and with them entities of one's own, are refused. (roxmltree costs 40 KiB a program,
//! quick-xml 32.) Messages tell the line and never the content, which holds passwords.

use std::ops::Range;

/// Deeper and larger documents are none of Azure's.
const DEEPEST: usize = 32;
const MOST: usize = 10_000;

#[derive(Debug)]
pub struct Document<'t> {
    elements: Vec<Element<'t>>,
}

#[derive(Debug)]
pub struct Element<'t> {
    pub space: &'t str,
    pub name: &'t str,
    parent: Option<usize>,
    /// The text that is its own, not its elements', with references resolved.
    pub text: String,
    /// What is between its tags, in the document's bytes.
    pub inside: Range<usize>,
}

impl<'t> Document<'t> {
    /// The error is what is wrong, and in which line.
    pub fn parse(text: &'t str) -> Result<Document<'t>, String> {
        let mut reader = Reader { text, at: 0, elements: Vec::new(), open: Vec::new(), spaces: Vec::new() };
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

    /// The elements of that name directly below one, by their places among [`Document::elements`]. The root is 0.
    pub fn below(&self, parent: usize, space: &str, name: &str) -> impl Iterator<Item = usize> {
        let fits = move |e: &Element<'_>| e.parent == Some(parent) && e.space == space && e.name == name;
        self.elements.iter().enumerate().filter(move |(_, e)| fits(e)).map(|(i, _)| i)
    }

    /// The text of the first element at a path below the root, none of them in a namespace.
    pub fn plain_text(&self, path: &[&str]) -> Option<&str> {
        let at = path.iter().try_fold(0, |at, name| self.below(at, "", name).next())?;
        Some(self.elements.get(at)?.text.trim()).filter(|text| !text.is_empty())
    }
}

/// A text with what stands for markup written as references.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

struct Reader<'t> {
    text: &'t str,
    /// Up to here all is read.
    at: usize,
    elements: Vec<Element<'t>>,
    /// Elements whose end has not come, with their names as written.
    open: Vec<(usize, &'t str)>,
    /// Prefixes and namespaces, with how deep they were given.
    spaces: Vec<(usize, &'t str, &'t str)>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes what is there up to a mark, and the mark.
    fn until(&mut self, mark: &str) -> Result<&'t str, String> {
        let found = self.rest().split_once(mark);
        let (before, _) = found.ok_or_else(|| format!("no {mark} follows"))?;
        self.at += before.len() + mark.len();
        Ok(before)
    }

    fn skip(&mut self, what: &str) -> bool {
        let is_there = self.rest().starts_with(what);
        self.at += if is_there { what.len() } else { 0 };
        is_there
    }

    fn blanks(&mut self) -> bool {
        let rest = self.rest();
        let count = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += count;
        count > 0
    }

    fn read(&mut self) -> Result<(), String> {
        self.skip("\u{feff}");
        loop {
            let Some((before, _)) = self.rest().split_once('<') else {
                if !self.rest().trim().is_empty() {
                    return Err("text without an element".into());
                }
                break;
            };
            self.characters(before)?;
            self.at += before.len() + 1;
            if self.skip("!--") {
                self.until("-->")?;
            } else if self.skip("![CDATA[") {
                let text = self.until("]]>")?;
                self.own_text()?.push_str(&lines(text));
            } else if self.skip("?") {
                self.until("?>")?;
            } else if self.rest().starts_with('!') {
                return Err("a document type, or another declaration, is not taken".into());
            } else if self.skip("/") {
                self.end()?;
            } else {
                self.begin()?;
            }
        }
        match self.open.last() {
            Some((_, name)) => Err(format!("the end of {name} is missing")),
            None if self.elements.is_empty() => Err("there is no element".into()),
            None => Ok(()),
        }
    }

    fn own_text(&mut self) -> Result<&mut String, String> {
        let (at, _) = self.open.last().ok_or("text without an element")?;
        self.elements.get_mut(*at).map(|e| &mut e.text).ok_or_else(|| "text without an element".into())
    }

    fn characters(&mut self, raw: &str) -> Result<(), String> {
        if raw.is_empty() || (self.open.is_empty() && raw.trim().is_empty()) {
            return Ok(());
        }
        let text = resolved(raw)?;
        self.own_text()?.push_str(&text);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let inside_ends = self.at - 2;
        let name = self.name()?;
        self.blanks();
        if !self.skip(">") {
            return Err(format!("expected the end of the tag {name}"));
        }
        match self.open.pop() {
            Some((at, opened)) if opened == name => {
                if let Some(element) = self.elements.get_mut(at) {
                    element.inside.end = inside_ends;
                }
            }
            _ => return Err(format!("{name} ends, and another element is open")),
        }
        let depth = self.open.len();
        self.spaces.retain(|(given, ..)| *given < depth);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let depth = self.open.len();
        if depth >= DEEPEST || self.elements.len() >= MOST {
            return Err(format!("more than {DEEPEST} levels or {MOST} elements"));
        }
        if depth == 0 && !self.elements.is_empty() {
            return Err("a second root element".into());
        }
        let name = self.name()?;
        loop {
            let had_blanks = self.blanks();
            if self.rest().starts_with(['>', '/']) {
                break;
            }
            let attribute = self.name()?;
            self.blanks();
            if !had_blanks || !self.skip("=") {
                return Err(format!("expected an attribute of {name}"));
            }
            self.blanks();
            let quote = if self.skip("\"") { "\"" } else { "'" };
            if quote == "'" && !self.skip("'") {
                return Err(format!("{attribute}: expected a value in quotes"));
            }
            let value = self.until(quote)?;
            if value.contains('<') {
                return Err(format!("{attribute}: a value has no <"));
            }
            match attribute.strip_prefix("xmlns") {
                Some("") => self.spaces.push((depth, "", value)),
                Some(prefix) if prefix.starts_with(':') => self.spaces.push((depth, &prefix[1..], value)),
                _ => {}
            }
        }
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        let space = self.spaces.iter().rev().find(|(_, given, _)| *given == prefix).map(|(.., space)| *space);
        let space = match space {
            Some(space) => space,
            None if prefix.is_empty() => "",
            None => return Err(format!("nobody says what the prefix {prefix} is")),
        };
        let is_empty = self.skip("/");
        if !self.skip(">") {
            return Err(format!("expected the end of the tag {name}"));
        }
        let parent = self.open.last().map(|(at, _)| *at);
        let inside = self.at..self.at;
        self.elements.push(Element { space, name: local, parent, text: String::new(), inside });
        if is_empty {
            self.spaces.retain(|(given, ..)| *given < depth);
        } else {
            self.open.push((self.elements.len() - 1, name));
        }
        Ok(())
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

/// With the line ends that XML knows: one character each.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Text with its references resolved: the five names of XML, and numbers.
fn resolved(raw: &str) -> Result<String, String> {
    let raw = lines(raw);
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
            _ => number(name).ok_or("a reference to what XML has no name for")?,
        };
        out.push(c);
        out.push_str(text);
    }
    Ok(out)
}

fn number(name: &str) -> Option<char> {
    let digits = name.strip_prefix('#')?;
    let (digits, base) = digits.strip_prefix('x').map_or((digits, 10), |hex| (hex, 16));
    let is_plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let c = char::from_u32(u32::from_str_radix(digits, base).ok().filter(|_| is_plain)?)?;
    (c >= ' ' || matches!(c, '\t' | '\n' | '\r')).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each element as `parent>space|name=text@inside`.
    fn shown(text: &str) -> String {
        match Document::parse(text) {
            Ok(document) => {
                let one = |e: &Element<'_>| {
                    let parent = e.parent.map(|p| p.to_string()).unwrap_or_default();
                    format!("{parent}>{}|{}={}@{}", e.space, e.name, e.text, &text[e.inside.clone()])
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
            ("<a><b xmlns:p='v'><p:c/></b><p:d/></a>", "line 1: nobody says what the prefix p is"),
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
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn bounds() {
        assert!(shown(&"<a>".repeat(40)).contains("more than 32 levels"));
        assert!(shown(&format!("<a>{}</a>", "<b/>".repeat(MOST))).contains("more than"));
        assert!(!shown(&format!("<a>{}</a>", "<b/>".repeat(MOST - 1))).contains("more than"));
    }

    /// Whatever is cut out of a document, the reader comes to an end and to an answer.
    #[test]
    fn pieces() {
        let text =
            "<?xml version=\"1.0\"?><a xmlns:p='ü'><!-- c --><p:b x=\"1\">&amp;&#xe4;<![CDATA[d]]></p:b></a>";
        let ends: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
        let mut good = 0;
        for &from in &ends {
            for &to in ends.iter().filter(|to| **to >= from) {
                good += usize::from(Document::parse(&text[from..to]).is_ok());
            }
        }
        // From the declaration or the root on, and the inner element nowhere, for its prefix is another's.
        assert_eq!(good, 2);
    }

    /// Nor whatever a byte of it is replaced by; and what is found lies within the text.
    #[test]
    fn other_bytes() {
        let text = "<?x?><a b='c' xmlns:d=\"e\"><!-- f --><d:g/>h&lt;&#9;<![CDATA[i]]></a>";
        let mut bad = 0;
        for at in 0..text.len() {
            for other in
                ["<", ">", "&", ";", "'", "\"", "/", "!", "?", "[", "]", "-", "=", ":", " ", "\u{e4}", ""]
            {
                let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                match Document::parse(&changed) {
                    Ok(document) => {
                        let inside = document.elements().iter().map(|e| changed.get(e.inside.clone()));
                        assert!(inside.into_iter().all(|text| text.is_some()), "{changed}");
                    }
                    Err(e) => bad += usize::from(e.starts_with("line 1: ")),
                }
            }
        }
        assert!(bad > 500, "{bad}");
    }

    #[test]
    fn paths() {
        let document = Document::parse("<a><b><c> 1 </c><c>2</c></b><d/></a>").unwrap();
        assert_eq!(document.plain_text(&["b", "c"]), Some("1"));
        assert_eq!((document.plain_text(&["d"]), document.plain_text(&["b", "x"])), (None, None));
        assert_eq!(document.below(1, "", "c").count(), 2);
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
