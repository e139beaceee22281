//! The commands of the documents: each is one that the program knows, and those of the first page do what it says.

use crate::common::{Dir, success, text};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The documents with commands of altway's.
pub(crate) fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md"), root.join("docker/README.md")];
    for folder in ["docs", "docs/guide", "docs/lab"] {
        let files = fs::read_dir(root.join(folder)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        found.extend(files.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    found.sort();
    found
}

/// A part of a page between fences: its language, and its lines.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// The parts of a page between fences; a line that ends with a backslash goes on in the next.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let page = page.replace("\\\n", " ");
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let language = language.to_owned();
                blocks.push(Block {
                    language,
                    lines: Vec::new(),
                });
            }
        } else if is_open {
            let block = blocks.last_mut().unwrap();
            block.lines.push(line.to_owned());
        }
    }
    blocks
}

/// The lines of a shell in a block, without prompts.
pub(crate) fn typed(block: &Block) -> impl Iterator<Item = &str> {
    let is_shell = ["console", "sh", "bash"].contains(&block.language.as_str());
    let lines = block.lines.iter().filter(move |_| is_shell);
    lines.filter_map(move |line| match block.language.as_str() {
        "console" => line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")),
        _ => Some(line.as_str()),
    })
}

/// The commands of a line of a shell: what a prompt, a pipe or a condition begins.
fn commands(block: &Block) -> Vec<String> {
    let parts = typed(block).flat_map(|line| line.split(['|', ';', '&', '>']));
    parts.map(|it| it.trim().to_owned()).collect()
}

/// The arguments of a command of altway's; `None`: it is another program's, or leaves something out.
fn arguments(command: &str) -> Option<Vec<String>> {
    let command = command.split(" #").next()?;
    let line = command
        .strip_prefix("cargo run --release -- ")
        .or_else(|| command.strip_prefix("altway "))?;
    let is_whole = !line.contains(['…', '$', '[', '(']) && !line.contains("...");
    is_whole.then(|| words(line))
}

/// The words of a line, of which those in quotes are one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_there) = (String::new(), None, false);
    for character in line.chars() {
        match (quote, character) {
            (None, '\'' | '"') => (quote, is_there) = (Some(character), true),
            (Some(open), close) if open == close => quote = None,
            (None, ' ') => {
                if is_there {
                    words.push(std::mem::take(&mut word));
                }
                is_there = false;
            }
            _ => {
                word.push(character);
                is_there = true;
            }
        }
    }
    if is_there {
        words.push(word);
    }
    words
}

/// `--help` behind all of a command's own arguments has it check their names and values and do nothing.
#[test]
fn every_command_of_the_documents_is_one_that_the_program_takes() {
    let dir = Dir::new();
    let mut checked = 0;
    for path in documents() {
        let page = fs::read_to_string(&path).unwrap();
        for command in blocks(&page).iter().flat_map(commands) {
            let Some(mut words) = arguments(&command) else {
                continue;
            };
            let end = words.iter().position(|word| word == "--");
            words.insert(end.unwrap_or(words.len()), "--help".into());
            let output = dir.altway([]).args(&words).output().unwrap();
            let said = text(&output.stderr);
            assert!(
                output.status.success(),
                "{}: {command}: {said}",
                path.display()
            );
            checked += 1;
        }
    }
    assert!(checked > 25, "{checked}");
}

/// A folder as the first page of the guide has it: a site, a certificate of one's own, and `altway` on the path.
fn as_in_the_guide() -> Dir {
    let dir = Dir::new();
    dir.file("site/index.html", "home");
    let made = success(&mut dir.altway(["certs", "--json"]));
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    for (key, name) in [("certificate", "fullchain.pem"), ("key", "key.pem")] {
        fs::copy(made[key].as_str().unwrap(), dir.path().join(name)).unwrap();
    }
    fs::create_dir(dir.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_altway"), dir.path().join("bin/altway")).unwrap();
    dir
}

#[test]
fn a_site_in_five_minutes_is_one() {
    let dir = as_in_the_guide();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/five-minutes.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    let path = format!(
        "{}:{}",
        dir.path().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut ran = 0;
    for block in &blocks {
        if block.language == "toml" {
            dir.file("altway.toml", block.lines.join("\n"));
        }
        let mut lines = block.lines.iter().peekable();
        while let Some(line) = lines.next() {
            // Others serve until they are stopped, or are a browser.
            let Some(command) = line.strip_prefix("$ ").filter(|it| it.contains(" config ")) else {
                continue;
            };
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(dir.path());
            shell.env("PATH", &path).env("HOME", dir.path());
            let output = shell.output().unwrap();
            let said = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{command}: {said}");
            while let Some(expected) = lines.next_if(|line| !line.starts_with("$ ")) {
                assert!(said.lines().any(|it| it == expected), "{command}: {said}");
            }
            ran += 1;
        }
    }
    assert_eq!(ran, 2);
    let show = ["config", "check", "altway.toml"];
    success(&mut dir.altway(show));
}

/// The lines that the first page shows are those that the server says, but for address, controls and times.
#[test]
fn a_server_says_what_it_serves_by_which_policy_with_which_certificate_and_how_it_is_stopped() {
    let dir = as_in_the_guide();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/five-minutes.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    let first = blocks.first().unwrap();
    let shown = first
        .lines
        .iter()
        .skip_while(|it| !it.starts_with("serving "));
    let shown: Vec<_> = shown.map(String::as_str).collect();
    let mut command = dir.altway(["serve", "site", "--bind", "127.0.0.1", "--port", "0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let said = stderr.lines().map(Result::unwrap);
    let said = said.skip_while(|line| !line.starts_with("serving "));
    let said: Vec<_> = said.take(shown.len()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shown.len() > 3 && said[0].contains("/ over h1, h2, h3, congestion control "));
    assert!(
        said[0].starts_with("serving https://127.0.0.1:"),
        "{said:?}"
    );
    assert_eq!(said[1..], shown[1..]);
}
