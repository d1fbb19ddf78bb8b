# documents.py COUNT [MUTATIONS]: a JSON list of COUNT YAML texts in the ways in which people write cloud-config, then of
# MUTATIONS damaged ones. The same numbers give the same texts.
import json
import random
import sys

WORDS = ["nginx", "apt-get update", "10.0.0.1/24", "0644", "yes", "off", "~", "null", "1.5", "-1", "a b  c", "é ü", "/etc/motd",
         "http://host:8080/x?y=1&z#f", "key=value", "50%", "*.log", "x: y", "# no", "a #b", "@home", "`id`", "{{ v1.name }}", "[a]", "2024-01-02",
         "0x1F", "1_000", "12:30:45", "<<", "=", "!x", "&x", "|", ">", "-", "- a", "?", "? a", "it's", 'say "hi"', "a\\nb", "\u00a0x", "$6$ab$cd/e.",
         "ssh-ed25519 AAAAC3Nza me@host", "echo $(date) > /run/x", "true", "C:\\dir\\x", "a,b", "{x}", "tail,", "end:", ":start", "::1", "fe80::1%eth0", "😀"]
KEYS = ["packages", "runcmd", "users", "name", "path", "content", "permissions", "a b", "ssh_authorized_keys", "0", "10.0", "yes", "é",
        "sources", "my-list.list", "x/y", "eth0", "match", "macaddress", "version", "'quoted'", '"double"', "on", "null", "a.b", "?x", "-y", "a#b"]
TEXTS = ["#!/bin/sh\necho hello\n", "one\ntwo\n\nthree\n", "  indented\nless\n", "tab\there\n\tfirst\n", "trail  \nx\n\n\n", "a: b\n- c\n", "# comment\n", "no newline",
         "folded words that\ngo on\n\n  and a shifted line\nback\n", "--- x\n", "...\n", "%x\n", "\n\nlead\n", ""]
safe = "abcdefghijklmnopqrstuvwxyz/."


def plain(r):
    """A text that is most often plain: what a person would not think of quoting."""
    word = r.choice(WORDS)
    how = r.random()
    if how < 0.1:
        return r.choice(safe) + word + " " + r.choice(WORDS)
    return word


def quoted(r, word):
    how = r.random()
    if how < 0.5:
        return "'" + word.replace("'", "''") + "'"
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", r.choice(["\\t", "\t"])) + '"'


def scalar(r):
    how = r.random()
    if how < 0.45:
        word = plain(r)
        return word if r.random() < 0.35 or word[0].isalnum() and ": " not in word and " #" not in word and not word.endswith(":") else quoted(r, word)
    if how < 0.8:
        return quoted(r, plain(r))
    if how < 0.85:
        return ""
    if how < 0.9:
        return r.choice(["!!str ", "!!int ", "!!bool ", "! ", "!!binary ", "&n%d " % r.randrange(99), "!!null "]) + r.choice(["1", "'yes'", "aGk=", "x", ""])
    if how < 0.93:
        return '"\\u00e9\\x41\\t\\/ \\\n' + "      x\"" if r.random() < 0.5 else '"\\ud83d\\ude00"'
    return r.choice(["1", "true", "0o17", "1e3", ".5", "+1", "0b1", "~", "Null", "2024-01-02 03:04:05", "1:1"])


def flow(r, depth):
    if depth > 3 or r.random() < 0.5:
        word = plain(r)
        return word if word[0].isalnum() and not set(word) & set(",[]{}?#") and ": " not in word and not word.endswith(":") else quoted(r, word)
    gap = r.choice(["", " ", " ", " ", "\n        ", "  # c\n        "])
    items = range(r.randrange(4))
    if r.random() < 0.5:
        text = ("," + r.choice([" ", gap or " "])).join(flow(r, depth + 1) for _ in items)
        return "[" + gap + text + r.choice(["", "", ","] if text else [""]) + gap + "]"
    pairs = []
    for _ in items:
        key = r.choice(["a", "b c", "'d'", '"e"', "0", "f-g", "é"])
        glue = ":" if key[0] in "'\"" and r.random() < 0.5 else r.choice([": ", ": ", ": ", " : ", ":\n         "])
        pairs.append(r.choice([key + glue + flow(r, depth + 1)] * 9 + [key, key + ":" + r.choice(["[x]", "x", ""])]))
    return "{" + gap + ("," + r.choice([" ", gap or " "])).join(pairs) + gap + "}"


