//! Templates and instance data that would take much memory end with an error before they do.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use config::Map;

/// Returns the most memory that this process has had, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

#[test]
fn memory_is_charged_before_it_is_allocated() {
    let deep = format!("{{% set v = {}1{} %}}", "[".repeat(30), "]".repeat(30));
    for body in [
        "{{ ('a' * 12000000).split('a')|length }}",
        "{{ ('a ' * 6000000).split()|length }}",
        "{{ ('\n' * 12000000).splitlines()|length }}",
        "{{ [1]|map(attribute='.' * 9000000)|list }}",
        "{% set l = range(99999)|list %}{{ [l, l, l]|tojson(1000) }}",
        &format!(
            "{deep}{{% set l = range(9999)|map('string')|list %}}{{{{ [v, v, v, v, v, v, v, v, [[[l]]]]|tojson(1000) }}}}"
        ),
        "{% set a = '\x01' * 9000000 %}{{ [a] }}",
        "{% set a = '<' * 7000000 %}{{ [a, a]|tojson }}",
        "{% set a = 'a' * 40000000 %}{{ '%s%s%s%s' % (a, a, a, a) }}",
        "{% set a = 'a' * 15000000 %}{{ [1, 2, 3, 4, 5, 6, 7, 8, 9]|join(a) }}",
        "{% set a = 'a' * 40000000 %}{{ a ~ a }}",
        "{% set a = 'a' * 40000000 %}{{ a + a }}",
        &("{% set a = 'a' * 16000000 %}".to_string()
            + &"{% set b %}{{ a }}".repeat(35)
            + &"{% endset %}".repeat(35)),
    ] {
        let got = template::render(&format!("## template: jinja\n{body}"), &Map::new());
        let text = got.map(|got| got.text.len()).unwrap_err().message;
        assert!(text.contains("exceeded") || text.contains("too large"), "{body:.60}: {text}");
        assert!(peak() < 160, "{body:.60}: {} MiB", peak());
    }
}

/// Each key with a `-` has an alias, so that the values double with each level.
#[test]
fn aliases_of_aliases() {
    let instance = format!("{}1{}", "{a-b: ".repeat(30), "}".repeat(30));
    let variables = template::variables(&config::yaml::parse("instance", &instance).unwrap().root);
    for text in ["## template: jinja\n{{ a_b is defined }}", "## template: basic\n$a_b"] {
        let bad = template::render(text, &variables).unwrap_err();
        assert!(bad.message.contains("a variable that is too large"), "{bad}");
    }
    assert!(peak() < 160, "{} MiB", peak());
}
