# debconf.py - debconf for the cloud-init that is recorded in lib/module-machine: runs the stand-in.
import subprocess


class DebconfCommunicator:
    def __init__(self, owner):
        self.words = ["debconf-communicate", "-fnoninteractive", owner]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def command(self, *words):
        subprocess.run(self.words, input=" ".join(words) + "\n", text=True, check=True)
