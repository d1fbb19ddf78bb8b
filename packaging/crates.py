"""What cargo says about the crates, for the scripts beside this file."""
import json
import os
import subprocess

# The targets that Firstlight is built for. A crate that none of them needs is never compiled.
TARGETS = [f"{machine}-unknown-linux-{libc}" for machine, libc in (
    ("x86_64", "gnu"), ("x86_64", "musl"), ("i686", "gnu"), ("i686", "musl"), ("aarch64", "gnu"), ("aarch64", "musl"),
    ("armv7", "gnueabihf"), ("armv7", "musleabihf"), ("riscv64gc", "gnu"), ("powerpc64le", "gnu"), ("s390x", "gnu"),
    ("loongarch64", "gnu"))]


def cargo(*arguments):
    """Runs cargo and returns its output."""
    run = [os.environ.get("CARGO", "cargo"), *arguments]
    return subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout.decode()


def metadata(*arguments):
    """Returns the metadata of the workspace in the current directory and of every crate of Cargo.lock."""
    return json.loads(cargo("metadata", "--format-version=1", "--locked", *arguments))


def for_targets():
    """Returns the metadata without what none of the targets needs, neither in programs nor while building."""
    return metadata(*(word for target in TARGETS for word in ("--filter-platform", target)))


def linked(data):
    """Returns the ids of what is in the programs: normal dependencies, without what runs in the compiler."""
    packages = {p["id"]: p for p in data["packages"]}
    nodes = {n["id"]: n for n in data["resolve"]["nodes"]}
    # The integration tests are no part of what is installed.
    queue = [i for i in data["workspace_members"] if packages[i]["name"] != "tests"]
    seen = set()
    while queue:
        this = queue.pop()
        if this in seen:
            continue
        seen.add(this)
        for dep in nodes[this]["deps"]:
            kinds = packages[dep["pkg"]]["targets"][0]["kind"]
            if "proc-macro" not in kinds and any(k["kind"] is None for k in dep["dep_kinds"]):
                queue.append(dep["pkg"])
    return seen
