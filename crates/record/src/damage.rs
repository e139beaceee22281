//! The place at which a CSV file is damaged: the line, and in it the column at which the field begins that can't be
//! read.

use std::fmt;

/// A field that is none of its column's, or a row that has too few or too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1, which is the header's.
    pub line: u64,
    /// The character of the line at which the field begins, from 1.
    pub column: usize,
    /// The fault at that place.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            reason,
        } = self;
        write!(f, "line {line}, column {column}: {reason}")
    }
}

/// The damage that `error` says there is in `text`; `None` of an error that has no place.
pub(crate) fn of(text: &str, error: &csv::Error) -> Option<Damage> {
    let position = error.position()?;
    let start = usize::try_from(position.byte()).ok()?;
    let row = text.get(start..)?.trim_start_matches(['\r', '\n']);
    let line = text[..text.len() - row.len()].matches('\n').count() as u64 + 1;
    let row = row.split('\n').next().unwrap_or_default();
    let (field, reason) = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let field = usize::try_from(err.field()?).ok()?;
            let name = text.lines().next()?.split(',').nth(field)?;
            let found = &row[begin_of(row, field)..];
            let found = found.split(',').next().unwrap_or_default();
            (field, format!("`{name}` is `{found}`: {}", err.kind()))
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let last = expected_len.min(len).saturating_sub(1);
            let last = usize::try_from(last).ok()?;
            (
                last,
                format!("the row has {len} fields, the header {expected_len}"),
            )
        }
        _ => return None,
    };
    let column = row[..begin_of(row, field)].chars().count() + 1;
    Some(Damage {
        line,
        column,
        reason,
    })
}

/// The byte of a row at which a field begins; its end, if it has fewer.
fn begin_of(row: &str, field: usize) -> usize {
    let mut quoted = false;
    let commas = row.char_indices().filter(|(_, c)| {
        quoted ^= *c == '"';
        *c == ',' && !quoted
    });
    let mut begins = std::iter::once(0).chain(commas.map(|(at, _)| at + 1));
    begins.nth(field).unwrap_or(row.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Row {
        #[serde(rename = "fault")]
        _fault: String,
        #[serde(rename = "time_us")]
        _time: u64,
    }

    fn damage(rows: &str) -> String {
        let text = format!("fault,time_us\n{rows}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let read: Result<Vec<Row>, _> = reader.deserialize().collect();
        of(&text, &read.unwrap_err()).unwrap().to_string()
    }

    #[test]
    fn a_field_is_found_by_line_and_column() {
        let expected = "line 3, column 3: `time_us` is `1x2`: invalid digit found in string";
        assert_eq!(damage("a,1\nb,1x2\nc,3\n"), expected);
        // Characters and not bytes, and a comma in quotes is none.
        assert!(damage("\"é, b\",x\n").starts_with("line 2, column 8: `time_us` is `x`"));
    }

    #[test]
    fn a_row_with_too_few_or_too_many_fields_is_found() {
        let few = damage("a,1\nbcd\n");
        assert_eq!(few, "line 3, column 1: the row has 1 fields, the header 2");
        let many = damage("a,1,5\n");
        assert_eq!(many, "line 2, column 3: the row has 3 fields, the header 2");
    }
}
