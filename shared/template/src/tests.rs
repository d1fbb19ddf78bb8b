use super::*;

fn variables(yaml: &str) -> Map {
    config::yaml::parse("test", yaml).unwrap().root.as_map().cloned().unwrap()
}

fn names(got: &Rendered) -> String {
    got.undefined.iter().map(|u| u.name.as_str()).collect::<Vec<_>>().join(",")
}

#[test]
fn header_selects_the_template_engine() {
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
    assert_eq!(bad.to_string(), "template line 1: unknown template type (expected jinja or basic)");
}

#[test]
fn basic_template_is_substituted_and_undefined_names_are_kept() {
    let values = "{uptime: '2.50', a: {b: c}, l: [x, y]}";
    for (text, out, unknown) in [
        ("plain", "plain", ""),
        ("up $uptime, ${uptime}s", "up 2.50, 2.50s", ""),
        ("$a.b ${a.b}", "c c", ""),
        ("$l", "['x', 'y']", ""),
        ("costs 5$, ${ }, $other$ $other", "costs 5$, ${ }, $other$ $other", "other"),
        ("${uptime", "${uptime", ""),
        ("$a.x", "$a.x", "a.x"),
        ("${a ${uptime}", "${a 2.50", ""),
    ] {
        let got = render(text, &variables(values)).unwrap();
        assert_eq!((&*got.text, &*names(&got)), (out, unknown), "{text}");
    }
}

#[test]
fn undefined_variables_are_rendered_and_listed() {
    let got = render("## template: jinja\n{{a}} {{a}}\n{{b.c}}\n", &variables("{b: {}}")).unwrap();
    assert_eq!(got.text, "CI_MISSING_JINJA_VAR/a CI_MISSING_JINJA_VAR/a\nCI_MISSING_JINJA_VAR/c\n");
    assert_eq!(got.undefined_names().as_deref(), Some("'a' (line 2), 'c' (line 3)"));
    let got =
        render("## template: jinja\n{{ v1.regoin }}{{ zzz }}\n", &variables("{v1: {region: a}}")).unwrap();
    assert_eq!(
        got.undefined_names().as_deref(),
        Some("'regoin' (line 2; did you mean 'region'?), 'zzz' (line 2)")
    );
    // Names in metadata may be secret.
    let secret = variables("{ds: {meta_data: {api_token_hunter2: a}}, 'a b': c}");
    let got = render("## template: jinja\n{{ ds.meta_data.api_token_hunter3 }}{{ a_b }}\n", &secret).unwrap();
    assert!(got.undefined.iter().all(|variable| variable.near.is_none()), "{:?}", got.undefined);
    // Long names are shortened, by characters.
    let long = "é".repeat(99);
    let got = render(&format!("## template: jinja\n{{{{a{long}}}}}"), &Map::new()).unwrap();
    assert_eq!(names(&got), format!("a{}", &long[..126]));
}

#[test]
fn errors_have_lines() {
    let deep = "{% if x %}".repeat(60);
    for (body, wanted) in [
        ("a\n{{ x", "line 3: unclosed '{{'"),
        ("{% if x", "line 2: unclosed '{%'"),
        ("{# x", "line 2: unclosed '{#'"),
        ("{% if x %}\n", "line 2: 'if' without 'endif'"),
        ("\n{% for x in y %}{% endif %}", "line 3: 'endif' without 'if'"),
        ("{% endfor %}", "line 2: 'endfor' without 'for'"),
        ("{% if x %}{% else %}{% else %}{% endif %}", "line 2: 'else' without an 'if' or 'for'"),
        ("{% for x y %}{% endfor %}", "line 2: expected 'in', found 'y'"),
        ("a\n{% for i in n %}{% endfor %}", "line 3: 'for': an integer is not iterable"),
        ("{% for a, b in nums %}{% endfor %}", "line 2: expected 2 values to unpack, got 1"),
        ("{{ }}", "line 2: expected an expression, found '}}'"),
        ("{{ x x }}", "line 2: expected '}}', found 'x'"),
        ("{{ l|join(1, 2, 3) }}", "line 2: expected at most 2 arguments, got 3"),
        ("{{ l|dictsort }}", "line 2: 'dictsort' of a list"),
        ("{{ 1 + 'a' }}", "line 2: '+' of an integer and a string"),
        ("{{ q + 'a' }}", "line 2: 'q' is undefined"),
        ("\n\n{{ q.r }}", "line 4: 'q' is undefined"),
        ("{{ q-r }}", "line 2: 'q-r' subtracts from an undefined variable; did you mean 'q_r'?"),
        ("{{ (1, }}", "line 2: unmatched '}'"),
        ("{{ 99999999999999999999 * 99999999999999999999 }}", "line 2: a number that is too large"),
        (&deep, "line 2: nested deeper than 40 levels"),
        (&format!("{{{{ {}x }}}}", "not ".repeat(9999)), "line 2: nested deeper than 40 levels"),
        (
            &format!("{{{{ {} }}}}", "(".repeat(9999) + "x" + &")".repeat(9999)),
            "line 2: nested deeper than 40 levels",
        ),
        (&format!("{{{{ x{} }}}}", "+ 1".repeat(9999)), "line 2: too many operators in an expression"),
        (&format!("{{{{ x{} }}}}", "|string".repeat(9999)), "line 2: too many operators in an expression"),
        (&format!("{{{{ x{} }}}}", " if x".repeat(99_999)), "line 2: too many operators in an expression"),
        (&format!("{{{{ 'a'|map({}) }}}}", "'map',".repeat(5000)), "line 2: nested deeper than 120 levels"),
    ] {
        let text = format!("## template: jinja\n{body}");
        let got = render(&text, &variables("{x: 1, n: 3, l: [x], nums: [[1]]}"));
        let shown = &body[..body.len().min(60)];
        let message = got.unwrap_err().to_string();
        // The content of the tag is covered by another test.
        let message = message.split(", in {").next().unwrap_or_default();
        assert_eq!(message, format!("template {wanted}"), "{shown}");
    }
}

