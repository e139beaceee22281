//! Uploads by PUT and by forms, asked without a server: what is answered, and what is in the folder then.

use super::*;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;
use std::fs;
use std::path::Path as FilePath;

pub(super) struct Fixture {
    dir: tempfile::TempDir,
    pub(super) uploads: Uploads,
    pub(super) runtime: tokio::runtime::Runtime,
}

pub(super) struct Answer {
    status: u16,
    fields: HeaderMap,
    content: String,
}

/// Uploads by the route `path`, with `more` keys beside the folder.
pub(super) fn fixture(path: &str, more: &str) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[[site]]\ndefault = true\nheaders = {{ X-Site = \"s\", Link = [\"</a>\", \"</b>\"] }}\n[[site.route]]\npath = \"{path}\"\nupload = {{ folder = \"{}\", min-free = \"0B\"{more} }}\n",
        dir.path().display()
    );
    let plan = altway_config::read("test.toml", &text, &mut altway_config::NoFiles);
    let plan = plan.unwrap_or_else(|faults| panic!("{faults}"));
    let route = &plan.sites()[0].routes[0];
    let altway_config::Action::Upload(upload) = &route.action else {
        panic!("an upload");
    };
    let uploads = Uploads::new(&plan.sites()[0], route, upload, PrefixLengths::default()).unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Fixture {
        dir,
        uploads,
        runtime: builder.enable_time().build().unwrap(),
    }
}

impl Fixture {
    pub(super) fn ask<B>(&self, request: http::request::Builder, body: B) -> Answer
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let request = request.body(body).unwrap();
        self.runtime.block_on(async {
            let response = self.uploads.clone().answer(request).await;
            let (head, body) = response.into_parts();
            let content = body.collect().await.unwrap().to_bytes();
            Answer {
                status: head.status.as_u16(),
                fields: head.headers,
                content: String::from_utf8(content.to_vec()).unwrap(),
            }
        })
    }

    pub(super) fn put(&self, path: &str, content: &str) -> Answer {
        self.ask(Request::put(path), Full::from(content.to_owned()))
    }

    fn post(&self, path: &str, form: &[u8]) -> Answer {
        let kind = "multipart/form-data; boundary=XX";
        let request = Request::post(path).header("content-type", kind);
        self.ask(request, Full::from(form.to_vec()))
    }

    /// Names and contents of the folder's files.
    fn stored(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        list(self.dir.path(), "", &mut files);
        files.sort();
        files
    }

    pub(super) fn check_stored(&self, expected: &[(&str, &str)]) {
        let stored = self.stored();
        let stored: Vec<_> = stored.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(stored, expected);
    }
}

fn list(dir: &FilePath, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &format!("{name}/"), files);
        } else {
            let content = fs::read(entry.path()).unwrap();
            files.push((name, String::from_utf8_lossy(&content).into_owned()));
        }
    }
}

impl Answer {
    #[track_caller]
    pub(super) fn check(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{}", self.content);
        assert!(self.content.contains(part), "{part} in {}", self.content);
        assert_eq!(self.fields["x-site"], "s");
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |it| it.to_str().unwrap())
    }
}

/// A part whose Content-Disposition is form-data and this.
fn part(disposition: &str, content: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
}

fn form(parts: &[(&str, &str)]) -> Vec<u8> {
    let parts: String = parts
        .iter()
        .map(|(name, content)| part(name, content))
        .collect();
    format!("{parts}--XX--\r\n").into_bytes()
}

#[test]
fn a_file_that_is_put_has_the_name_of_its_path_and_is_never_replaced_unasked() {
    let it = fixture("/in/*", "");
    fs::create_dir(it.dir.path().join("sub")).unwrap();
    let created = it.put("/in/a%20b.txt", "one");
    created.check(201, "");
    assert_eq!(created.field("location"), "/in/a%20b.txt");
    let below = it.put("/in/sub/%E2%82%AC", "");
    below.check(201, "");
    assert_eq!(below.field("location"), "/in/sub/%E2%82%AC");
    let again = it.put("/in/a%20b.txt", "two");
    again.check(409, "`a b.txt` is there already");
    assert_eq!(again.field("content-type"), "application/problem+json");
    it.put("/in/sub", "x").check(409, "`sub` is there already");
    it.put("/in/none/a", "x")
        .check(409, "the folder is not there");
    it.put("/in/", "x")
        .check(400, "the path has no name of a file");
    it.put("/in/sub/", "x")
        .check(400, "the path is that of a folder");
    it.put("/in/.env", "x")
        .check(400, "a name begins with a dot");
    it.put("/in/%2e%2e/x", "x")
        .check(400, "a name begins with a dot");
    it.check_stored(&[("a b.txt", "one"), ("sub/€", "")]);
}

