# forking.py - loads cloud-init, and runs each command of lib/module-machine in a child. A command is one line: the machine's
# process (its namespaces), its root, and the arguments, with tabs between them. Run by lib/forking.
import atexit
import importlib
import os
import pkgutil
import signal
import sys

import cloudinit.cmd.main
import cloudinit.cmd.status
import cloudinit.config
import cloudinit.config.schema
import cloudinit.distros
import cloudinit.sources.DataSourceNoCloud
import cloudinit.sources.DataSourceNone

NAMESPACES = os.CLONE_NEWNS | os.CLONE_NEWNET | os.CLONE_NEWUTS | os.CLONE_NEWIPC | os.CLONE_NEWPID
LIMIT = 120

for package in (cloudinit.config, cloudinit.distros):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(package.__name__ + "." + module.name)
# What every command uses, too, and what its modules load when they run.
for name in ("_strptime", "jinja2", "jsonschema", "encodings.idna", "http.client", "debconf"):
    importlib.import_module(name)


def cloud_init(words):
    sys.argv = ["/usr/bin/cloud-init", *words]
    try:
        code = cloudinit.cmd.main.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code is not None and not isinstance(code, int):
        code = 1
    os._exit(code or 0)


def run(machine, root, words):
    """Runs a command in the machine, in the child of a child: a process changes the process namespace of its children only."""
    outer = os.fork()
    if outer == 0:
        os.setns(os.pidfd_open(machine), NAMESPACES)
        inner = os.fork()
        if inner == 0:
            os.chroot(root)
            os.chdir("/")
            cloud_init(words)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(inner, signal.SIGKILL))
        signal.alarm(LIMIT)
        os._exit(exit_code(os.waitpid(inner, 0)[1]))
    return exit_code(os.waitpid(outer, 0)[1])


def exit_code(status):
    """Returns the exit code, or as a shell 128 and the number of the signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    # Both ends of the pipes are kept open: a machine that closes one is not the end, and finds the other never closed.
    codes = os.open("/srv/codes", os.O_RDWR)
    with os.fdopen(os.open("/srv/commands", os.O_RDWR)) as commands:
        while True:
            machine, root, line = commands.readline().rstrip("\n").split("\t")
            code = run(int(machine), root, line.split(" "))
            os.write(codes, f"{code}\n".encode())