/// Trimmed tags and loops change the number of lines.
#[test]
fn lines_of_the_result_are_those_of_the_template() {
    for (body, lines) in [
        ("a\nb\n", &[2, 3][..]),
        ("a\n{% if 1 %}\nb\n{% endif %}\nc\n", &[2, 4, 6]),
        ("{# c\nc #}\na\n", &[4]),
        ("{% for i in [1, 2] %}\n- {{ i }}\n{% endfor %}\nb\n", &[3, 3, 5]),
        ("a {{ 'x\\ny' }}\nb", &[2, 2, 3]),
        ("{% set x %}\n1\n2\n{% endset %}\na\n{{ x }}\nb\n", &[6, 7, 7, 7, 8]),
        ("a\n{%- if 1 %}b\n{%- endif %}\n\nc", &[2, 6]),
    ] {
        let rendered = render(&format!("## template: jinja\n{body}"), &Map::new()).unwrap();
        assert_eq!(rendered.lines, lines, "{body}: {:?}", rendered.text);
    }
}

/// Jinja's constructs without a use in configuration: the error names them and lists what can be used instead.
#[test]
fn unsupported_constructs_are_named() {
    for (body, wanted) in [
        (
            "{% macro m() %}{% endmacro %}",
            "the tag 'macro' is not supported (supported: do, for, if, raw, set)",
        ),
        ("{% include 'x' %}", "the tag 'include' is not supported (supported: do, for"),
        ("{% filter upper %}x{% endfilter %}", "the tag 'filter' is not supported (supported: do, for"),
        (
            "{{ x|wordwrap(5) }}",
            "the filter 'wordwrap' is not supported (supported: default, dictsort, first, float",
        ),
        (
            "{{ x is escaped }}",
            "the test 'escaped' is not supported (supported: boolean, defined, divisibleby",
        ),
        ("{{ t.encode() }}", "the method of strings 'encode' is not supported (supported: endswith, isdigit"),
        (
            "{{ '{}'.format(x) }}",
            "the method of strings 'format' is not supported (supported: endswith, isdigit",
        ),
        ("{{ l|sum }}", "the filter 'sum' is not supported (supported: default, dictsort"),
        ("{{ x|round }}", "the filter 'round' is not supported"),
        ("{{ t|title }}", "the filter 'title' is not supported"),
        ("{% block a %}{% endblock %}", "the tag 'block' is not supported"),
        ("{{ l.pop() }}", "the method of lists 'pop' is not supported (supported: append, extend)"),
        ("{{ m.pop('k') }}", "the method of maps 'pop' is not supported (supported: get, items"),
        ("{{ lipsum() }}", "the function 'lipsum' is not supported (supported: namespace, range)"),
        ("{{ x.bit_length() }}", "'bit_length()' of an integer"),
        ("{{ q.upper() }}", "'q' is undefined"),
        ("{{ l[0]() }}", "only functions and methods can be called"),
        ("{{ range(*l) }}", "'*' before an argument is not supported"),
        ("{{ '%e' % 1 }}", "the format 'e' is not supported (supported: X, d, f, i, s, x)"),
        ("{{ '%d' % 'a' }}", "the format 'd' requires a number, found a string"),
        ("{{ 'a b c'.split(none, 1) }}", "'split' with a limit needs a separator"),
        ("{% for i in l recursive %}{% endfor %}", "a recursive 'for' is not supported"),
        ("{% set a|upper %}{% endset %}", "filters of a 'set' block are not supported"),
    ] {
        let text = format!("## template: jinja\n{body}");
        let got = render(&text, &variables("{x: 1, t: text, l: [x], m: {k: v}}")).unwrap_err();
        assert!(got.line == 2 && got.message.starts_with(wanted), "{body}: {}", got.message);
    }
}

