//! Random and extreme strings: the parser never panics, and a value that is written and read again is the same.

use config::yaml::{self, Style};
use config::{Node, Value};

/// A random sequence that is the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "a", "b c", "key", ": ", ":", "- ", "-", "? ", "\n", "\n  ", "\n    ", " ", "  ", "[", "]", "{", "}", ", ", ",",
    "'", "\"", "# x", " #", "|\n", ">-\n", "|+\n", "&a ", "*a", "*a ", "<<: ", "!!str ", "!!binary ", "!!set ",
    "!!omap ", "!x ", "! ", "~", "yes", "1", "0x1F", "1:30", "1.5", "2024-01-02", "=", "---\n", "--- ", "...\n",
    "%YAML 1.1\n", "\t", "\r\n", "é", "\u{85}", "\u{2028}", "\u{FEFF}", "😀", "\\", "\\n", "\u{0}", "@", "`", "%",
    "very long words that go on and on and on and on and on",
];

/// Returns all values of a node, in order, with their positions.
fn places(node: &Node) -> Vec<String> {
    let mut all = vec![format!("{:?} {} {}", node.at, node.kind(), node.scalar_text().unwrap_or_default())];
    match &node.value {
        Value::Seq(items) => all.extend(items.iter().flat_map(places)),
        Value::Map(map) | Value::Set(map) => {
            all.extend(map.iter().flat_map(|(key, value)| [places(key), places(value)].concat()))
        }
        _ => {}
    }
    all
}

fn text(random: &mut Random) -> String {
    (0..random.below(30)).map(|_| PIECES[random.below(PIECES.len())]).collect()
}

#[test]
fn random_documents_round_trip() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut good = 0;
    for _ in 0..30_000 {
        let text = text(&mut random);
        let Ok(parsed) = yaml::parse("random", &text) else { continue };
        good += 1;
        for style in [Style::DOCUMENT, Style::PLAIN, Style { indent: 2, markers: false, sorted: false }] {
            let written = yaml::emit(&parsed.root, style);
            let again = yaml::parse("written", &written).map(|p| p.root);
            assert!(again.as_ref().is_ok_and(|a| *a == parsed.root), "{text:?}\n{written}\n{again:?}");
            let head = "# x\n\n";
            let (whole, read) = yaml::emit_with_positions("written", head, &parsed.root, style);
            assert_eq!(whole, format!("{head}{written}"));
            let again = yaml::parse("written", &whole).unwrap().root;
            assert_eq!(read.map(|read| places(&read)), Some(places(&again)), "{whole}");
        }
    }
    assert!(good > 3_000, "only {good} texts were YAML");
}

/// Where the indentation alone is wider than a line, each blank could end one.
#[test]
fn deeply_indented_text_round_trips() {
    let mut random = Random(7);
    for depth in [38, 40, 42, 60] {
        for _ in 0..500 {
            let value: String = (0..12).map(|_| ['é', ' ', '\\', 'x', '\n', '"'][random.below(6)]).collect();
            let root = (0..depth).fold(config::Node::from(value.as_str()), |node, _| vec![node].into());
            for style in [Style::DOCUMENT, Style::PLAIN] {
                let written = yaml::emit(&root, style);
                let again = yaml::parse("written", &written).map(|p| p.root);
                assert!(again.is_ok_and(|again| again == root), "{value:?}\n{written}");
            }
        }
    }
}

#[test]
fn random_bytes_do_not_panic() {
    let mut random = Random(42);
    for _ in 0..10_000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        let _ = yaml::parse_bytes("random", &bytes);
        let mut mixed = text(&mut random).into_bytes();
        let at = random.below(mixed.len() + 1);
        mixed.splice(at..at, bytes.into_iter().take(3));
        let _ = yaml::parse_bytes("random", &mixed);
    }
}

#[test]
fn documents_over_the_size_limits_are_rejected() {
    let values = yaml::parse("values", &",x".repeat(yaml::MAX_NODES).replacen(',', "[", 1)).unwrap_err();
    assert_eq!(values.to_string(), "values:1:4000000: more than 2000000 values");
    let bytes = yaml::parse("bytes", &" ".repeat(yaml::MAX_BYTES + 1)).unwrap_err();
    assert_eq!(bytes.to_string(), "bytes: larger than 32 MiB");
}

/// Lists and maps, in brackets, by indentation and through aliases.
#[test]
fn documents_over_the_depth_limit_are_rejected() {
    let aliases = |depth: usize| {
        let step = |i: usize| format!("- &a{i} [*a{}]\n", i - 1);
        format!("- &a0 x\n{}", (1..depth).map(step).collect::<String>())
    };
    let cases: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("[", &|depth| format!("{}x{}", "[".repeat(depth), "]".repeat(depth))),
        ("{", &|depth| format!("{}x{}", "{a: ".repeat(depth), "}".repeat(depth))),
        ("- ", &|depth| format!("{}x", "- ".repeat(depth))),
        ("a:", &|depth| (0..depth).map(|i| format!("{}a:\n", " ".repeat(i))).collect()),
        ("*a", &aliases),
    ];
    for (name, document) in cases {
        assert!(yaml::parse(name, &document(yaml::MAX_DEPTH)).is_ok(), "{name}");
        let error = yaml::parse(name, &document(yaml::MAX_DEPTH + 1)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}:")), "{error}");
        assert!(error.ends_with(": nested more than 100 levels deep"), "{error}");
    }
}
