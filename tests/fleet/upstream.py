# upstream.py - loads the packaged cloud-init, and runs the local and the network stage of each machine of `boot` in children.
# Standard input: a line for each machine (number, process, root, network), then `go`. Prints number and exit codes when a machine is done.
import os
import subprocess
import sys

sys.path.insert(0, "/mnt")

import cloudinit.sources.DataSourceEc2  # noqa: E402
import cloudinit.sources.DataSourceOpenStack  # noqa: E402
import forking  # noqa: E402

forking.LIMIT = 1200
print("loaded", flush=True)
machines = [line.rstrip("\n").split("\t") for line in iter(sys.stdin.readline, "go\n")]
done, null = os.dup(1), os.open("/dev/null", os.O_RDWR)


def bring_up(process, network):
    """Does what the machine's network service does between the stages."""
    if os.fork() == 0:
        os.setns(os.pidfd_open(process), os.CLONE_NEWNET)
        for command in network.split("; "):
            subprocess.run(["ip", *command.split()], check=True)
        os._exit(0)
    os.wait()


def boot(process, root, network):
    codes = [forking.run(process, root, ["init", "--local"])]
    bring_up(process, network)
    return [*codes, forking.run(process, root, ["init"])]


for number, process, root, network in machines:
    if os.fork() == 0:
        for fd in range(3):
            os.dup2(null, fd)
        codes = boot(int(process), root, network)
        os.write(done, f"{number} {codes[0]} {codes[1]}\n".encode())
        os._exit(0)
for _ in machines:
    os.wait()
