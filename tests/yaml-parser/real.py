# real.py DIRECTORY...: a JSON list of the texts of the YAML files below the directories, each text once. The files are named
# *.yaml, *.yml, *.cfg or cloud-config*.
import json
import sys
from pathlib import Path

texts = set()
for directory in sys.argv[1:]:
    for path in Path(directory).rglob("*"):
        if path.suffix in (".yaml", ".yml", ".cfg") or path.name.startswith("cloud-config"):
            try:
                texts.add(path.read_bytes().decode() if path.is_file() else "")
            except UnicodeDecodeError:
                pass
json.dump(sorted(texts - {""}), sys.stdout)