#[test]
fn a_file_is_replaced_where_that_is_asked_for() {
    let it = fixture("/in/*", ", replace = true");
    it.put("/in/a", "one").check(201, "");
    it.put("/in/a", "two").check(204, "");
    fs::create_dir(it.dir.path().join("sub")).unwrap();
    it.put("/in/sub", "x").check(409, "`sub` is there already");
    it.put("/in/sub/a", "three").check(201, "");
    it.put("/in/sub/a", "four").check(204, "");
    std::os::unix::fs::symlink("/etc/hostname", it.dir.path().join("link")).unwrap();
    it.put("/in/link", "mine").check(204, "");
    let both = form(&[("filename=a", "5"), ("filename=new", "6")]);
    it.post("/in/", &both).check(201, "\"replaced\":true");
    it.post("/in/", &both).check(200, "\"replaced\":true");
    it.check_stored(&[
        ("a", "5"),
        ("link", "mine"),
        ("new", "6"),
        ("sub/a", "four"),
    ]);
}

#[test]
fn links_lead_nowhere_outside_of_the_folder() {
    let it = fixture("/in/*", ", replace = true");
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), it.dir.path().join("out")).unwrap();
    it.put("/in/out/a", "x")
        .check(409, "the folder is not there");
    it.post("/in/out/", &form(&[("filename=a", "x")]))
        .check(409, "the folder is not there");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn what_a_request_means_is_kept_to_or_refused() {
    let it = fixture("/in/*", ", replace = true, body = \"10B\"");
    let put = || Request::put("/in/a");
    let body = || Full::from("x");
    it.put("/in/long", "12345678901")
        .check(413, "longer than 10 bytes");
    it.ask(put().header("content-range", "bytes 0-0/2"), body())
        .check(400, "Content-Range");
    let compressed = it.ask(put().header("content-encoding", "gzip"), body());
    compressed.check(415, "Content-Encoding");
    assert_eq!(compressed.field("accept-encoding"), "identity");
    it.ask(put().header("if-match", "*"), body())
        .check(412, "precondition");
    it.ask(put().header("if-none-match", "*"), body())
        .check(201, "");
    it.ask(put().header("if-none-match", "*"), body())
        .check(412, "precondition");
    it.ask(put().header("if-match", "\"x\""), body())
        .check(412, "precondition");
    it.ask(put().header("if-match", "*"), body()).check(204, "");
    let get = it.ask(Request::get("/in/a"), Full::default());
    get.check(405, "GET is none of the methods for uploads");
    assert_eq!(get.field("allow"), "OPTIONS, POST, PUT");
    let options = it.ask(Request::options("/in/a"), Full::default());
    options.check(204, "");
    assert_eq!(options.field("allow"), "OPTIONS, POST, PUT");
    let forms = fixture("/in", ", methods = \"POST\"");
    assert_eq!(forms.put("/in", "x").field("allow"), "OPTIONS, POST");
    let stored = forms.post("/in", &form(&[("filename=a", "x")]));
    stored.check(201, "");
    let listed: serde_json::Value = serde_json::from_str(&stored.content).unwrap();
    let expected = json!([{"field": "", "name": "a", "replaced": false, "size": 1}]);
    assert_eq!(listed["stored"], expected);
    assert_eq!(stored.field("location"), "", "it has no path");
}

#[test]
fn the_files_of_a_form_are_stored_and_listed() {
    let it = fixture("/in/*", "");
    let stored = it.post(
        "/in/",
        &form(&[
            ("name=\"text\"", "no file"),
            ("name=\"a\"; filename=\"../x/one.txt\"", "1\r\n--X"),
            ("name=\"b\"; filename=\"\"", ""),
            (
                "name=\"c\"; filename=\"x\"; filename*=UTF-8''%E2%82%AC.txt",
                "",
            ),
            ("name=\"d\"; filename=\"日本 %22.txt\"", "4"),
        ]),
    );
    stored.check(201, "");
    let listed: serde_json::Value = serde_json::from_str(&stored.content).unwrap();
    let expected = [
        json!({"field": "a", "name": "one.txt", "path": "/in/one.txt", "replaced": false, "size": 6}),
        json!({"field": "c", "name": "€.txt", "path": "/in/%E2%82%AC.txt", "replaced": false, "size": 0}),
        json!({
            "field": "d", "name": "日本 \".txt", "path": "/in/%E6%97%A5%E6%9C%AC%20%22.txt",
            "replaced": false, "size": 1,
        }),
    ];
    assert_eq!(listed, json!({ "stored": expected }));
    assert_eq!(stored.field("content-type"), "application/json");
    assert_eq!(stored.field("location"), "", "there are several");
    it.check_stored(&[("one.txt", "1\r\n--X"), ("€.txt", ""), ("日本 \".txt", "4")]);
    let one = it.post("/in/", &form(&[("filename=one", "x")]));
    one.check(201, "");
    assert_eq!(one.field("location"), "/in/one");
}