#[test]
fn results_that_differ_from_jinja2() {
    const DIGITS: &str = "99999999999999999999999999999999999999";
    for (body, out) in [
        ("{{ m.keys }}", "v"),
        ("{{ '<'|safe|string }}", "<"),
        ("{{ [1, 2]|map('string') }}", "['1', '2']"),
        ("{{ [1, 2]|select('odd') }}", "[1]"),
        (&format!("{{{{ {DIGITS} }}}}"), DIGITS),
    ] {
        let text = format!("## template: jinja\n{body}");
        assert_eq!(render(&text, &variables("{m: {keys: v}}")).unwrap().text, out, "{body}");
    }
}

#[test]
fn random_items_are_of_the_list() {
    for (body, possible) in [("{{ range(1, 4) | random }}", "123"), ("{{ 'ab' | random }}", "ab")] {
        for _ in 0..20 {
            let text = render(&format!("## template: jinja\n{body}"), &variables("{}")).unwrap().text;
            assert!(text.len() == 1 && possible.contains(&text), "{body}: {text}");
        }
    }
    let text = render("## template: jinja\n{{ [] | random | default('none', true) }}", &variables("{}"));
    assert_eq!(text.unwrap().text, "none");
}

/// Templates that would exhaust memory or time end early, with a message.
#[test]
fn resource_limits() {
    for body in [
        "{{ 'x' * 999999999999 }}",
        "{{ '%999999999999d' % 1 }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ 'a\nb'|indent(999999999999) }}",
        "{{ range(999999999999) }}",
        "{{ [1, [2]]|tojson(999999999999) }}",
        "{{ range(99999)|list|join('x' * 99999) }}",
        "{% set m = {} %}{% for i in range(99999) %}{% do m.update(a=m) %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}",
        "{% set l = [] %}{% for i in range(99999) %}{% do l.append(l) %}{% endfor %}",
        "{% set l = [] %}{% for i in range(99999) %}{% set k = [l] %}{% do l.append(k) %}{% endfor %}{{ l }}",
        "{% set l = ['x' * 999999] %}{% set l = l + l + l + l %}{% for i in range(99) %}{{ (l + l + l)|join }}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ range(99999)|join|replace('1', 'xxxxxxxxxxxxxxx') }}{% endfor %}",
        &(0..16_000).map(|i| format!("{{% set f{i} = 1 %}}")).collect::<String>(),
    ] {
        let text = format!("## template: jinja\n{body}");
        let bad = render(&text, &Map::new()).map(|r| r.text.len()).unwrap_err();
        assert!(bad.line == 2 && bad.message.len() < 200, "{body}: {bad}");
    }
    for (body, message) in [
        ("{% set a = 'x' * (49 * 1048576) %}", "memory limit of 48 MiB exceeded"),
        ("{% set a = 'x' * 9000000 %}{{ a }}{{ a }}", "output limit of 16 MiB exceeded"),
    ] {
        let bad = render(&format!("## template: jinja\n{body}"), &Map::new()).unwrap_err();
        assert!(bad.message.starts_with(message), "{body}: {bad}");
    }
    assert_eq!((MAX_STEPS, value::MAX_VALUES), (20_000_000, 1_000_000));
}

#[test]
fn variables_have_jinja_aliases() {
    let data = "{v1: {local-hostname: h, cloud_name: c}, v2: {cloud_name: d}, vx: {q: 1}, ds: {v1.0: {a/b+c: 1}}, cloud_name: old}";
    let data = config::yaml::parse("test", data).unwrap().root;
    let text = "## template: jinja\n{{local_hostname}} {{v1.local_hostname}} {{v1['local-hostname']}} {{cloud_name}} \
                {{v1.cloud_name}} {{ds.v1_0.a_b_c}} {{ds['v1.0']['a/b+c']}} {{q}}";
    let got = render(text, &super::variables(&data)).unwrap();
    assert_eq!(got.text, "h h h d c 1 1 CI_MISSING_JINJA_VAR/q");
}

