#!/usr/bin/python3
"""upstream.py CASES OUT [CASE...] - runs in a root that has Debian's cloud-init: every case through its
`devel net-convert`, each output in a process of its own. Per output OUT/CASE/NAME/ holds the files, and beside it
NAME.status and NAME.log. OUTPUTS is the list of `tests/golden.rs`."""
import os
import sys

from cloudinit.cmd.main import main

cases, out, names = sys.argv[1], sys.argv[2], sys.argv[3:] or sorted(os.listdir(sys.argv[1]))
outputs = [line.split() for line in open(os.path.join(cases, "..", "outputs"))]
KINDS = {"input.yaml": "yaml", "network_data.json": "network_data.json", "input.eni": "eni",
         "imds.json": "azure-imds", "input.cfg": "vmware-imc"}


def convert(case, kind, path, label, renderer, distro):
    top = os.path.join(out, case)
    os.makedirs(os.path.join(top, label))
    argv = ["cloud-init", "devel", "net-convert", "-p", path, "-k", kind, "-d", os.path.join(top, label),
            "-D", distro, "-O", renderer]
    nics = os.path.join(cases, case, "nics")
    if os.path.exists(nics):
        for line in open(nics):
            argv += ["-m", ",".join(line.split())]
    before = os.path.join(cases, case, "before")
    if os.path.isdir(before):
        os.system("cp -a '%s/.' '%s/'" % (before, os.path.join(top, label)))
    child = os.fork()
    if child == 0:
        log = os.open(os.path.join(top, label + ".log"), os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = 1
        try:
            status = main(argv) or 0
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 1
        except BaseException as e:
            print(type(e).__name__, e, file=sys.stderr)
        os._exit(status)
    _, status = os.waitpid(child, 0)
    with open(os.path.join(top, label + ".status"), "w") as f:
        f.write("%d\n" % os.waitstatus_to_exitcode(status))


for case in names:
    for name, kind in KINDS.items():
        path = os.path.join(cases, case, name)
        if os.path.exists(path):
            for label, renderer, distro in outputs:
                convert(case, kind, path, label, renderer, distro)
