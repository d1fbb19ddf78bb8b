# Calls a part handler as Python's cloud-init did. Arguments: the handler's file, the task and the directories to import
# from. Standard input holds the calls as JSON. cloud-init starts it once for each source of data.
import base64
import importlib.util
import json
import sys
import traceback

FUNCTIONS = ("list_types", "handle_part")
path, task = sys.argv[1:3]
sys.path[:0] = sys.argv[3:]


def status(code):
    """The exit status that Python would use: a text as the code means 1."""
    return 0 if code is None else int(code) & 255 if isinstance(code, int) else 1


def reason(error):
    """The type of an exception and its line in the handler, without its text, which may contain data of a part."""
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        kind = "exited with status %s" % status(error.code)
    if isinstance(error, SyntaxError) and error.filename == path:
        return "%s at line %s: %s" % (kind, error.lineno, str(error.msg)[:100])
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return "%s at line %s" % (kind, lines[-1]) if lines else kind


def give_up(message):
    print(message, file=sys.stderr)
    sys.exit(3)


def check():
    """Compiles the handler, whose text is standard input, without running it."""
    source = sys.stdin.buffer.read()
    try:
        compile(source, path, "exec", dont_inherit=True)
    except MemoryError:
        sys.exit()
    except Exception as error:
        give_up(reason(error))
    # They may be imported by `*`, or defined by other code that names them.
    missing = [name for name in FUNCTIONS if name.encode() not in source]
    if missing and b"*" not in source:
        give_up("missing function %s" % missing[0])
    sys.exit()


def load():
    spec = importlib.util.spec_from_file_location("part_handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if task == "check":
    check()
try:
    handler = load()
    missing = [name for name in FUNCTIONS if not callable(getattr(handler, name, None))]
    if task == "list" and not missing:
        types = [str(one) for one in handler.list_types()]
except (Exception, SystemExit) as error:
    give_up(reason(error))
if task == "list" and missing:
    give_up("missing function %s" % missing[0])
try:
    version = int(getattr(handler, "handler_version", 1))
except (TypeError, ValueError):
    version = 1
if task == "list":
    frequency = getattr(handler, "frequency", "once-per-instance")
    print("\n" + json.dumps({"types": types, "frequency": str(frequency)}))
    sys.exit()
work = json.load(sys.stdin)
try:
    with open(work["data"], encoding="utf-8") as file:
        data = json.load(file)
except (OSError, ValueError):
    data = {}
if version not in (1, 2, 3):
    give_up("unsupported handler_version; expected 1, 2 or 3")
failed = []
for call in work["calls"]:
    payload = call["payload"]
    if payload is not None:
        payload = base64.b64decode(payload)
        if call["text"]:
            payload = payload.decode("utf-8", "surrogateescape")
    arguments = [data, call["type"], call["filename"], payload, work["frequency"], call["headers"]]
    try:
        handler.handle_part(*arguments[: {1: 4, 2: 5, 3: 6}[version]])
    except (Exception, SystemExit) as error:
        # An exit ends this call only; the remaining parts are still handled.
        failed.append("%s, called with %s" % (reason(error), call["type"]))
if failed:
    give_up("; ".join(failed[:10] + ["and %s more failures" % (len(failed) - 10)] * (len(failed) > 10)))
# Without this line, the handler ended the process itself (`os._exit`) and further calls were not made.
print("all calls were made", file=sys.stderr)