def block(r, pad, depth):
    body = r.choice(TEXTS)
    head = r.choice("|>") + r.choice(["", "", "-", "+"])
    indent = pad + r.choice(["  ", "  ", "    "])
    if body.lstrip("\n").startswith((" ", "\t")) and r.random() < 0.8:
        indent, head = pad + "  ", head + "2"
    head += r.choice(["", "", " ", " # c"])
    return head + "\n" + "".join(indent + line + "\n" if line else r.choice(["\n", "\n", indent + "\n"]) for line in body.split("\n")[:-1] or [body])


def comment(r, pad):
    how = r.random()
    if how < 0.75:
        return ""
    return r.choice(["\n", pad + "# comment: x\n", "# left\n", pad + "  # right\n", "  \n"])


def tail(r):
    return r.choice([""] * 9 + [" ", "  # c", " #c", "\t# c"])


def value(r, pad, depth):
    """What follows a key or a dash, with its line break."""
    how = r.random()
    if depth > 4 or how < 0.45:
        return " " * r.choice([1, 1, 1, 2, 5]) + scalar(r) + tail(r) + "\n"
    if how < 0.55:
        return " " + flow(r, 0) + tail(r) + "\n"
    if how < 0.65:
        return " " + block(r, pad, depth)
    if how < 0.68:
        return " several words\n" + pad + "   on two lines" + tail(r) + "\n"
    if how < 0.71:
        return " 'quoted text\n\n" + pad + "   on two lines'" + tail(r) + "\n"
    props = r.choice([""] * 8 + [" &a%d" % r.randrange(1000), " !!map", " !!seq"])
    if r.random() < 0.5 and props != " !!seq":
        return props + tail(r) + "\n" + mapping(r, pad + r.choice(["  ", "  ", "  ", "    ", " ", "   "]), depth + 1)
    return (props if props != " !!map" else "") + tail(r) + "\n" + sequence(r, pad + r.choice(["", "  ", "  ", "    "]), depth + 1)


def mapping(r, pad, depth, first=""):
    out = []
    for key in r.sample(KEYS, r.randrange(1, 5)):
        out.append((pad if out or not first else "") + (key + r.choice([":"] * 12 + [" :"]) if r.random() < 0.97 else "? " + key + "\n" + pad + ":") + value(r, pad, depth) + comment(r, pad))
    if depth and r.random() < 0.04:
        out.append(pad + "<<: {z: 1}\n")
    return "".join(out)


def sequence(r, pad, depth):
    out = []
    for _ in range(r.randrange(1, 5)):
        how = r.random()
        if how < 0.25 and depth < 5:
            gap = r.choice([" ", " ", "   "])
            out.append(pad + "-" + gap + mapping(r, pad + " " + " " * len(gap), depth + 1, "first"))
        elif how < 0.3:
            out.append(pad + "- -" + value(r, pad + "  ", depth + 1))
        else:
            out.append(pad + "-" + value(r, pad, depth + 1))
        out.append(comment(r, pad))
    return "".join(out)


def document(r):
    text = mapping(r, "", 0) if r.random() < 0.9 else sequence(r, "", 0)
    how = r.random()
    head = "#cloud-config\n" if how < 0.6 else r.choice(["", "---\n", "#cloud-config\n---\n", "# x\n\n", "%YAML 1.1\n---\n", "--- # c\n"])
    text = head + text + r.choice([""] * 8 + ["...\n", "\n\n", "# end"])
    if r.random() < 0.05:
        text = text.replace("\n", "\r\n")
    return text.rstrip("\n") if r.random() < 0.1 else text


def damaged(r, text):
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        at = r.randrange(len(text) + 1)
        how = r.random()
        if how < 0.4:
            text = text[:at] + text[at + r.randrange(1, 4):]
        elif how < 0.9:
            text = text[:at] + r.choice([":", ": ", "-", "- ", "?", "[", "]", "{", "}", ",", "'", '"', "\n", " ", "\t", "#", " #", "|", ">", "&a ", "*a", "!", "%", "\\", "\n  ", "\r", "\ufeff", "\u2028", "x"]) + text[at:]
        else:
            text = text[:at]
    return text


def main():
    count, mutations = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    r = random.Random(14)
    texts = [document(r) for _ in range(count)]
    texts += [damaged(r, r.choice(texts[:count])) for _ in range(mutations)]
    json.dump(texts, sys.stdout)


main()
