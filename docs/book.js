// Cells know the name of their column, which book.css shows on a narrow screen.
for (const table of document.querySelectorAll("main table")) {
    const columns = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
    for (const row of table.querySelectorAll("tbody tr")) {
        [...row.cells].slice(1).forEach((cell, at) => columns[at + 1] && (cell.dataset.column = columns[at + 1]));
    }
}
