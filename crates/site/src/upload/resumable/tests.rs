//! Tests of uploads that go on after an interruption, asked without a server.

use super::super::tests::{Fixture, fixture};
use super::*;
use http::Request;

fn create(it: &Fixture, path: &str, content: &str, length: Option<u64>) -> String {
    let mut request = Request::put(path).header("upload-complete", "?0");
    if let Some(length) = length {
        request = request.header("upload-length", length);
    }
    let created = it.ask(request, Full::from(content.to_owned()));
    created.check(201, "");
    assert_eq!(created.field("upload-offset"), content.len().to_string());
    assert_eq!(created.field("upload-limit"), "max-size=100, max-age=3600");
    let location = created.field("location").to_owned();
    assert!(location.starts_with("/in/.uploads/"), "{location}");
    location
}

fn patch(path: &str, offset: u64, complete: &str) -> http::request::Builder {
    let request = Request::patch(path).header("content-type", PARTIAL);
    let request = request.header("upload-offset", offset);
    request.header("upload-complete", complete)
}

fn resumable() -> Fixture {
    fixture("/in/*", ", resumable = true, body = \"100B\"")
}

#[test]
fn an_upload_goes_on_where_it_was_interrupted() {
    let it = resumable();
    let path = create(&it, "/in/a", "one", Some(9));
    let told = it.ask(Request::head(&path), Full::default());
    told.check(204, "");
    let fields = [
        "upload-offset",
        "upload-complete",
        "upload-length",
        "cache-control",
    ];
    assert_eq!(
        fields.map(|name| told.field(name)),
        ["3", "?0", "9", "no-store"]
    );
    let more = it.ask(patch(&path, 3, "?0"), Full::from("two"));
    more.check(204, "");
    assert_eq!(more.field("upload-offset"), "6");
    it.check_stored(&[]);
    let wrong = it.ask(patch(&path, 3, "?1"), Full::from("six"));
    wrong.check(409, "\"expected-offset\":6");
    wrong.check(409, "mismatching-upload-offset");
    let done = it.ask(patch(&path, 6, "?1"), Full::from("six"));
    done.check(201, "");
    assert_eq!(
        ["location", "upload-complete"].map(|name| done.field(name)),
        ["/in/a", "?1"]
    );
    it.check_stored(&[("a", "onetwosix")]);
    it.ask(Request::head(&path), Full::default()).check(404, "");
    it.ask(
        Request::put("/in/b").header("upload-complete", "?1"),
        Full::from("x"),
    )
    .check(201, "");
}

#[test]
fn lengths_and_fields_are_kept_to() {
    let it = resumable();
    let path = create(&it, "/in/a", "", Some(4));
    it.ask(
        patch(&path, 0, "?1").header("upload-length", 5),
        Full::from("x"),
    )
    .check(400, "inconsistent-upload-length");
    it.ask(patch(&path, 0, "?1"), Full::from("12345"))
        .check(413, "");
    it.ask(patch(&path, 0, "?1"), Full::from("123"))
        .check(400, "inconsistent-upload-length");
    it.ask(patch(&path, 3, "yes"), Full::from("4"))
        .check(400, "Upload-Complete");
    it.ask(patch(&path, 3, "?1"), Full::from("4"))
        .check(201, "");
    let plain = Request::patch(&path)
        .header("upload-offset", 3)
        .header("upload-complete", "?1");
    it.ask(plain, Full::from("4")).check(404, "");
    let path = create(&it, "/in/b", "", None);
    let plain = Request::patch(&path)
        .header("upload-offset", 3)
        .header("upload-complete", "?1");
    it.ask(plain, Full::from("4")).check(415, PARTIAL);
    let compressed = patch(&path, 0, "?1").header("content-encoding", "gzip");
    it.ask(compressed, Full::from("4"))
        .check(415, "Content-Encoding");
    let plain = Request::patch(&path)
        .header("content-type", PARTIAL)
        .header("upload-complete", "?1");
    it.ask(plain, Full::from("4")).check(400, "Upload-Offset");
    it.ask(Request::get(&path), Full::default()).check(405, "");
    it.ask(Request::delete(&path), Full::default())
        .check(204, "");
    it.ask(Request::head(&path), Full::default()).check(404, "");
    let long = Request::put("/in/c")
        .header("upload-complete", "?0")
        .header("upload-length", 101);
    it.ask(long, Full::default()).check(413, "");
    it.check_stored(&[("a", "1234")]);
}

#[test]
fn a_name_that_is_taken_in_the_meantime_is_refused_at_the_end() {
    let it = resumable();
    let path = create(&it, "/in/a", "mine", None);
    it.put("/in/a", "other").check(201, "");
    it.ask(patch(&path, 4, "?1"), Full::default())
        .check(409, "`a` is there already");
    it.check_stored(&[("a", "other")]);
}

#[test]
fn without_the_switch_nothing_of_it_is_there() {
    let it = fixture("/in/*", "");
    it.ask(
        Request::put("/in/a").header("upload-complete", "?0"),
        Full::from("x"),
    )
    .check(501, "can't be resumed");
    it.ask(Request::head("/in/.uploads/x"), Full::default())
        .check(405, "");
    it.check_stored(&[]);
}

