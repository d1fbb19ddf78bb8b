use super::*;

fn variables(yaml: &str) -> Map {
    crate::testing::yaml(yaml).as_map().cloned().unwrap()
}

/// A template's body below a Jinja header.
fn jinja_text(body: &str, values: &str) -> String {
    render(&format!("## template: jinja\n{body}"), &variables(values)).unwrap().text
}

#[test]
fn headers() {
    let values = variables("{x: 1}");
    for (text, out) in [
        ("{{x}} $x", "{{x}} 1"),
        ("## template: jinja\n{{x}} $x", "1 $x"),
        ("##TEMPLATE:Jinja \n{{x}}\n", "1\n"),
        ("## template:basic\n{{x}} $x\n", "{{x}} 1\n"),
        ("## template: jinja\r\n{% if x %}\r\n{{x}}\r\n{% endif %}\r\n", "1\n\n"),
        ("## template: jinja", ""),
        ("# template: jinja\n{{x}}", "# template: jinja\n{{x}}"),
    ] {
        assert_eq!(render(text, &values).unwrap().text, out, "{text}");
    }
    let bad = render("## template: cheetah\n", &values).unwrap_err();
    assert_eq!(bad.to_string(), "template line 1: its header names neither jinja nor basic");
}

#[test]
fn dollar_names() {
    let values = "{uptime: '2.50', a: {b: c}, l: [x, y]}";
    for (text, out, unknown) in [
        ("plain", "plain", ""),
        ("up $uptime, ${uptime}s", "up 2.50, 2.50s", ""),
        ("$a.b ${a.b}", "c c", ""),
        ("$l", "['x', 'y']", ""),
        ("costs 5$, ${ }, $other$ $other", "costs 5$, ${ }, $other$ $other", "other"),
        ("${uptime", "${uptime", ""),
        ("$a.x", "$a.x", "a.x"),
    ] {
        let got = render(text, &variables(values)).unwrap();
        assert_eq!((&*got.text, &*got.unknown.join(",")), (out, unknown), "{text}");
    }
}

/// Each was given to Jinja 3.1 with trim_blocks on.
#[test]
fn blanks_and_newlines() {
    for (body, out) in [
        ("a\n{% if x %}\nb\n{% endif %}\nc\n", "a\nb\nc\n"),
        ("a\n{% if not x %}\nb\n{% endif %}\n\nc\n", "a\n\nc\n"),
        ("a\n {%- if x -%}\n  b\n{% endif %}c", "ab\nc"),
        ("a {{- x -}} \n b", "a1b"),
        ("a{# no #}\nb{#- no -#}\n c", "abc"),
        ("{% if x +%}\nb{% endif %}\n", "\nb\n"),
        ("{% if x %}b{% endif %}\n", "b\n"),
        ("{% for i in l -%}\n  {{i}},\n{% endfor %}\n{%- if x %}# x\n{% endif %}\n", "a,\nb,\n# x\n\n"),
        ("{{ '}}' }}{{ \"%}\" }}", "}}%}"),
        ("one { two } $x %}\n", "one { two } $x %}\n"),
        ("\n\n", "\n\n"),
    ] {
        assert_eq!(jinja_text(body, "{x: 1, l: [a, b]}"), out, "{body:?}");
    }
}

#[test]
fn expressions() {
    let values = "{t: text, e: '', n: 3, l: [b, A], o: [], m: {z: 1, y: two}, on_: true, no_: null}";
    for (body, out) in [
        ("{{ t }}{{n}}{{on_}}{{no_}}", "text3TrueNone"),
        ("{{ m.y }} {{ m }}", "two {'z': 1, 'y': 'two'}"),
        ("{% for k, v in m.items()|sort %}{{k}}={{v};{% endfor %}", "!"),
        ("{% for k, v in m.items()|sort %}{{k}}={{v}};{% endfor %}", "y=two;z=1;"),
        ("{% for k, v in m|dictsort %}{{k}}={{v}};{% endfor %}", "y=two;z=1;"),
        ("{% for h in l|list + o|list + ['c'] %}{{h}} {% endfor %}", "b A c "),
        ("{% for h in l|sort %}{{h}}{% endfor %}", "Ab"),
        ("{% for h in o %}x{% else %}none{% endfor %}", "none"),
        ("{% for h in absent %}x{% endfor %}", ""),
        ("{% if e %}1{% elif o %}2{% elif n %}3{% else %}4{% endif %}", "3"),
        ("{% if e or l %}a{% endif %}{% if t and not e %}b{% endif %}", "ab"),
        ("{% if t in ('x', 'text') %}a{% endif %}{% if t not in ('x',) %}b{% endif %}", "ab"),
        ("{% if t == 'text' and n != 4 %}a{% endif %}", "a"),
        ("{% if q is defined %}a{% endif %}{% if q is not defined and t is defined %}b{% endif %}", "b"),
        ("{{ e|default('d', true) }}{{ e|default('d') }}{{ t|default(q, true) }}", "dtext"),
        ("{{ q|default(r)|default('d') }}{{ q|default(r) }}", "dCI_MISSING_JINJA_VAR/r"),
        ("{{ q | default('d') }}{{ l|join(', ') }}{{ t|upper }}{{ 'X'|lower }}", "db, ATEXTx"),
    ] {
        let got = render(&format!("## template: jinja\n{body}"), &variables(values));
        assert_eq!(got.map_or("!".to_string(), |r| r.text), out, "{body}");
    }
}

