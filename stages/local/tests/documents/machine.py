"""The machine of both recorders: an overlay above ROOT (which is not changed), whose cloud-init boots as far as the
local stage, again and again, from nothing but the files that it is given."""
import base64
import json
import pathlib
import shutil
import subprocess

import yaml

HERE = pathlib.Path(__file__).parent
FORGOTTEN = ("var/lib/cloud", "run/cloud-init", "srv")


def sh(*words):
    subprocess.run(words, check=True)


def encode(data):
    return base64.b64encode(data).decode()


def save(name, found):
    (HERE / name).write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
    print(len(found), "in", name)


class Machine:
    def __init__(self, root):
        base = pathlib.Path("/mnt/documents")
        base.mkdir(parents=True, exist_ok=True)
        sh("mount", "-t", "tmpfs", "tmpfs", str(base))
        for name in ("upper", "work", "machine"):
            (base / name).mkdir()
        self.root = base / "machine"
        sh("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={root},upperdir={base}/upper,workdir={base}/work", str(self.root))
        sh("mount", "-t", "proc", "proc", str(self.root / "proc"))
        sh("mount", "--bind", "/dev", str(self.root / "dev"))
        self.cloud = self.root / "var/lib/cloud"
        self.instance = self.cloud / "instances/i-1"
        shutil.rmtree(self.root / "etc/cloud/cloud.cfg.d")

    def boot(self, files, line=None):
        """With these files, by path, and this kernel command line."""
        for old in (*FORGOTTEN, "etc/cloud/cloud.cfg.d"):
            shutil.rmtree(self.root / old, ignore_errors=True)
        log = self.root / "var/log/cloud-init.log"
        log.unlink(missing_ok=True)
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        if line is not None:
            env["DEBUG_PROC_CMDLINE"] = line
        done = subprocess.run(["chroot", str(self.root), "cloud-init", "init", "--local"], capture_output=True, timeout=60, env=env)
        self.log = log.read_text(errors="replace") if log.exists() else ""
        self.failed = "Consuming user data failed" in self.log or done.returncode == 1
        self.code = done.returncode

    def files(self, base, below):
        """What is below a directory, by its path from `base` on."""
        paths = sorted((base / below).rglob("*"))
        return {f"{below}/{p.relative_to(base / below)}": encode(p.read_bytes()) for p in paths if p.is_file()}

    def scripts(self):
        return {**self.files(self.instance, "scripts"), **self.files(self.instance, "boothooks")}

    def config(self, name):
        """A cloud-config of the instance, none where there is no such file."""
        path = self.instance / name
        return yaml.safe_load(path.read_text()) if path.exists() else None