#[test]
fn a_form_is_stored_as_a_whole_or_not_at_all() {
    let it = fixture("/in/*", ", parts = 3");
    fs::write(it.dir.path().join("there"), "mine").unwrap();
    let good = ("name=a; filename=new", "x");
    for (other, status, detail) in [
        (("filename=there", "x"), 409, "`there` is there already"),
        (("filename=new", "x"), 409, "the form has two files `new`"),
        (
            ("filename=\"dir/new\"", "x"),
            409,
            "the form has two files `new`",
        ),
        (("filename=\"..\"", "x"), 400, "a name begins with a dot"),
        (("filename=\"a\0b\"", "x"), 400, "can't be read"),
        (("filename=\"a%0Ab\"", "x"), 400, "a name has a slash"),
        (
            ("filename=nul.txt", "x"),
            400,
            "a name is that of a device on Windows",
        ),
        (
            ("filename=\"\"", "x"),
            400,
            "a file of the form has no name",
        ),
        (
            ("name=\"", "x"),
            400,
            "Content-Disposition of a part can't be read",
        ),
    ] {
        it.post("/in/", &form(&[good, other])).check(status, detail);
    }
    it.post(
        "/in/",
        &form(&[good, ("name=x", ""), ("name=y", ""), ("name=z", "")]),
    )
    .check(413, "more than 3 parts");
    let long = format!("filename=\"{}\"", "x".repeat(256));
    it.post("/in/", &form(&[good, (&long, "x")]))
        .check(400, "a name is longer than 255 bytes");
    it.post("/in/", &form(&[("name=a", "x")]))
        .check(400, "the form has no file");
    it.post("/in/", b"--XX--")
        .check(400, "the form has no file");
    it.check_stored(&[("there", "mine")]);
}

