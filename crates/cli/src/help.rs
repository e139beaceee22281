//! Long help at any width: the texts after the options are written in lines of source code, and wrapped
//! here to the terminal's width, once, with hanging indents. clap wraps the rest.

use clap::Command;

/// The widest that help is printed, in columns.
pub(crate) const MAX_WIDTH: usize = 100;

/// The indent of an entry's lines after its first, where it has no second column.
const CONTINUATION: usize = 4;

/// `command` and all below it, with what stands after their options wrapped to the terminal's width.
pub(crate) fn wrapped(command: Command) -> Command {
    wrapped_to(command, width())
}

fn wrapped_to(command: Command, width: usize) -> Command {
    let text = command
        .get_after_long_help()
        .map(|text| fill(&text.to_string(), width));
    let command = match text {
        Some(text) => command.after_long_help(text),
        None => command,
    };
    command.mut_subcommands(|command| wrapped_to(command, width))
}

/// Columns of the terminal at stdout, or what the variable COLUMNS says, as clap has it.
fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = terminal.map(|size| usize::from(size.ws_col));
    let columns = columns.filter(|columns| *columns > 0).or_else(|| {
        let said = std::env::var("COLUMNS").ok()?;
        said.parse().ok()
    });
    columns.map_or(MAX_WIDTH, |columns| columns.min(MAX_WIDTH))
}

/// `text` in lines of at most `width` columns, where its words allow it.
///
/// Lines that begin at the margin make one paragraph up to an empty line; one that ends with a colon is
/// a heading. Lines that are indented are entries, and those that are indented further than the first
/// line of an entry belong to it. What ends with a backslash is a command that goes on as it is.
fn fill(text: &str, width: usize) -> String {
    let mut filled: Vec<String> = Vec::new();
    for block in blocks(text) {
        filled.extend(block.lines(width));
    }
    filled.join("\n")
}

/// A line of the text as it is meant.
struct Block {
    text: String,
    /// Blanks before its second line and those after.
    hanging: usize,
    /// Blanks before its first.
    indent: usize,
    /// True if it takes no more lines.
    closed: bool,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        let words = line.trim();
        let indent = line.len() - line.trim_start().len();
        let last = blocks.last_mut().filter(|last| !last.closed);
        let continues = last.filter(|last| match last.indent {
            0 => indent == 0,
            margin => indent > margin,
        });
        match continues {
            Some(last) if !words.is_empty() => {
                last.text.push(' ');
                last.text.push_str(words);
                last.closed = words.ends_with(':');
            }
            _ => blocks.push(Block {
                text: words.into(),
                hanging: hanging(words, indent),
                indent,
                closed: words.is_empty() || words.ends_with('\\') || words.ends_with(':'),
            }),
        }
    }
    blocks
}

/// The column at which an entry's second column begins, or else a little further in than the first.
fn hanging(words: &str, indent: usize) -> usize {
    if indent == 0 {
        return 0;
    }
    let Some(gap) = words.find("  ") else {
        return indent + CONTINUATION;
    };
    let rest = &words[gap..];
    indent + words[..gap].chars().count() + (rest.len() - rest.trim_start().len())
}

impl Block {
    fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = " ".repeat(self.indent);
        let mut has_words = false;
        // By single blanks, so that a second column stays where it is.
        for word in self.text.split(' ') {
            let length = line.chars().count() + usize::from(has_words) + word.chars().count();
            if has_words && !word.is_empty() && length > width {
                lines.push(line.trim_end().to_owned());
                line = " ".repeat(self.hanging);
                has_words = false;
            }
            if has_words {
                line.push(' ');
            }
            line.push_str(word);
            has_words = true;
        }
        lines.push(line.trim_end().to_owned());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const TEXT: &str = "\
Examples:
  altway serve site --port 8443
  altway emulate --server 'altway serve site' -- \\
      altway load

Early data: a request that comes with the first packets
can be sent again by whoever sees it.

Policies: who is offered HTTP/3
  learned    clients that it is faster for, by what
             they have shown
  h3         everybody";

    #[test]
    fn paragraphs_and_entries_are_wrapped_once() {
        let expected = "\
Examples:
  altway serve site --port 8443
  altway emulate --server 'altway
      serve site' -- \\
      altway load

Early data: a request that comes with
the first packets can be sent again by
whoever sees it.

Policies: who is offered HTTP/3
  learned    clients that it is faster
             for, by what they have
             shown
  h3         everybody";
        assert_eq!(fill(TEXT, 38), expected);
    }

    /// True if the first word of a line would have fitted onto the line before it, of the same indent.
    fn is_broken_twice(lines: [&str; 2], width: usize) -> bool {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let [before, after] = lines;
        let prose = indent(before) == 0 && indent(after) == 0 && !before.ends_with(':');
        let word = after
            .split_whitespace()
            .next()
            .map_or(0, |word| word.chars().count());
        prose && !before.is_empty() && word > 0 && before.chars().count() + 1 + word <= width
    }

    fn check(command: &Command, width: usize, checked: &mut usize) {
        if let Some(text) = command.get_after_long_help() {
            let text = text.to_string();
            let lines: Vec<_> = text.lines().collect();
            for pair in lines.windows(2) {
                let broken = is_broken_twice([pair[0], pair[1]], width);
                assert!(!broken, "{} at {width}: {pair:#?}", command.get_name());
            }
            *checked += 1;
        }
        for command in command.get_subcommands() {
            check(command, width, checked);
        }
    }

    #[test]
    fn no_help_is_wrapped_twice_at_any_width() {
        let mut checked = 0;
        for width in [40, 60, 80, 100] {
            let command = wrapped_to(crate::Arguments::command(), width);
            check(&command, width, &mut checked);
        }
        assert!(checked > 4 * 20, "{checked}");
    }
}
