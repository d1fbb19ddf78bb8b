"""Machines whose data come from several sources at once (user-data, vendor-data, vendor-data2, cloud-config-url of the
kernel command line, the image), and what Python's cloud-init makes of them:
unshare -m -n -u python3 record_sources.py ROOT, where ROOT is a directory with Debian's cloud-init in it (it is not changed).
Writes sources.json. Needs python3-yaml."""
import gzip
import json
import sys

from machine import Machine, encode, save
from record import AT, BAD_GZIP, INCLUDED, KINDS, message, part

DRIVE = "var/lib/cloud/seed/config_drive/openstack/latest/"
NOCLOUD = "var/lib/cloud/seed/nocloud/"
IMAGE = "t_image: image\nt_all: image\nt_map: {image: 1}\nt_list: [image]\n"
FETCHED = "etc/cloud/cloud.cfg.d/91_kernel_cmdline_url.cfg"


def drive(vendor=None, vendor2=None, user=None, **more):
    files = {DRIVE + "meta_data.json": json.dumps({"uuid": "i-1", "hostname": "web-1", "dsmode": "local"}).encode()}
    if vendor is not None:
        files[DRIVE + "vendor_data.json"] = vendor if isinstance(vendor, bytes) else json.dumps(vendor).encode()
    if vendor2 is not None:
        files[DRIVE + "vendor_data2.json"] = vendor2 if isinstance(vendor2, bytes) else json.dumps(vendor2).encode()
    if user is not None:
        files[DRIVE + "user_data"] = user.encode()
    return {"files": files, **more}


def nocloud(vendor=b"", user=b"", **more):
    files = {NOCLOUD + "meta-data": b"instance-id: i-1\nlocal-hostname: web-1\ndsmode: local\n",
             NOCLOUD + "user-data": user, NOCLOUD + "vendor-data": vendor}
    return {"files": files, **more}


def of_name(name):
    return f"t_{name}: {name}\nt_all: {name}\nt_map: {{{name}: 1}}\nt_list: [{name}]\n"