#[test]
fn what_is_no_form_is_refused() {
    let it = fixture("/in/*", "");
    let whole = form(&[("name=a; filename=a", "content")]);
    // A form that ends early is none, but for the end of its last line.
    for end in 0..whole.len() - 2 {
        it.post("/in/", &whole[..end]).check(400, "");
    }
    for malformed in [
        &b"--XX\r\n\r\nx\r\n--XX--\r\n"[..],
        b"--XX\r\nContent-Disposition: attachment; filename=a\r\n\r\nx\r\n--XX--\r\n",
        b"--XXContent-Disposition: form-data; filename=a\r\n\r\nx\r\n--XX--\r\n",
        b"--XX\nContent-Disposition: form-data; filename=a\n\nx\n--XX--\n",
    ] {
        it.post("/in/", malformed).check(400, "");
    }
    for (kind, status) in [
        ("text/plain", 415),
        ("multipart/mixed; boundary=XX", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
        (
            &format!("multipart/form-data; boundary={}", "x".repeat(71)),
            400,
        ),
    ] {
        let request = Request::post("/in/").header("content-type", kind);
        it.ask(request, Full::from(whole.clone())).check(status, "");
    }
    it.ask(Request::post("/in/"), Full::default())
        .check(415, "multipart/form-data");
    it.check_stored(&[]);
}

#[test]
fn heads_and_preambles_are_bounded() {
    let it = fixture("/in/*", "");
    let pieces = |content: Vec<u8>| {
        let pieces: Vec<_> = content
            .chunks(4 << 10)
            .map(Bytes::copy_from_slice)
            .collect();
        let frames = pieces
            .into_iter()
            .map(|it| Ok::<_, Infallible>(Frame::data(it)));
        StreamBody::new(futures_util::stream::iter(frames))
    };
    let post = || Request::post("/in/").header("content-type", "multipart/form-data; boundary=XX");
    let long = format!("--XX\r\nX-A: {}\r\n", "x".repeat(1 << 20));
    it.ask(post(), pieces(long.into_bytes()))
        .check(413, "the head of a part of the form is too long");
    it.ask(post(), pieces(vec![b'x'; 1 << 20]))
        .check(413, "the head of a part of the form is too long");
    let many = format!("--XX\r\n{}\r\n", "X-A: 1\r\n".repeat(100));
    it.ask(post(), pieces(many.into_bytes()))
        .check(400, "the form can't be read");
    // Long content is none of a head.
    let content = "y".repeat(3 << 20);
    let good = form(&[
        ("name=text", &content),
        ("filename=a", &content),
        ("filename=b", ""),
    ]);
    it.ask(post(), pieces(good)).check(201, "");
    it.check_stored(&[("a", &content), ("b", "")]);
}

#[test]
fn uploads_that_are_too_many_at_once_are_refused_and_end_with_their_clients() {
    let it = fixture("/in/*", ", concurrent = 2");
    let never = || {
        StreamBody::new(futures_util::stream::pending::<
            Result<Frame<Bytes>, Infallible>,
        >())
    };
    it.runtime.block_on(async {
        let begin = |path: &str| {
            let request = Request::put(path).body(never()).unwrap();
            let mut answering = Box::pin(it.uploads.clone().answer(request));
            let polled = answering
                .as_mut()
                .poll(&mut Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
            answering
        };
        let running = [begin("/in/a"), begin("/in/b")];
        let request = || Request::put("/in/c").body(Full::from("x")).unwrap();
        let refused = it.uploads.clone().answer(request()).await;
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "5");
        drop(running);
        let stored = it.uploads.clone().answer(request()).await;
        assert_eq!(stored.status(), 201);
    });
    it.check_stored(&[("c", "x")]);
}

#[test]
fn a_file_that_was_to_be_new_replaces_none_that_has_come_meanwhile() {
    let it = fixture("/in/*", ", replace = true, resumable = true");
    it.runtime.block_on(async {
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (tell, told) = tokio::sync::oneshot::channel();
        let piece = async move {
            begin.send(()).unwrap();
            told.await.unwrap();
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"late")))
        };
        let content = StreamBody::new(Box::pin(futures_util::stream::once(piece)));
        let late = Request::put("/in/a").header("if-none-match", "*");
        let late = it.uploads.clone().answer(late.body(content).unwrap());
        let late = tokio::spawn(late);
        begun.await.unwrap();
        let other = Request::put("/in/a").body(Full::<Bytes>::from("first"));
        let other = it.uploads.clone().answer(other.unwrap()).await;
        assert_eq!(other.status(), 201);
        tell.send(()).unwrap();
        assert_eq!(late.await.unwrap().status(), 412);
    });
    let part = Request::put("/in/b").header("if-none-match", "*");
    let part = it.ask(part.header("upload-complete", "?0"), Full::from("la"));
    part.check(201, "");
    it.put("/in/b", "second").check(201, "");
    let rest = Request::patch(part.field("location")).header("upload-offset", 2);
    let rest = rest.header("content-type", "application/partial-upload");
    it.ask(rest.header("upload-complete", "?1"), Full::from("te"))
        .check(412, "precondition");
    it.check_stored(&[("a", "first"), ("b", "second")]);
}

#[test]
fn fields_of_the_site_stand_in_responses_as_often_as_they_are_given() {
    let it = fixture("/in/*", "");
    for response in [it.put("/in/a", "x"), it.put("/in/a", "x")] {
        let links: Vec<_> = response.fields.get_all(header::LINK).iter().collect();
        assert_eq!(links, ["</a>", "</b>"]);
    }
}

#[test]
fn names_that_were_given_are_taken_back_when_another_is_taken_meanwhile() {
    let it = fixture("/in/*", "");
    let folder = &it.uploads.0.folder;
    let dir = folder.below(&[]).unwrap();
    let whole = |name: &str| {
        let mut file = folder.unnamed(&dir, 0).unwrap();
        file.append(&[Bytes::from_static(b"new")]).unwrap();
        let place = Place {
            folder: Arc::clone(&dir),
            name: name.into(),
            if_taken: IfTaken::Refused,
        };
        CompleteFile::new(place, &file)
    };
    let files = [whole("a"), whole("b"), whole("c")];
    it.put("/in/c", "other").check(201, "");
    let refused = folder.commit(&files).unwrap_err();
    assert_eq!(refused.status, 409);
    it.check_stored(&[("c", "other")]);
    let files = [whole("a"), whole("b")];
    assert_eq!(folder.commit(&files).unwrap(), [false, false]);
    it.check_stored(&[("a", "new"), ("b", "new"), ("c", "other")]);
}

