//! Aligned columns.

/// A column's title, and whether its cells stand at its right edge, as numbers do.
pub(super) struct Column {
    title: &'static str,
    right: bool,
}

/// A column of words.
pub(super) const fn left(title: &'static str) -> Column {
    Column { title, right: false }
}

/// A column of numbers.
pub(super) const fn right(title: &'static str) -> Column {
    Column { title, right: true }
}

/// The table with its titles, one line per row. A row that is too short is filled up with empty cells; cells
/// without a column are not shown. Cells are printed as they are: what a client chose was escaped before.
pub(super) fn render(columns: &[Column], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let lines = || std::iter::once(&titles).chain(rows);
    let widths: Vec<usize> = (0..columns.len())
        .map(|i| lines().map(|row| cell(row, i).chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in lines() {
        let mut line = String::new();
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            let cell = cell(row, i);
            // Not by a format width, which panics above 65535.
            let padding = " ".repeat(widths[i] - cell.chars().count());
            let (first, second) =
                if column.right { (padding.as_str(), cell) } else { (cell, padding.as_str()) };
            line.push_str(first);
            line.push_str(second);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn cell(row: &[String], i: usize) -> &str {
    row.get(i).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|c| (*c).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let text = render(&[left("NAME"), right("N")], &[row(&["a", "1"]), row(&["long name", "12345"])]);
        assert_eq!(text, "NAME           N\na              1\nlong name  12345\n");
    }

    #[test]
    fn odd_rows_are_shown_as_far_as_they_go() {
        let text = render(&[left("A"), right("B")], &[row(&[]), row(&["x", "y", "z"]), row(&["é"])]);
        assert_eq!(text, "A  B\n\nx  y\né\n");
        assert_eq!(render(&[], &[row(&["x"])]), "\n\n");
        // Wider than a format width holds.
        let wide = "w".repeat(100_000);
        assert!(render(&[left("A"), right("B")], &[vec![wide.clone(), wide]]).len() > 200_000);
    }
}
