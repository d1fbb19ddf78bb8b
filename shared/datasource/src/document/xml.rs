//! XML as in Azure's and OVF's files, read with roxmltree. Document types, and with them custom entities, are refused.
//! Messages contain the line and never the content, which may be a password.

use std::ops::Range;

use roxmltree::{Document, Error, Node, ParsingOptions, TextPos};

// Limits that no document of a cloud reaches. roxmltree itself limits only the nodes, after it has reserved memory for each
// `<` and each `=`, and compares each attribute and each namespace of an element with all others.
const MAX_NODES: usize = 20_000;
const MAX_EQUALS_SIGNS: usize = 65_536;
const MAX_EQUALS_SIGNS_IN_TAG: usize = 4096;
const MAX_NAMESPACES: usize = 256;

/// Parses a document.
///
/// # Errors
/// Fails with the problem and its line if the document is not well-formed, has a document type or exceeds a limit.
pub fn parse(text: &str) -> Result<Document<'_>, String> {
    let count = |text: &str, c: char| text.matches(c).count();
    if count(text, '<') > MAX_NODES
        || count(text, '=') > MAX_EQUALS_SIGNS
        || text.split('<').any(|tag| count(tag, '=') > MAX_EQUALS_SIGNS_IN_TAG)
        || text.matches("xmlns").count() > MAX_NAMESPACES
    {
        return Err("too many elements, attributes or namespaces".into());
    }
    let options = ParsingOptions { nodes_limit: MAX_NODES as u32, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|e| match e.pos() {
        // Also the position of what concerns the whole document.
        TextPos { row: 1, col: 1 } => problem(&e).to_string(),
        at => format!("line {}: {}", at.row, problem(&e)),
    })
}

/// Returns the problem, without roxmltree's quotations from the document.
fn problem(error: &Error) -> &'static str {
    match error {
        Error::DtdDetected => "a document type is not accepted",
        Error::NoRootNode => "no element found",
        Error::UnclosedRootNode => "an element is not closed",
        Error::UnexpectedEndOfStream => "truncated XML",
        Error::UnexpectedCloseTag(..) => "the end tag does not match the start tag",
        Error::UnknownNamespace(..) => "undeclared namespace prefix",
        Error::UnknownEntityReference(..) | Error::MalformedEntityReference(_) => "invalid reference",
        Error::DuplicatedAttribute(..) => "duplicate attribute",
        Error::NodesLimitReached => "too many elements, attributes or namespaces",
        _ => "invalid XML",
    }
}

/// Returns whether a node is an element of that name in no namespace.
pub fn is_plain(node: Node<'_, '_>, name: &str) -> bool {
    node.tag_name().namespace().unwrap_or_default().is_empty() && node.has_tag_name(name)
}

