"""Makes the user-data documents of this folder and what Python's cloud-init makes of them:
unshare -m -n -u python3 record.py ROOT, where ROOT is a directory with Debian's cloud-init in it (it is not changed).
Writes documents.json. Needs python3-yaml."""
import base64
import gzip
import sys

from machine import Machine, encode, save

INCLUDED = {
    "script": b"#!/bin/sh\necho included\n",
    "config": b"#cloud-config\nincluded: 1\n",
    "gzip": gzip.compress(b"#!/bin/sh\necho packed\n", mtime=0),
}
BAD_GZIP = gzip.compress(b"#!/bin/sh\necho never\n" * 20, mtime=0)[:-12]
AT = "file:///var/lib/cloud/seed/included/"

# Name, type for MIME, good ones, broken ones.
KINDS = [
    ("config", "text/cloud-config",
     [b"#cloud-config\na: 1\nl: [x, y]\n", "#cloud-config\nname: Gr\u00fc\u00dfe\n".encode(), b"\n\n#cloud-config\r\na: yes\r\nb: 0644\r\n"],
     [b"#cloud-config\na: [1\n", b"#cloud-config\n- 1\n", b"#cloud-config\n"]),
    ("script", "text/x-shellscript",
     [b"#!/bin/sh\necho a\n", b"#!/bin/sh\r\necho crlf\r\n"],
     [b"! /bin/sh\necho a\n"]),
    ("boothook", "text/cloud-boothook",
     [b"#cloud-boothook\n#!/bin/sh\ntrue\n"],
     [b"#cloud-bothook\n#!/bin/sh\ntrue\n"]),
    ("include", "text/x-include-url",
     [("#include\n%sscript\n# comment\n%sconfig\n" % (AT, AT)).encode(), ("#include %sgzip\n" % AT).encode()],
     [b"#include\nfile:///nonexistent/x\n"]),
    ("once", "text/x-include-once-url",
     [("#include-once\n%sscript\n" % AT).encode()],
     [b"#include-once\nfile:///nonexistent/x\n"]),
    ("archive", "text/cloud-config-archive",
     [b"#cloud-config-archive\n- '#!/bin/sh'\n- {type: text/cloud-config, content: 'b: 2', filename: f}\n- content: |\n    #cloud-config\n    c: 3\n"],
     [b"#cloud-config-archive\n- [\n", b"#cloud-config-archive\na: 1\n"]),
    ("jsonp", "text/cloud-config-jsonp",
     [b'#cloud-config-jsonp\n[{"op": "add", "path": "/p", "value": [1, {"q": null}]}]\n'],
     [b"#cloud-config-jsonp\n[{\n", b'#cloud-config-jsonp\n[{"op": "remove", "path": "/none"}]\n']),
    ("jinja", "text/jinja2",
     [b"## template: jinja\n#cloud-config\nh: {{ v1.local_hostname }}\n{% for i in [1, 2] %}\nk{{ i }}: {{ i * 2 }}\n{% endfor %}\n",
      b"## template: jinja\n#!/bin/sh\necho {{ ds.meta_data.instance_id }} {{ nowhere }}\n"],
     [b"## template: jinja\n#cloud-config\nh: {% if %}\n", b"## template: jinja\nno header\n",
      b"## template: jinja\n#cloud-config\nh: {{ a.b }}\n"]),
    ("upstart", "text/upstart-job", [], [b"#upstart-job\ntask\n"]),
    ("handler", "text/part-handler", [], [b"#part-handler\ndef list_types(:\n"]),
]


def part(kind, payload, how, headers=""):
    head = f"Content-Type: {kind}\n{headers}".encode()
    if how == "base64":
        return head + b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(payload)
    if how == "quoted":
        body = "".join(f"={b:02X}" if b != 10 else "=0A=\n" for b in payload).encode()
        return head + b"Content-Transfer-Encoding: quoted-printable\n\n" + body
    return head + b"\n" + payload