def documents():
    found = {}
    # Every kind as each vendor's.
    for name, kind, good, broken in KINDS:
        for state, payloads in (("good", good), ("broken", broken)):
            for number, payload in enumerate(payloads):
                n = f"{name}-{state}-{number}"
                found[f"vendor-{n}"] = nocloud(payload, b"#cloud-config\nt_user: 1\n")
                found[f"vendor-gzip-{n}"] = nocloud(gzip.compress(payload, mtime=0))
                text = payload.decode()
                found[f"vendor2-{n}"] = drive({"cloud-init": "#cloud-config\nt_vendor: 1\n"}, {"cloud-init": text})
                found[f"vendor2-multipart-{n}"] = drive(None, {"cloud-init": message(
                    part(kind, payload, "base64", 'Content-Disposition: attachment; filename="it"\n'),
                    part("text/cloud-config", b"#cloud-config\nt_z: 26\n", "")).decode()})
    # What may stand in vendor_data.json.
    config, script = "#cloud-config\nt_a: 1\n", "#!/bin/sh\necho v\n"
    for number, value in enumerate((config, [config, script], {"cloud-init": config}, {"cloud-init": [config, script]},
                                    {"other": config}, {}, [], "", None, 7, [config, [script]], {"cloud-init": None},
                                    {"cloud-init": {"a": 1}}, [config, None], b"{", b"")):
        found[f"form-{number}"] = drive(value)
        found[f"form2-{number}"] = drive(None, value)
        found[f"forms-{number}"] = drive(value, {"cloud-init": script})
    # Who wins, and who may say what of whom.
    three = lambda **more: drive({"cloud-init": "#cloud-config\n" + of_name("vendor")},
                                 {"cloud-init": "#cloud-config\n" + of_name("vendor2")}, **more)
    user = "#cloud-config\n" + of_name("user")
    found["precedence"] = three(user=user)
    found["precedence-no-user"] = three()
    for number, rule in enumerate((
            "vendor_data: {enabled: false}", "vendor_data2: {enabled: false}", "vendor_data: {enabled: 'false'}",
            "vendor_data: {enabled: 'no'}", "vendor_data2: {enabled: 0}", "vendor_data: off", "vendor_data: null", "vendor_data2: [x]",
            "vendor_data: {disabled_handlers: [text/cloud-config]}", "vendor_data2: {disabled_handlers: [text/cloud-config]}",
            "vendor_data: {enabled: true, prefix: [/usr/bin/env]}", "allow_userdata: false", "allow_userdata: 'no'",
            "merge_how: dict(recurse_list)+list(append)", "merge_how: 'dict(replace)'", "vendor_data: {}", "vendor_data: {disabled_handlers: x}",
            "vendor_data: {enabled: maybe}")):
        found[f"rule-user-{number}"] = three(user=user + rule + "\n")
        found[f"rule-image-{number}"] = three(user=user, image=rule + "\n")
        found[f"rule-vendor-{number}"] = drive({"cloud-init": "#cloud-config\nt_v: 1\n" + rule + "\n"},
                                               {"cloud-init": "#cloud-config\nt_v: 2\nt_w: 2\n" + rule + "\n"}, user=user)
    for number, handlers in enumerate(("[text/x-shellscript]", "[text/cloud-boothook, text/x-shellscript]", "[text/plain]", "[text/jinja2]",
                                       "[text/cloud-config-jsonp]", "['text/*']")):
        parts = [part("text/plain", p, "base64", f'Content-Disposition: attachment; filename="p{i}"\n') for i, p in enumerate((
            b"#!/bin/sh\necho 1\n", b"#cloud-boothook\n#!/bin/sh\ntrue\n", b"#cloud-config\nt_q: 1\n",
            b"## template: jinja\n#cloud-config\nt_j: {{ 1 }}\n",
            b'#cloud-config-jsonp\n[{"op": "add", "path": "/t_p", "value": 1}]\n'))]
        found[f"handlers-{number}"] = nocloud(message(*parts), f"#cloud-config\nvendor_data: {{disabled_handlers: {handlers}}}\n".encode())
    # The same name from two sources, and a user's launch index, which does not bind a vendor.
    named = lambda text: message(part("text/x-shellscript", text, "", "Content-Disposition: attachment; filename=same\n")).decode()
    found["same-name"] = drive({"cloud-init": named(b"#!/bin/sh\necho v\n")}, {"cloud-init": named(b"#!/bin/sh\necho v2\n")}, named(b"#!/bin/sh\necho u\n"))
    indexed = message(part("text/cloud-config", b"t_i: 1\n", "", "Launch-Index: 5\n"), part("text/cloud-config", b"t_k: 1\n", "")).decode()
    found["launch-index"] = drive({"cloud-init": indexed}, {"cloud-init": indexed}, indexed)
    found["vendor-fails"] = drive({"cloud-init": "#include\nfile:///nonexistent/v\n"}, {"cloud-init": config}, user)
    found["vendor2-fails"] = drive({"cloud-init": config}, {"cloud-init": "#include\nfile:///nonexistent/v\n"}, user)
    found["user-fails"] = drive({"cloud-init": config}, {"cloud-init": config}, "#include\nfile:///nonexistent/v\n")
    found["vendor-gzip-cut"] = nocloud(BAD_GZIP)
    # The kernel command line names a file.
    url = b"#cloud-config\n" + of_name("url").encode()
    put = lambda content: {"srv/it": content}
    for number, (content, line) in enumerate((
            (url, "cloud-config-url=file:///srv/it"), (url, "ro cloud-config-url=/srv/it quiet"), (b"t_url: 1\n", "cloud-config-url=/srv/it"),
            (b"", "cloud-config-url=/srv/it"), (url, "cloud-config-url=/srv/none"), (url, "cloud-config-url="), (url, "cloud-config-url"),
            (url, "url=/srv/it"), (url, "cloud-config-url=/srv/none cloud-config-url=/srv/it"),
            (url, "cloud-config-url=/srv/it cloud-config-url=/srv/none"), (url, "url=/srv/none cloud-config-url=/srv/it"),
            (url, "CLOUD-CONFIG-URL=/srv/it"), (url, "xcloud-config-url=/srv/it"), (url, 'cloud-config-url="/srv/it"'),
            (gzip.compress(url, mtime=0), "cloud-config-url=/srv/it"), (b"\n" + url, "cloud-config-url=/srv/it"),
            (b"#cloud-config-archive\n- t_a: 1\n", "cloud-config-url=/srv/it"), (b"#cloud-config\nt_a: [1\n", "cloud-config-url=/srv/it"),
            (b"#cloud-config\n- t_a\n", "cloud-config-url=/srv/it"), (b"#cloud-config\nt_url: '\xff'\n", "cloud-config-url=/srv/it"),
            (b"#cloud-config\r\nt_url: 1\r\n", "cloud-config-url=/srv/it"),
            (b"#cloud-config\nallow_userdata: false\nt_url: 1\n", "cloud-config-url=/srv/it"),
            (b"#cloud-config\nvendor_data: {enabled: false}\nt_url: 1\n", "cloud-config-url=/srv/it"),
            (b"## template: jinja\n#cloud-config\nt_url: {{ 1 }}\n", "cloud-config-url=/srv/it"),
            (b"#cloud-config\nmerge_how: dict(recurse_list)+list(append)\nt_list: [url]\n", "cloud-config-url=/srv/it"),
            (url, "cloud-config-url=/srv/it cc: {t_all: line, t_line: 1} end_cc"), (url, "cloud-config-url=srv/it"),
            (url, "cloud-config-url=file:/srv/it"), (url, "cloud-config-url=file://localhost/srv/it"), (url, "cloud-config-url=ftp:/x"))):
        case = three(user=user, line=line)
        case["files"].update(put(content))
        found[f"url-{number}"] = case
    case = three(user=user, line="cloud-config-url=/srv/it")
    case["files"].update({**put(url), FETCHED: b"#cloud-config\nt_before: 1\n"})
    found["url-there"] = case
    return found


