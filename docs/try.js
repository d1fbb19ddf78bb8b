// docs/how-to/try.md: shows the findings of a document below it. The check is the WebAssembly module in try-check.js.
const [kind, input, output] = ["kind", "input", "output"].map((name) => document.getElementById("try-" + name));

// Returns the message of a finding, and the line of the document with the place underlined.
function shown({ line, column, severity, key, message }, lines) {
    const text = [...(lines[line - 1] ?? "")];
    const rest = text.slice(column - 1).join("");
    const word = rest.match(/^("[^"]*"|'[^']*'|[\w.-]+|.)/u)?.[0] ?? "";
    const mark = document.createElement("u");
    mark.textContent = word || " ";
    const place = `${line}:${column}: ${severity}: ${key ? key + ": " : ""}${message}\n`;
    return [place, "    " + text.slice(0, column - 1).join(""), mark, rest.slice(word.length) + "\n"];
}

async function start() {
    if (typeof FIRSTLIGHT === "undefined") {
        output.textContent = "This copy of the book was built without the check.";
        return;
    }
    const module = await WebAssembly.instantiate(Uint8Array.from(atob(FIRSTLIGHT), (byte) => byte.charCodeAt(0)));
    const { memory, room, check, text } = module.instance.exports;
    const show = () => {
        const bytes = new TextEncoder().encode(input.value);
        const start = room(bytes.length);
        new Uint8Array(memory.buffer, start, bytes.length).set(bytes);
        const length = check(kind.value === "network");
        const findings = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, text(), length)));
        const lines = input.value.split("\n");
        output.replaceChildren(...(findings.length ? findings.flatMap((finding) => shown(finding, lines)) : ["valid\n"]));
    };
    input.addEventListener("input", show);
    kind.addEventListener("change", show);
    // The book turns pages by the keys of the cursor.
    input.addEventListener("keydown", (event) => event.stopPropagation());
    show();
}
start();