#[test]
fn unknown_names_are_shown_and_told() {
    let got = render("## template: jinja\n{{a}} {{a}} {{b.c}}\n", &Map::new()).unwrap();
    assert_eq!(got.text, "CI_MISSING_JINJA_VAR/a CI_MISSING_JINJA_VAR/a CI_MISSING_JINJA_VAR/b.c\n");
    assert_eq!(got.unknown, ["a", "b.c"]);
}

#[test]
fn what_is_not_understood_says_where() {
    let deep = "{% if x %}".repeat(60);
    for (body, wanted) in [
        ("a\n{{ x", "line 3: '{{' is not closed"),
        ("{% if x", "line 2: '{%' is not closed"),
        ("{# x", "line 2: '{#' is not closed"),
        ("{% if x %}\n", "line 2: 'if' without 'endif'"),
        ("\n{% for x in y %}{% endif %}", "line 3: 'endif' within the 'for' of line 3"),
        ("{% endfor %}", "line 2: 'endfor' without a block that it belongs to"),
        ("{% if x %}{% else %}{% else %}{% endif %}", "line 2: 'else' within the 'if' of line 2"),
        ("{% macro x() %}", "line 2: 'macro' is not supported; if and for are"),
        ("{% for x y %}{% endfor %}", "line 2: expected 'for NAME in LIST'"),
        ("{% for i in n %}{% endfor %}", "line 2: 'for' over what is no list"),
        ("{% for a, b in l %}{% endfor %}", "line 2: 'for' with more names than values"),
        ("{{ x * 2 }}", "line 2: '*' is not supported in an expression"),
        ("{{ }}", "line 2: expected an expression"),
        ("{{ x x }}", "line 2: 'x' is not expected here"),
        ("{{ x|shell }}", "line 2: the filter 'shell' is not supported"),
        ("{{ x|join(1, 2) }}", "line 2: the filter 'join' has other arguments"),
        ("{{ l|join(r) }}", "line 2: 'r' has no value"),
        ("{{ l|dictsort }}", "line 2: 'dictsort' of what is no map"),
        ("{{ x.pop() }}", "line 2: the method 'pop' is not supported"),
        ("{{ x is odd }}", "line 2: of the tests only 'is defined' is supported"),
        ("{{ 1 + 'a' }}", "line 2: '+' of values that cannot be added"),
        ("{{ q + 'a' }}", "line 2: 'q' has no value"),
        ("{{ (1, }}", "line 2: expected an expression"),
        (&deep, "line 2: blocks within too many blocks"),
        (&format!("{{{{ {}x }}}}", "not ".repeat(9999)), "line 2: the expression is too deep"),
        (&format!("{{{{ {}x }}}}", "(".repeat(9999)), "line 2: the expression is too deep"),
    ] {
        let text = format!("## template: jinja\n{body}");
        let got = render(&text, &variables("{x: 1, n: 3, l: [x]}"));
        let shown = &body[..body.len().min(60)];
        assert_eq!(got.unwrap_err().to_string(), format!("template {wanted}"), "{shown}");
    }
}

/// Compares with what another renderer made of the same: `NAME.tmpl`, `NAME.yaml` (the values) and
/// `NAME.expected` in the folder that TEMPLATE_CASES names.
#[test]
#[ignore = "needs a folder of cases, which distributions' packages make"]
fn cases_of_a_folder() {
    let folder = std::env::var("TEMPLATE_CASES").unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tmpl") {
            let read = |e: &str| {
                std::fs::read_to_string(path.to_string_lossy().trim_end_matches("tmpl").to_string() + e)
                    .unwrap()
            };
            let got = render(&read("tmpl"), &variables(&read("yaml"))).map(|r| r.text);
            assert_eq!(got, Ok(read("expected")), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}