def message(*parts, boundary="B"):
    body = b"".join(b"--%s\n%s\n" % (boundary.encode(), p) for p in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n'.encode() + body + f"--{boundary}--\n".encode()


def nested(*parts):
    return message(*parts, boundary="inner").split(b"\n", 1)[1]


SECOND = part("text/cloud-config", b"#cloud-config\nz: 26\n", "")


def documents():
    found = {}
    for name, kind, good, broken in KINDS:
        for state, payloads in (("good", good), ("broken", broken)):
            for number, payload in enumerate(payloads):
                n = f"{name}-{state}-{number}"
                found[n + "-plain"] = payload
                found[n + "-gzip"] = gzip.compress(payload, mtime=0)
                found[n + "-multipart"] = message(part(kind, payload, "", "Content-Disposition: attachment; filename=\"it\"\n"), SECOND)
                found[n + "-base64"] = message(part("text/plain", payload, "base64"), SECOND)
                found[n + "-nested"] = gzip.compress(message(SECOND, nested(part("text/plain", payload, "quoted"))), mtime=0)
                found[n + "-packed"] = message(part("application/gzip", gzip.compress(payload, mtime=0), "base64"))
    config = b"#cloud-config\n"
    merge = [
        ("a: 1\nl: [1]\nm: {x: 1, l: [a]}\n", "l: [2]\nm: {y: 2, l: [b]}\n", how)
        for how in ("", "Merge-Type: list(append)+dict(recurse_list)+str()", "X-Merge-Type: list(append)+dict(no_replace, recurse_list)+str()",
                    "Merge-Type: list(prepend)+dict(replace,recurse_array)", "Merge-Type: dict(allow_delete)+list(replace)", "Merge-Type: nonsense",
                    "Merge-Type: list()+dict()+str()")
    ]
    for number, (first, second, how) in enumerate(merge):
        headers = how + "\n" if how else ""
        found[f"merge-{number}"] = message(part("text/cloud-config", first.encode(), ""), part("text/cloud-config", second.encode(), "", headers))
    for number, how in enumerate((
            "merge_how: list(append)+dict(recurse_list)+str()", "merge_type: 'list(append)+dict(no_replace,recurse_list)+str(append)'",
            "merge_how:\n - {name: list, settings: [append]}\n - {name: dict, settings: [no_replace, recurse_list]}",
            "merge_how: [[list, append], [dict, recurse_array], [str, append]]", "merge_how: 5", "merge_type: 'list(append'")):
        found[f"merge-body-{number}"] = message(
            part("text/cloud-config", b"l: [1]\nm: {l: [a], s: a}\ns: one\n", ""),
            part("text/cloud-config", ("l: [2]\nm: {l: [b], s: b}\ns: two\n" + how + "\n").encode(), ""))
    for charset, payload in (("iso-8859-1", b"a: '\xe9'\n"), ("windows-1252", b"a: '\x80'\n"), ("us-ascii", b"a: plain\n"), ("utf-8", "a: é\n".encode())):
        found[f"charset-{charset}"] = message(part(f"text/cloud-config; charset={charset}", config + payload, "base64"))
    script = b"#!/bin/sh\n"
    for number, name in enumerate(('filename="a b.sh"', "filename=plain.sh", 'filename="../../x"', "filename*=utf-8''%c3%a9.sh", 'filename="a/b"', "filename*0=long; filename*1=er.sh")):
        found[f"name-{number}"] = message(part("text/x-shellscript", script, "", f"Content-Disposition: attachment; {name}\n"))
    found["name-type"] = message(part('text/x-shellscript; name="by-type.sh"', script, ""))
    for kind in ("per-boot", "per-instance", "per-once"):
        found[f"script-{kind}"] = message(part(f"text/x-shellscript-{kind}", script, "", "Content-Disposition: attachment; filename=it\n"))
    found["preamble"] = message(SECOND).replace(b"\n\n--B", b"\n\nThis is MIME.\n\n--B", 1) + b"epilogue\n"
    found["unclosed"] = message(SECOND, part("text/x-shellscript", script, "")).replace(b"--B--\n", b"")
    found["crlf"] = message(SECOND, part("text/x-shellscript", script, "")).replace(b"\n", b"\r\n")
    found["empty-part"] = message(part("text/cloud-config", b"", ""), SECOND)
    found["binary"] = b"\x00\x01\xff" * 30
    found["text"] = b"hello\n"
    found["empty"] = b""
    found["gzip-gzip"] = gzip.compress(gzip.compress(config + b"a: 1\n", mtime=0), mtime=0)
    found["gzip-cut"] = BAD_GZIP
    found["gzip-part-cut"] = message(part("application/gzip", BAD_GZIP, "base64"), SECOND)
    found["archive-in-archive"] = b"#cloud-config-archive\n- {type: text/cloud-config-archive, content: \"#cloud-config-archive\\n- '#!/bin/sh'\\n\"}\n"
    found["include-in-archive"] = ("#cloud-config-archive\n- '#include %sscript'\n" % AT).encode()
    found["two-patches"] = message(part("text/cloud-config", b"r: [1]\n", ""), part("text/cloud-config-jsonp", b'[{"op": "add", "path": "/r/-", "value": 2}, {"op": "copy", "from": "/r", "path": "/s"}]', ""))
    found["patch-tests"] = message(part("text/cloud-config", b"r: [1]\n", ""), part("text/cloud-config-jsonp", b'[{"op": "test", "path": "/r", "value": [2]}, {"op": "add", "path": "/x", "value": 1}]', ""))
    found["windows"] = b"<script>\ndir\n</script>\n"
    found["certificate"] = b"-----BEGIN CERTIFICATE-----\nMIIB\n"
    found["jinja-no-blank"] = b"##template: jinja\n#cloud-config\na: {{ 1 }}\n"
    found["jinja-jsonp"] = b'## template: jinja\n#cloud-config-jsonp\n[{"op": "add", "path": "/a", "value": {{ 1 + 1 }}}]\n'
    found["jinja-include"] = ("## template: jinja\n#include\n%s{{ 'script' }}\n" % AT).encode()
    return found


CONFIG = b"datasource_list: [NoCloud]\nnetwork: {config: disabled}\n"
SEED = "var/lib/cloud/seed/"


def main():
    machine = Machine(sys.argv[1])
    found = []
    for name, data in documents().items():
        machine.boot({
            "etc/cloud/cloud.cfg.d/99_test.cfg": CONFIG,
            SEED + "nocloud/meta-data": b"instance-id: i-1\nlocal-hostname: web-1\ndsmode: local\n",
            SEED + "nocloud/user-data": data,
            **{f"{SEED}included/{n}": c for n, c in INCLUDED.items()},
        })
        files = machine.scripts()
        for kind in ("per-boot", "per-instance", "per-once"):
            files.update(machine.files(machine.cloud, f"scripts/{kind}"))
        found.append({"name": name, "data": encode(data), "files": files, "config": machine.config("cloud-config.txt"),
                      "failed": machine.failed})
    save("documents.json", found)


if __name__ == "__main__":
    main()