#[test]
fn later_versions_override_earlier_ones_at_every_depth() {
    let data = "{v1: {a: 1, v2: {z: 9}, ds: v1ds}, ds: {v1: {q: 2}, q: 7, v: 1, l: [{v1: {m: 1}, b: 1, a: 2}]}, a: top, \
                v2: {a: 2}, v10: {b: 10}, v1x: {n: 1}, w: {v3: {x-y: 5}, x_y: 6}, b: c}";
    let data = config::yaml::parse("test", data).unwrap().root;
    let text = "## template: jinja\n{{a}} {{z}} {{v1}} {{ds}} {{b}} {{n is defined}} {{w}}";
    assert_eq!(
        render(text, &super::variables(&data)).unwrap().text,
        "2 9 {'a': 1, 'ds': 'v1ds', 'v2': {'z': 9}, 'z': 9} v1ds 10 False \
         {'v3': {'x-y': 5, 'x_y': 5}, 'x-y': 5, 'x_y': 6}"
    );
    let shown = super::standardized(&data);
    let shown = shown.iter().map(|(key, _)| key.as_str().unwrap()).collect::<Vec<_>>().join(" ");
    assert_eq!(shown, "a b ds v1 v2 z v10 v1x w");
}

#[test]
fn aliases_and_base64_decoding() {
    for (name, alias) in [
        ("a-b.c", Some("a_b_c")),
        ("a//b", Some("a_b")),
        ("a///b", Some("a__b")),
        ("e**f", Some("e_f")),
        ("i>=j", Some("i_j")),
        ("c!d", None),
        ("c!=d", Some("c_d")),
        ("g h", None),
        ("é:", Some("é_")),
    ] {
        assert_eq!(super::alias(name).as_deref(), alias, "{name}");
    }
    let data = "{base64-encoded-keys: [ds/s_t, ds/nope, q-r, odd], ds: {s_t: aGVsbG8=, nope: '!'}, q_r: cQ==, odd: b2Rk}";
    let data = config::yaml::parse("test", data).unwrap().root;
    let text = "## template: jinja\n{{ds.s_t}} {{ds.nope}} {{q_r}} {{odd}}";
    assert_eq!(render(text, &super::variables(&data)).unwrap().text, "hello ! q odd");
    assert_eq!(super::standardized(&data).get("odd").unwrap().as_str(), Some("b2Rk"));
}

#[test]
fn errors_show_the_tag_without_its_strings() {
    for (text, message) in [
        ("a\npassword: hunter2 {{ 1 + }} x", "expected an expression, found '}}', in {{ 1 + }}"),
        (
            "{% if x %}{{ 'hunter2'|nope(\"hunter2\") }}",
            "'if' without 'endif', in {% if x %}{{ '…'|nope(\"…\") }}",
        ),
        ("{{ 'hunter2'.nope }}{{ +1 }}", "expected an expression, found '+', in {{ '…'.nope }}{{ +1 }}"),
        ("{{ 1 +\n 'hunter2' }}", "'+' of an integer and a string, in {{ 1 +"),
        ("{{ \"hunter2", "unterminated string or invalid escape, in {{ \"…"),
    ] {
        let bad = crate::render(&format!("## template: jinja\n{text}"), &Map::new()).unwrap_err();
        assert_eq!(bad.message, message, "{text}");
    }
    let long = format!("## template: jinja\n{{{{ {} nope nope }}}}", "é + ".repeat(60));
    assert!(crate::render(&long, &Map::new()).unwrap_err().message.chars().count() < 200);
}

