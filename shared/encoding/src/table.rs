//! Tables of text in upstream's form, which is that of Python's `prettytable`.

/// Returns the lines of a table with a title above it; the first row is a header. Cells are centred in their columns.
pub fn framed(title: &str, rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0) + 2;
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let border = format!("+{}+", dashes.join("+"));
    let mut lines = vec![centered(title, '+', border.len()), border.clone()];
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| centered_cell(cell, *width)).collect();
        lines.push(format!("|{}|", cells.join("|")));
        if number == 0 {
            lines.push(border.clone());
        }
    }
    lines.push(border);
    lines
}

/// Centres text; the right side gets one more character if their number is odd.
pub fn centered(text: &str, fill: char, width: usize) -> String {
    let space = width.saturating_sub(text.chars().count());
    let side = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", side(space / 2), side(space - space / 2))
}

/// Centres a cell. If the number of spaces is odd, the left side gets one more in a cell of odd width.
fn centered_cell(text: &str, width: usize) -> String {
    let space = width.saturating_sub(text.chars().count());
    let left = space / 2 + (space & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(space - left))
}
