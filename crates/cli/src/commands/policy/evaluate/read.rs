//! Reads selection logs line by line; what is damaged is counted and named.

use crate::commands::policy::named_twice;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_select::SelectionEntry;
use anyhow::Result;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A line is never longer.
const MAX_LINE: u64 = 64 << 10;

/// The first bytes of a file of gzip (RFC 1952 section 2.3.1), of Zstandard (RFC 8878 section 3.1.1), and of xz.
const COMPRESSED: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0"];

/// Damaged lines that are named; the others are counted.
const MAX_NAMED: usize = 20;

/// The counts of lines that are no entries.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Lines that can't be read.
    pub(super) damaged: u64,
    /// The first of them: `FILE:LINE: why`.
    pub(super) named: Vec<String>,
    /// Lines that the server says it has dropped.
    pub(super) dropped: u64,
}

/// A line that the server writes in place of lines that it dropped.
#[derive(Deserialize)]
struct Notice {
    dropped: u64,
}

enum Line {
    Entry(Box<SelectionEntry>),
    Dropped(u64),
    Damaged(String),
}

impl Log {
    /// Hands each entry of a file to `take`.
    ///
    /// # Errors
    /// The file can't be read.
    pub(super) fn read(
        &mut self,
        path: &Path,
        mut take: impl FnMut(&SelectionEntry),
    ) -> Result<()> {
        lines(path, |number, line| {
            match line {
                Line::Entry(entry) => take(&entry),
                Line::Dropped(count) => self.dropped += count,
                Line::Damaged(why) => {
                    self.damaged += 1;
                    if self.named.len() < MAX_NAMED {
                        let path = path.display();
                        // A line's own text may be in it.
                        let why = why.replace(char::is_control, "\u{fffd}");
                        self.named.push(format!("{path}:{number}: {why}"));
                    }
                }
            }
            true
        })
    }

    /// Names what was damaged or dropped.
    pub(super) fn warn(&self, printer: &Printer) {
        if self.damaged > 0 {
            let lines = if self.damaged == 1 {
                "line is"
            } else {
                "lines are"
            };
            let named = self.named.join("\n  ");
            let more = self.damaged - self.named.len() as u64;
            let more = if more > 0 {
                format!("\n  and {more} more")
            } else {
                String::new()
            };
            let count = self.damaged;
            printer.warn(&format!(
                "{count} {lines} damaged and left out:\n  {named}{more}"
            ));
        }
        if self.dropped > 0 {
            printer.warn(&format!(
                "the server has dropped {} lines of this log",
                self.dropped
            ));
        }
    }
}

/// The files in the order of their first lines, as rotated logs may be named in any.
///
/// # Errors
/// A file can't be read, or would have to be read twice.
pub(super) fn in_order(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if let [one] = files {
        return Ok(vec![one.clone()]);
    }
    if let Some(twice) = named_twice(files) {
        return Err(usage_error(
            format!("the log {} is named twice", twice.display()),
            "name each file once: its pages would count twice",
        ));
    }
    if let Some(pipe) = files.iter().find(|it| it.exists() && !it.is_file()) {
        return Err(usage_error(
            format!(
                "{} is no file, and of several logs each is read twice",
                pipe.display()
            ),
            "put them into one pipe in the order of their times: `zcat -f log.2.gz log.1 | altway policy evaluate /dev/stdin`",
        ));
    }
    let mut dated = Vec::with_capacity(files.len());
    for file in files {
        let mut first = None;
        lines(file, |_, line| {
            if let Line::Entry(entry) = line {
                first = Some(entry.time);
            }
            first.is_none()
        })?;
        dated.push((first, file.clone()));
    }
    dated.sort_by_key(|(first, _)| *first);
    Ok(dated.into_iter().map(|(_, file)| file).collect())
}

