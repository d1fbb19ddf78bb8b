"""Renders the templates of cases.txt with Jinja2 and writes outcomes.json. Run when cases are added:
python3 record.py (needs python3-jinja2). A template stands behind a line `====`."""
import json
import pathlib

from jinja2 import DebugUndefined
from jinja2.sandbox import SandboxedEnvironment

here = pathlib.Path(__file__).parent


class Missing(DebugUndefined):
    def __str__(self):
        return "CI_MISSING_JINJA_VAR/" + str(self._undefined_name)


def outcome(text, values):
    env = SandboxedEnvironment(undefined=Missing, trim_blocks=True, extensions=["jinja2.ext.do"])
    end = "\n" if text.endswith("\n") else ""
    try:
        return env.from_string(text).render(**values) + end
    except Exception as e:
        return {"error": type(e).__name__, "says": str(e)}


def main():
    values = json.loads((here / "values.json").read_text())
    cases = (here / "cases.txt").read_text().split("====\n")[1:]
    # The line end before the next mark belongs to the mark.
    found = [[case[:-1], outcome(case[:-1], values)] for case in cases]
    (here / "outcomes.json").write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")
    print(len(found), sum(isinstance(o, dict) for _, o in found))


main()