/// Returns the text that is directly in an element, not in elements below it.
pub fn direct_text(node: Node<'_, '_>) -> String {
    node.children().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// Returns the trimmed text of the first element at a path below the root, none of them in a namespace.
pub fn plain_text(document: &Document<'_>, path: &[&str]) -> Option<String> {
    let child = |node: Node<'_, '_>, name: &&str| {
        node.children().find(|child| is_plain(*child, name)).map(|n| n.id())
    };
    let found =
        path.iter().try_fold(document.root_element().id(), |at, name| child(document.get_node(at)?, name))?;
    Some(direct_text(document.get_node(found)?).trim().to_string()).filter(|text| !text.is_empty())
}

/// Returns the bytes between an element's tags. (roxmltree's ranges of text end before a CDATA section.)
pub fn content_range(element: Node<'_, '_>) -> Range<usize> {
    let range = element.range();
    let whole = element.document().input_text().get(range.clone()).unwrap_or_default();
    let mut quote = None;
    let start_tag = whole.bytes().take_while(|&byte| {
        match quote {
            None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
            Some(open) if byte == open => quote = None,
            _ => {}
        }
        byte != b'>' || quote.is_some()
    });
    let begin = start_tag.count() + 1;
    let end = whole.rfind("</").unwrap_or_default().max(begin);
    range.start + begin..range.start + end
}

/// Returns a string with markup characters written as references.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each element as `namespace|name=text@content`.
    fn dump(text: &str) -> String {
        let one = |e: Node<'_, '_>| {
            let (namespace, name) = (e.tag_name().namespace().unwrap_or_default(), e.tag_name().name());
            format!("{namespace}|{name}={}@{}", direct_text(e), &text[content_range(e)])
        };
        match parse(text) {
            Ok(document) => {
                document.descendants().filter(Node::is_element).map(one).collect::<Vec<_>>().join(" ; ")
            }
            Err(e) => e,
        }
    }

    #[test]
    fn documents_are_parsed_or_rejected_with_their_line() {
        for (text, expected) in [
            ("<a/>", "|a=@"),
            ("\u{feff}<?xml version='1.0'?><!-- <x> --><a b='1' c = \"/>\"/>", "|a=@"),
            ("<a>x<b>y</b >z</a>\n<!-- end -->\n", "|a=xz@x<b>y</b >z ; |b=y@y"),
            (
                "<a xmlns='u' xmlns:p=\"v\"><p:b/><c xmlns=''/><d/></a>",
                "u|a=@<p:b/><c xmlns=''/><d/> ; v|b=@ ; |c=@ ; u|d=@",
            ),
            ("<a>&lt;&#65;&#x20AC;&amp;</a>", "|a=<A€&@&lt;&#65;&#x20AC;&amp;"),
            ("<a>1\r\n2<![CDATA[<&b>]]>3<!-- c -->4</a>", "|a=1\n2<&b>34@1\r\n2<![CDATA[<&b>]]>3<!-- c -->4"),
            ("<a b='>'>x</a>", "|a=x@x"),
            ("<a><b xmlns:p='v'><p:c/></b><p:d/></a>", "line 1: undeclared namespace prefix"),
            ("<a>\n&b;</a>", "line 2: invalid reference"),
            ("<a>b & c</a>", "line 1: invalid reference"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "a document type is not accepted"),
            ("<a>\n<b>\n</a>", "line 3: the end tag does not match the start tag"),
            ("<a>\n<b>", "an element is not closed"),
            ("", "no element found"),
            ("<a b='1' b='2'/>", "line 1: duplicate attribute"),
            ("<a b='c<d'/>", "line 1: invalid XML"),
            ("x<a/>", "invalid XML"),
        ] {
            assert_eq!(dump(text), expected, "{text}");
        }
    }

    #[test]
    fn elements_attributes_and_namespaces_are_limited() {
        assert_eq!(
            (MAX_NODES, MAX_EQUALS_SIGNS, MAX_EQUALS_SIGNS_IN_TAG, MAX_NAMESPACES),
            (20_000, 65_536, 4096, 256)
        );
        let too_many = "too many elements, attributes or namespaces";
        let attributes = |count| (0..count).map(|i| format!(" a{i}=''")).collect::<String>();
        let namespaces = |count| (0..count).map(|i| format!(" xmlns:a{i}='u'")).collect::<String>();
        for (text, fits) in [
            (format!("<a>{}</a>", "<b/>".repeat(MAX_NODES - 2)), true),
            (format!("<a>{}</a>", "<b/>".repeat(MAX_NODES)), false),
            ("<".repeat(4 << 20), false),
            ("=".repeat(4 << 20), false),
            (format!("<a{}/>", attributes(MAX_EQUALS_SIGNS_IN_TAG)), true),
            (format!("<a{}/>", attributes(MAX_EQUALS_SIGNS_IN_TAG + 1)), false),
            (format!("<a x='>'{}/>", attributes(MAX_EQUALS_SIGNS_IN_TAG)), false),
            (format!("<a{}/>", namespaces(MAX_NAMESPACES)), true),
            (format!("<a{}/>", namespaces(MAX_NAMESPACES + 1)), false),
            (format!("<a>{}</a>", "x=".repeat(MAX_EQUALS_SIGNS / 2)), false),
            // A text node has no `<`, so only roxmltree counts it. The document and `a` are two more nodes.
            (format!("<a>{}</a>", "<b/>x".repeat(MAX_NODES / 2 - 1)), true),
            (format!("<a>{}</a>", "<b/>x".repeat(MAX_NODES / 2)), false),
        ] {
            let outcome = parse(&text).map(drop);
            assert_eq!(outcome != Err(too_many.into()), fits, "{:.60}", text);
        }
        let deep = ["<a>".repeat(MAX_NODES / 2 - 1), "</a>".repeat(MAX_NODES / 2 - 1)].concat();
        assert!(parse(&deep).is_ok());
    }

    #[test]
    fn no_message_quotes_the_document() {
        let text = "<a><p>secret&secret;<secret></secret2><secret:b/>\u{1}</p></a>";
        for bad in scratch::mutations(text.as_bytes(), 5000) {
            if let Err(e) = parse(&String::from_utf8_lossy(&bad)) {
                assert!(!e.contains("ecre"), "{e}");
            }
        }
    }

    #[test]
    fn text_is_found_only_without_a_namespace() {
        let document = parse("<a><b><c> 1 </c><c>2</c></b><d/><e xmlns='u'>3</e></a>").unwrap();
        assert_eq!(plain_text(&document, &["b", "c"]).as_deref(), Some("1"));
        for path in [&["d"][..], &["b", "x"], &["e"]] {
            assert_eq!(plain_text(&document, path), None);
        }
        assert_eq!(escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