#[test]
fn what_a_killed_server_has_left_is_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new, other] =
        [".altway-upload-1-2", ".altway-upload-1-3", ".other"].map(|it| dir.path().join(it));
    for path in [&old, &new, &other] {
        fs::write(path, "x").unwrap();
    }
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(90);
    for path in [&old, &other] {
        fs::File::open(path).unwrap().set_modified(past).unwrap();
    }
    Folder::open(dir.path(), 0).unwrap();
    assert!(!old.exists() && new.exists() && other.exists());
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_at_the_start() {
    let missing = Folder::open("/nowhere/at/all".as_ref(), 0).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "cannot open the folder `/nowhere/at/all` for uploads"
    );
    let unfit = Folder::open("/proc/self".as_ref(), 0).unwrap_err();
    assert!(
        unfit
            .to_string()
            .contains("a file without a name can't be made there"),
        "{unfit}"
    );
}

#[test]
fn space_that_is_to_be_left_is_left() {
    let it = fixture("/in/*", "");
    // More than any file system has.
    let folder = Folder::open(it.dir.path(), u64::MAX / 2).unwrap();
    let refused = folder.unnamed(&folder.below(&[]).unwrap(), 0).unwrap_err();
    assert_eq!(refused.status, 507);
    let folder = Folder::open(it.dir.path(), 0).unwrap();
    let refused = folder
        .unnamed(&folder.below(&[]).unwrap(), u64::MAX / 2)
        .unwrap_err();
    assert_eq!(refused.status, 507);
}

/// Pieces of forms, in any order.
fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let known = prop::sample::select(
        &[
            "--XX",
            "\r\n",
            "--XX--",
            "--",
            "\r\n\r\n",
            "Content-Disposition: form-data; ",
            "name=\"a\"",
            "; filename=\"f\"",
            "; filename*=UTF-8''%e2%82%ac",
            "\r\n--XX\r\n",
            "\r\n--XX--\r\n",
            "X: y\r\n",
            "-",
            "\r",
            "--XX\r\nContent-Disposition: form-data; name=a; filename=good\r\n\r\n",
        ][..],
    );
    let piece = prop_oneof![
        4 => known.prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ];
    prop::collection::vec(piece, 0..24)
}

fn stream(pieces: Vec<Vec<u8>>) -> impl Body<Data = Bytes, Error = Infallible> + Unpin + Send {
    let frames = pieces
        .into_iter()
        .map(|it| Ok(Frame::data(Bytes::from(it))));
    StreamBody::new(futures_util::stream::iter(frames))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_stored_as_what_they_list_or_refused(pieces in pieces()) {
        let it = fixture("/in/*", ", body = \"2KB\"");
        let post = Request::post("/in/").header("content-type", "multipart/form-data; boundary=XX");
        let answer = it.ask(post, stream(pieces));
        match answer.status {
            201 => {
                let listed: serde_json::Value = serde_json::from_str(&answer.content).unwrap();
                let listed = listed["stored"].as_array().unwrap();
                let mut names: Vec<_> = listed.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
                names.sort();
                prop_assert_eq!(names, it.stored().into_iter().map(|it| it.0).collect::<Vec<_>>());
            }
            status => {
                prop_assert!((400..500).contains(&status), "{status}: {}", answer.content);
                prop_assert_eq!(it.stored(), []);
            }
        }
    }

    #[test]
    fn content_is_stored_however_it_is_cut(
        contents in prop::collection::vec("(\r\n--X|[\r\n-]|x{1,40}|--XX|\n--XX){0,20}", 1..4),
        cuts in prop::collection::vec(1_usize..40, 1..8),
    ) {
        prop_assume!(contents.iter().all(|it| !it.contains("\r\n--XX")));
        let it = fixture("/in/*", "");
        let names = ["filename=0", "filename=1", "filename=2"];
        let parts: Vec<_> = names.into_iter().zip(contents.iter().map(String::as_str)).collect();
        let whole = form(&parts);
        let (mut rest, mut pieces, mut cuts) = (&whole[..], Vec::new(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
        }
        let post = Request::post("/in/").header("content-type", "multipart/form-data; boundary=XX");
        let answer = it.ask(post, stream(pieces));
        prop_assert_eq!(answer.status, 201, "{}", answer.content);
        let stored: Vec<_> = it.stored().into_iter().map(|it| it.1).collect();
        prop_assert_eq!(stored, contents);
    }
}
