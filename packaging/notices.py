"""Licence files and copyright holders of crates, for the scripts beside this file."""
import re
from pathlib import Path

NOTICES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
# Files with a comment at their top.
SOURCES = (".asm", ".c", ".go", ".h", ".inl", ".pl", ".py", ".rs", ".s")
# A copyright statement is in the first lines of a source file.
HEAD = 40


def top(package):
    """Returns the directory of a crate."""
    return Path(package["manifest_path"]).parent


def notices(package):
    """Returns the licence files of a crate, also those of code that it has copied from elsewhere."""
    found = (f for f in top(package).rglob("*") if f.is_file() and f.name.upper().startswith(NOTICES))
    # A module may be named license.rs.
    return sorted((f for f in found if f.suffix.lower() not in SOURCES), key=lambda f: (len(f.parts), f))


def statements(lines):
    """Returns (first year, last year, holder) of each copyright statement; the years are 0 if there are none."""
    for line in lines:
        row = " ".join(re.sub(r"^[\s*#/;]+|[\s*/]+$", "", line).split())
        match = re.match(r"(?:Copyright(?: *\([cC]\)| *©| notice)?|©) *((?:[0-9]|The |[A-Z]).*)", row)
        # The template at the end of Apache's licence has a year in brackets.
        if not match or "owner" in row:
            continue
        years, holder = re.match(r"((?:[0-9]{4}(?: *[-–] *(?:[0-9]{4}|present))?,? *)*)(.*)", match[1]).groups()
        holder = re.sub(r"\.? *All rights reserved\.?$|\. See the COPYRIGHT$|\.$", "", holder, flags=re.I)
        numbers = [int(year) for year in re.findall(r"[0-9]{4}", years)] or [0]
        yield min(numbers), max(numbers), holder


def source_heads(package):
    """Returns the first lines of every source file of a crate."""
    for file in sorted(f for f in top(package).rglob("*") if f.suffix.lower() in SOURCES and f.is_file()):
        # Only comments, which contain the copyright statements.
        yield from (line for line in file.read_text(encoding="utf-8", errors="replace").splitlines()[:HEAD]
                    if re.match(r"\s*(?:[*#;]|//|/\*|Copyright|©)", line))


def merged(found):
    """Returns a line for each holder with the first and the last of its years."""
    years = {}
    for first, last, holder in found:
        before = years.get(holder, (first, last))
        years[holder] = (min(filter(None, (before[0], first)), default=0), max(before[1], last))
    return [(f"{first} " if first == last else f"{first}-{last} ") + holder if first else holder
            for holder, (first, last) in years.items()]


def holders(package):
    """Returns the copyright holders that licence files and source files name, or else the crate's authors."""
    texts = [line for f in notices(package) for line in f.read_text(encoding="utf-8", errors="replace").splitlines()]
    found = merged(statements([*texts, *source_heads(package)]))
    return found or package["authors"] or [f"the authors of {package['name']}"]