#[test]
fn settings_are_rendered_with_instance_data_if_available() {
    let top = scratch::TempDir::new();
    let sys = System::new(&top);
    let of = |text: &str| render_settings(&sys, "/run/data", "/etc/a.cfg", text).map(|(text, _)| text);
    let template = "## template: jinja\na: {{ v1.region }}\n";
    assert_eq!(of(template), None);
    assert!(sys.log().logged_warnings().is_empty());
    let put = |text: &str| sys.write("/run/data", text, system::WriteOptions::secret()).map(drop).unwrap();
    put(r#"{"v1": {"region": "north"}}"#);
    for (text, wanted) in [
        (template, Some("a: north\n")),
        ("##template: JINJA\nb: {{ region }}", Some("b: north")),
        ("## template: jinja\nc: {{ nope }}\n", Some("c: CI_MISSING_JINJA_VAR/nope\n")),
        ("## template: jinja\nd: {% if %}\n", None),
        ("a: {{ v1.region }}\n", None),
        ("## template: mako\n", None),
    ] {
        assert_eq!(of(text).as_deref(), wanted, "{text}");
        of(text);
    }
    put("{");
    assert_eq!(of(template), None);
    let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
    assert_eq!(logged.len(), 3, "{logged:?}");
    assert_eq!(logged[0], "Could not render jinja template variables in file '/etc/a.cfg': 'nope' (line 2)");
    assert!(
        logged[1].starts_with("Failed to render templated yaml config file '/etc/a.cfg'. template line 2")
    );
    assert!(logged[2].starts_with("Could not apply Jinja template '/run/data' to '/etc/a.cfg': "));
}

/// Returns the steps that a template takes.
fn steps(body: &str, values: &Map) -> u64 {
    let body = parser::parse(lexer::tokenize(body, 2).unwrap()).unwrap();
    let mut run = eval::Interpreter::new(values, MAX_STEPS);
    let before = run.fuel;
    run.run(&body).unwrap();
    before - run.fuel
}

#[test]
fn an_index_into_other_text_than_ascii_costs_its_length() {
    let text = variables(&format!("t: {}", "é".repeat(1000)));
    assert!(steps("{{ t[-1] }}", &text) > 2000);
}

/// Operations on a string, a list, a map or a number of names cost at least one step for 128 bytes, four items or 64 pairs.
#[test]
fn work_costs_steps() {
    let values = |n: usize| {
        let map: Vec<String> = (0..n / 32).map(|i| format!("k{i}: 0")).collect();
        variables(&format!(
            "{{t: {}, l: [{}], m: {{{}}}}}",
            "a".repeat(n),
            "1,".repeat(n / 32),
            map.join(", ")
        ))
    };
    let n = 1 << 12;
    let (small, large) = (values(n), values(2 * n));
    let fewer = |body: &str, least: usize| {
        let more = steps(body, &large) - steps(body, &small);
        (more < least as u64).then(|| format!("{body}: {more} of {least}"))
    };
    let mut wrong = Vec::new();
    for of_text in [
        "t|int",
        "t|float",
        "t|length",
        "t|lower",
        "t|upper",
        "t|trim",
        "t|indent",
        "t|tojson",
        "t|string",
        "t|list",
        "t|reverse",
        "t|replace('b', '')",
        "t|default('')",
        "t|first",
        "t|format",
        "t|join",
        "t|sort",
        "t == t",
        "t < t",
        "t is eq t",
        "'b' in t",
        "t is in t",
        "t is in m",
        "t ~ ''",
        "t + ''",
        "t * 2",
        "'%s' % t",
        "t.split('b')",
        "t.splitlines()",
        "t.isdigit()",
        "t.strip()",
        "t.lower()",
        "t.startswith(t)",
        "t.replace('b', '')",
        "t[0]",
        "t[1:]",
        "m[t]",
        "m.get(t)",
        "{t: 1}",
        "{'a': 1}.update({t: 1})",
        "[t].append(t)",
        "namespace(a=t)",
    ] {
        wrong.extend(fewer(&format!("{{% set x = {of_text} %}}"), n / 128));
    }
    for of_list in [
        "l|list",
        "l|first",
        "l|last",
        "l|length",
        "l|reverse",
        "l|sort",
        "l|join",
        "l|map('string')",
        "l|select",
        "l|reject('odd')",
        "l + l",
        "l == l",
        "2 in l",
        "l[::2]",
        "''.join(l|map('string'))",
        "[].extend(l)",
        "m|dictsort",
        "m|items",
        "m|tojson",
        "m.items()",
        "m.keys()",
        "m.values()",
        "m.a",
        "m['a']",
        "m.get('a')",
        "'%(k1)s' % m",
        "'a' in m",
        "namespace(l=l)",
        "namespace(m)",
        "range(l|length)",
        "[l]|map(attribute='0')|list",
    ] {
        wrong.extend(fewer(&format!("{{% set x = {of_list} %}}"), n / 32 / 4));
    }
    let pairs = |n: usize| (n / 32) * (n / 32) / 64;
    let (of_pairs, more) = (["m == m", "m in [m]", "[[m]]|sort", "namespace(m)"], pairs(2 * n) - pairs(n));
    wrong.extend(of_pairs.iter().filter_map(|body| fewer(&format!("{{% set x = {body} %}}"), more)));
    wrong.extend(fewer("{% set x = t.strip(t) %}", n * n / 64));
    let assignments = |n| (0..n).map(|i| format!("{{% set x{i} = 1 %}}")).collect::<String>();
    assert!(steps(&assignments(2000), &small) > 3 * steps(&assignments(1000), &small));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