def of_test(config):
    """Keys of the documents only: the image's own configuration is each program's."""
    keys = ("a", "b", "c", "h", "l", "name", "p", "included", "k1", "k2")
    return {k: v for k, v in (config or {}).items() if k.startswith("t_") or k in keys}


CONFIG = "datasource: {ConfigDrive: {dsmode: local}}\ndatasource_list: [ConfigDrive, NoCloud]\nnetwork: {config: disabled}\n"


def main():
    machine = Machine(sys.argv[1])
    found = []
    for name, case in documents().items():
        image, line = IMAGE + case.get("image", ""), case.get("line", "quiet")
        included = {f"var/lib/cloud/seed/included/{n}": c for n, c in INCLUDED.items()}
        machine.boot({"etc/cloud/cloud.cfg": (CONFIG + image).encode(), **included, **case["files"]}, line)
        configs = {file: machine.config(file) for file in ("cloud-config.txt", "vendor-cloud-config.txt", "vendor2-cloud-config.txt")
                   if (machine.instance / file).exists()}
        combined, fetched = machine.root / "run/cloud-init/combined-cloud-config.json", machine.root / FETCHED
        raw = [machine.instance / file for file in ("vendor-data.txt", "vendor-data2.txt")]
        found.append({
            "name": name, "inputs": {p: encode(c) for p, c in case["files"].items()}, "image": image, "line": line,
            "scripts": machine.scripts(), "configs": configs,
            "combined": of_test(json.loads(combined.read_text())) if combined.exists() else None,
            "fetched": encode(fetched.read_bytes()) if fetched.exists() else None,
            "raw": {file.name: encode(file.read_bytes()) for file in raw if file.exists()},
            "found": machine.instance.exists(),
            "failed": machine.failed,
        })
        if "-v" in sys.argv:
            warnings = [line for line in machine.log.splitlines() if "WARNING" in line or "ERROR" in line]
            print(name, machine.code, {k: v for k, v in found[-1].items() if k != "inputs"}, warnings)
    save("sources.json", found)


if __name__ == "__main__":
    main()