#[test]
fn an_append_gives_way_to_the_next_request() {
    let it = resumable();
    let path = create(&it, "/in/a", "", None);
    it.runtime.block_on(async {
        let piece = http_body::Frame::data(Bytes::from_static(b"12"));
        let pieces = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(piece)]);
        let endless = futures_util::StreamExt::chain(pieces, futures_util::stream::pending());
        let body = http_body_util::StreamBody::new(endless);
        let append = patch(&path, 0, "?1").body(body).unwrap();
        let first = tokio::spawn(it.uploads.clone().answer(append));
        let offset = async || {
            let head = Request::head(&path).body(Full::<Bytes>::default()).unwrap();
            let told = it.uploads.clone().answer(head).await;
            told.headers()[OFFSET].to_str().unwrap().to_owned()
        };
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(offset().await, "2");
        assert_eq!(first.await.unwrap().status(), 409);
    });
    it.ask(patch(&path, 2, "?1"), Full::from("3"))
        .check(201, "");
    it.check_stored(&[("a", "123")]);
}

fn upload(it: &Fixture, path: &str) -> Arc<Upload> {
    let token = path.rsplit('/').next().unwrap();
    it.uploads.0.incomplete.get(token).unwrap()
}

/// Another incomplete upload like one that there is, of the client at 192.0.2.`client`.
fn begin(it: &Fixture, like: &Upload, client: u8) -> Result<String, Refusal> {
    let address = [192, 0, 2, client].into();
    it.uploads.0.incomplete.add(&Arc::new(Upload {
        client: Some(ClientPrefix::of(address, it.uploads.0.client_prefix)),
        place: like.place.clone(),
        folders: Vec::new(),
        file: Arc::clone(&like.file),
        requests: watch::Sender::new(0),
        touched: Arc::new(Mutex::new(Instant::now())),
    }))
}

#[test]
fn they_are_bounded_in_number_and_no_client_has_more_than_are_left() {
    let it = resumable();
    let path = create(&it, "/in/a", "", None);
    let like = upload(&it, &path);
    it.ask(Request::delete(&path), Full::default())
        .check(204, "");
    let mut tokens: Vec<_> = (0..MOST / 2)
        .map(|_| begin(&it, &like, 1).unwrap())
        .collect();
    assert_eq!(begin(&it, &like, 1).unwrap_err().status, 503);
    for _ in 0..MOST / 4 {
        begin(&it, &like, 2).unwrap();
    }
    assert_eq!(begin(&it, &like, 2).unwrap_err().status, 503);
    it.uploads.0.incomplete.remove(&tokens.pop().unwrap());
    for client in 3..3 + MOST / 4 + 1 {
        begin(&it, &like, u8::try_from(client).unwrap()).unwrap();
    }
    assert_eq!(begin(&it, &like, 1).unwrap_err().status, 503);
    assert_eq!(begin(&it, &like, u8::MAX).unwrap_err().status, 503);
}

#[test]
fn one_that_nobody_asks_for_is_kept_for_an_hour() {
    let it = resumable();
    let path = create(&it, "/in/a", "", None);
    let incomplete = &it.uploads.0.incomplete;
    incomplete.forget_old(Instant::now() + MAX_AGE / 2);
    it.ask(Request::head(&path), Full::default()).check(204, "");
    incomplete.forget_old(Instant::now() + MAX_AGE * 2);
    it.ask(Request::head(&path), Full::default()).check(404, "");
}

#[test]
fn one_that_was_appended_to_for_longer_than_it_is_kept_goes_on_after_an_interruption() {
    let it = resumable();
    let path = create(&it, "/in/a", "", None);
    let upload = upload(&it, &path);
    let append = it.runtime.block_on(upload.take());
    let began = *upload.touched.lock().unwrap();
    let is_kept = began + MAX_AGE + Duration::from_nanos(1);
    while began.elapsed() <= Duration::from_nanos(1) {}
    drop(append);
    it.uploads.0.incomplete.forget_old(is_kept);
    it.ask(Request::head(&path), Full::default()).check(204, "");
}

#[test]
fn of_two_requests_at_the_same_moment_the_earlier_gives_way() {
    let it = resumable();
    let upload = upload(&it, &create(&it, "/in/a", "", None));
    let (first, mut second) = (upload.turn(), upload.turn());
    // Another thread's request may be counted before the first one has its receiver.
    let late = Turn {
        requests: upload.requests.subscribe(),
        count: first.count,
        touched: Arc::clone(&upload.touched),
    };
    it.runtime.block_on(async {
        for mut turn in [first, late] {
            let over = tokio::time::timeout(Duration::from_secs(10), turn.is_over());
            assert!(over.await.is_ok(), "it has to give way");
        }
        let over = tokio::time::timeout(Duration::ZERO, second.is_over());
        assert!(over.await.is_err(), "it is the latest");
    });
}

#[test]
fn a_request_that_has_found_an_upload_which_is_gone_meanwhile_stores_nothing() {
    let it = resumable();
    for last in [Method::DELETE, Method::PATCH] {
        let path = create(&it, "/in/a", "x", None);
        let (found, token) = (upload(&it, &path), path.rsplit('/').next().unwrap());
        let request = patch(&path, 1, "?1").method(last);
        let answer = it.ask(request, Full::default());
        assert!(!answer.field("x-site").is_empty());
        it.ask(Request::head(&path), Full::default()).check(404, "");
        let fields = patch(&path, 1, "?1").body(()).unwrap().headers().clone();
        let late = it
            .uploads
            .append(token, &found, &fields, Full::<Bytes>::default());
        assert_eq!(it.runtime.block_on(late).unwrap_err().status, 404);
    }
    it.check_stored(&[("a", "x")]);
}
