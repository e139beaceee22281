//! Uploads of a server that is told by a file where to store them: what a person types, and what is left when the server
//! is killed.

use crate::common::{Dir, Serving, eventually, refusal, success};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn config(more: &str) -> String {
    format!(
        "threads = 1\n\n[listen]\nhttps = [\"127.0.0.1:0\"]\n\n[[site]]\nnames = [\"localhost\"]\ndefault = true\n\n\
         [[site.route]]\npath = \"/in/*\"\nupload = {{ folder = \"stored\"{more} }}\n"
    )
}

fn dir(more: &str) -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("stored")).unwrap();
    dir.file("altway.toml", config(more));
    dir
}

fn start(dir: &Dir) -> Serving {
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.stderr(Stdio::null());
    Serving::spawn(dir, command)
}

fn curl(arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args([
        "-sSk",
        "-m",
        "50",
        "-w",
        "%{http_code} %{http_version}",
        "-o",
        "/dev/null",
    ]);
    curl.args(arguments);
    curl
}

fn stored(dir: &Dir) -> Vec<String> {
    let entries = fs::read_dir(dir.path().join("stored")).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// The descriptors of a process that lead to files of a folder which have no name.
fn unnamed(serving: &Serving, folder: &Path) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", serving.process())).unwrap();
    let lengths = descriptors.filter_map(|entry| {
        let path = entry.ok()?.path();
        let target = fs::read_link(&path).ok()?;
        let target = target.to_str()?;
        let is_one = target.starts_with(folder.to_str()?) && target.ends_with(" (deleted)");
        is_one.then(|| fs::metadata(&path).map_or(0, |it| it.len()))
    });
    lengths.collect()
}

#[test]
fn files_are_stored_by_curl_and_its_forms() {
    let dir = dir("");
    let serving = start(&dir);
    let source = dir.file("source.txt", "content");
    let source = source.to_str().unwrap();
    let ask = |arguments: &[&str]| {
        let output = curl(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (protocol, name) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let (to, folder) = (serving.url(&format!("/in/{name}")), serving.url("/in/"));
        assert_eq!(ask(&[protocol, "-T", source, &to]), format!("201 {name}"));
        assert_eq!(ask(&[protocol, "-T", source, &to]), format!("409 {name}"));
        let form = format!("file=@{source};filename=form \"{name}\".txt");
        assert_eq!(
            ask(&[protocol, "-F", &form, &folder]),
            format!("201 {name}")
        );
        assert_eq!(
            ask(&[protocol, "-F", &form, &folder]),
            format!("409 {name}")
        );
    }
    assert_eq!(
        stored(&dir),
        ["1.1", "2", "form \"1.1\".txt", "form \"2\".txt"]
    );
}

#[test]
fn a_server_that_is_killed_in_the_middle_leaves_nothing() {
    let dir = dir("");
    let folder = fs::canonicalize(dir.path().join("stored")).unwrap();
    for protocol in ["--http1.1", "--http2"] {
        let serving = start(&dir);
        let begin = |arguments: &[&str], text: &[u8]| -> Child {
            let mut curl = curl(arguments);
            curl.stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = curl.spawn().unwrap();
            let stdin = child.stdin.as_mut().unwrap();
            stdin.write_all(text).unwrap();
            child
        };
        let content = vec![b'x'; 3_000_000];
        let form = "content-type: multipart/form-data; boundary=X";
        let head = b"--X\r\ncontent-disposition: form-data; name=a; filename=b\r\n\r\n";
        let whole = [
            &head[..],
            b"whole\r\n--X\r\ncontent-disposition: form-data; filename=c\r\n\r\n",
            &content,
        ];
        let mut clients = [
            begin(&[protocol, "-T", "-", &serving.url("/in/a")], &content),
            begin(
                &[
                    protocol,
                    "-X",
                    "POST",
                    "-H",
                    form,
                    "-T",
                    "-",
                    &serving.url("/in/"),
                ],
                &whole.concat(),
            ),
        ];
        eventually("both are on their way", || {
            let lengths = unnamed(&serving, &folder);
            lengths.len() == 3 && lengths.iter().filter(|it| **it > 2_000_000).count() == 2
        });
        serving.signal(Signal::KILL);
        serving.wait();
        for client in &mut clients {
            client.kill().unwrap();
            client.wait().unwrap();
        }
        assert_eq!(stored(&dir), [""; 0], "{protocol}");
    }
}

#[test]
fn a_client_that_goes_away_leaves_nothing() {
    let dir = dir("");
    let folder = fs::canonicalize(dir.path().join("stored")).unwrap();
    let serving = start(&dir);
    for protocol in ["--http1.1", "--http2"] {
        let mut client = curl(&[protocol, "-T", "-", &serving.url("/in/a")]);
        let mut client = client
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        client
            .stdin
            .as_mut()
            .unwrap()
            .write_all(&[b'x'; 1_000_000])
            .unwrap();
        eventually("it is on its way", || {
            unnamed(&serving, &folder).iter().any(|it| *it > 500_000)
        });
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("it is gone", || unnamed(&serving, &folder).is_empty());
    }
    assert_eq!(stored(&dir), [""; 0]);
}

#[test]
fn a_folder_that_is_missing_is_told_before_anything_is_served() {
    let dir = Dir::new();
    dir.file("altway.toml", config(""));
    let refused = refusal(&mut dir.altway(["serve", "--config", "altway.toml"]));
    assert!(
        refused.contains("cannot open the folder `stored` for uploads"),
        "{refused}"
    );
    assert!(
        refused.contains("hint: make the folder, and let the server's user write to it"),
        "{refused}"
    );
    let refused = refusal(&mut dir.altway(["config", "check", "altway.toml"]));
    assert!(
        refused.contains("altway.toml:12:21: cannot open the folder `stored`"),
        "{refused}"
    );
    let shown = success(&mut dir.altway(["config", "show", "altway.toml"]));
    assert!(
        shown.contains("upload = { folder = \"stored\" }"),
        "{shown}"
    );
}