/// Hands each line with its number to `each`, until it says no.
fn lines(path: &Path, mut each: impl FnMut(u64, Line) -> bool) -> Result<()> {
    let unreadable = |error| {
        usage_error(
            format!("cannot read the log {}: {error}", path.display()),
            "name a file that `altway serve --selection-log FILE` wrote",
        )
    };
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let head = reader.fill_buf().map_err(unreadable)?;
    if COMPRESSED.iter().any(|it| head.starts_with(it)) {
        return Err(usage_error(
            format!("the log {} is compressed", path.display()),
            "pass its text on: `zcat log.gz | altway policy evaluate /dev/stdin`",
        ));
    }
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let mut limited = (&mut reader).take(MAX_LINE);
        if limited.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            return Ok(());
        }
        number += 1;
        let is_long = bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n");
        if is_long {
            reader.skip_until(b'\n').map_err(unreadable)?;
        }
        let line = match is_long {
            true => Line::Damaged(format!("longer than {MAX_LINE} bytes")),
            false => parse(&bytes),
        };
        if !each(number, line) {
            return Ok(());
        }
    }
}

fn parse(bytes: &[u8]) -> Line {
    match serde_json::from_slice::<SelectionEntry>(bytes) {
        Ok(entry) => match entry.fault() {
            None => Line::Entry(Box::new(entry)),
            Some(fault) => Line::Damaged(fault),
        },
        Err(_) if !bytes.starts_with(b"{") => Line::Damaged("no JSON object".into()),
        Err(error) => match serde_json::from_slice::<Notice>(bytes) {
            Ok(Notice { dropped }) => Line::Dropped(dropped),
            Err(_) => Line::Damaged(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"v":1,"time":1795392000,"client":"00000000002a","class":"firefox-linux","protocol":"h2","offer":"h3","reason":"predicted","propensity":0.975,"path":{"limit_bps":4e8}}"#;

    fn read(text: &[u8]) -> (Log, usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, text).unwrap();
        let (mut log, mut entries) = (Log::default(), 0);
        log.read(&path, |_| entries += 1).unwrap();
        (log, entries)
    }

    #[test]
    fn damaged_lines_are_counted_and_named_and_the_others_read() {
        let long = "x".repeat(2 * MAX_LINE as usize);
        let future = GOOD.replace("\"v\":1", "\"v\":2");
        let cut = &GOOD[..60];
        let text = format!("{GOOD}\nnonsense\n{long}\n{future}\n\n{GOOD}\n{cut}");
        let (log, entries) = read(text.as_bytes());
        assert_eq!((entries, log.damaged), (2, 5), "{:?}", log.named);
        let found: Vec<&str> = log
            .named
            .iter()
            .map(|it| it.split("log:").nth(1).unwrap())
            .collect();
        assert_eq!(found[0], "2: no JSON object");
        assert_eq!(found[1], "3: longer than 65536 bytes");
        assert_eq!(found[2], "4: version 2, where 1 is expected");
        assert!(
            found[3] == "5: no JSON object" && found[4].starts_with("7: EOF"),
            "{found:?}"
        );
    }

    #[test]
    fn twenty_damaged_lines_are_named_and_all_counted() {
        let (log, entries) = read("x\n".repeat(50).as_bytes());
        assert_eq!((entries, log.damaged, log.named.len()), (0, 50, MAX_NAMED));
        let (log, _) = read(&[0xff, 0, b'\n', 0xfe]);
        assert_eq!(log.damaged, 2);
    }

    #[test]
    fn what_the_server_dropped_is_summed() {
        let notice = r#"{"time":"2026-11-23T00:00:00.000Z","dropped":17,"reason":"slow"}"#;
        let (log, entries) = read(format!("{GOOD}\n{notice}\n{notice}\n").as_bytes());
        assert_eq!((entries, log.damaged, log.dropped), (1, 0, 34));
    }

    #[test]
    fn files_are_read_in_the_order_of_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let later = write("later", &GOOD.replace("1795392000", "1795392001"));
        let earlier = write("earlier", &format!("damaged\n{GOOD}"));
        let order = in_order(&[later.clone(), earlier.clone()]).unwrap();
        assert_eq!(order, [earlier, later]);
        assert!(in_order(&[dir.path().join("gone"), order[0].clone()]).is_err());
    }
}
