//! Files that change, vanish, or are not taken while they are served.

use crate::common::h3::H3;
use crate::common::{LARGE, Running, get, get_over, h1, h2, large, soon};
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use socket2::SockRef;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn one_worker(options: &mut altway_serve::Options) {
    options.threads = NonZeroUsize::MIN;
}

/// Overwrites `/large` in place by other bytes, once a part of it has been sent.
fn overwrite(server: &Running) {
    let file = fs::File::options()
        .write(true)
        .open(server.site.folder().join("large"));
    let file = file.unwrap();
    let other: Vec<u8> = large().iter().map(|byte| !byte).collect();
    file.write_all_at(&other, 0).unwrap();
}

/// Checks a response whose file was overwritten: a beginning of the former version, and not all of it.
fn check_cut_off(protocol: &str, came: &[u8]) {
    assert!(came.len() < LARGE, "{protocol}: {} bytes came", came.len());
    assert!(
        large().starts_with(came),
        "{protocol}: bytes of another version"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_overwritten_while_it_is_sent_is_cut_off_over_tcp() {
    for protocol in ["h1", "h2"] {
        let server = Running::tls(one_worker);
        let mut body = match protocol {
            "h1" => {
                let mut client = h1::<Empty<_>>(server.connect_tls(&[b"http/1.1"]).await).await;
                soon(client.send_request(get("/large")))
                    .await
                    .unwrap()
                    .into_body()
            }
            _ => {
                let mut client = h2::<Empty<_>>(server.connect_tls(&[b"h2"]).await).await;
                soon(client.send_request(get("/large")))
                    .await
                    .unwrap()
                    .into_body()
            }
        };
        let mut came = Vec::new();
        let first = soon(body.frame()).await.unwrap().unwrap();
        came.extend_from_slice(&first.into_data().unwrap());
        overwrite(&server);
        while let Some(Ok(frame)) = soon(body.frame()).await {
            came.extend_from_slice(&frame.into_data().unwrap());
        }
        check_cut_off(protocol, &came);
    }
}

#[test]
fn a_file_that_is_overwritten_while_it_is_sent_is_cut_off_over_http_3() {
    let server = Running::tls(one_worker);
    let mut client = H3::connect(&server);
    let stream = client.send("/large");
    client.head(stream);
    let mut came = client.part(stream).unwrap().to_vec();
    overwrite(&server);
    while let Some(part) = client.part_or_cut_off(stream) {
        came.extend_from_slice(&part);
    }
    check_cut_off("h3", &came);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_file_is_closed_soon_though_its_connection_stays() {
    let server = Running::clear(one_worker);
    let mut client = h2::<Empty<_>>(server.connect().await).await;
    let response = soon(client.send_request(get_over(false, "/large")))
        .await
        .unwrap();
    let size = soon(response.into_body().collect())
        .await
        .unwrap()
        .to_bytes()
        .len();
    assert_eq!(size, LARGE);
    let path = server.site.folder().join("large");
    fs::remove_file(&path).unwrap();
    let deleted = format!("{} (deleted)", path.display());
    let is_open = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.as_os_str() == deleted.as_str())
    };
    assert!(is_open(), "kept for the next request");
    soon(async {
        while is_open() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    drop(client);
}

/// The status of each path over each protocol.
async fn statuses(server: &Running, paths: &[&str]) -> Vec<(&'static str, String, StatusCode)> {
    let mut statuses = Vec::new();
    let mut over_1 = h1::<Empty<_>>(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_2 = h2::<Empty<_>>(server.connect_tls(&[b"h2"]).await).await;
    let mut over_3 = H3::connect(server);
    for path in paths {
        let response = soon(over_1.send_request(get(path))).await.unwrap();
        statuses.push(("h1", (*path).to_owned(), response.status()));
        soon(response.into_body().collect()).await.unwrap();
        let response = soon(over_2.send_request(get(path))).await.unwrap();
        statuses.push(("h2", (*path).to_owned(), response.status()));
        let stream = over_3.send(path);
        statuses.push(("h3", (*path).to_owned(), over_3.head(stream).0.status()));
    }
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_files_are_not_found_over_every_protocol_unless_they_are_to_be_served() {
    const HIDDEN: [&str; 4] = ["/.env", "/%2eenv", "/.git/config", "/sub/.env"];
    const SEEN: [&str; 2] = ["/", "/.well-known/security.txt"];
    for serves_hidden in [false, true] {
        let server = Running::tls(|options| {
            if serves_hidden {
                options.site = options.site.clone().with_hidden();
            }
        });
        for folder in [".git", "sub", ".well-known"] {
            fs::create_dir(server.site.folder().join(folder)).unwrap();
        }
        for name in [
            ".env",
            ".git/config",
            "sub/.env",
            ".well-known/security.txt",
        ] {
            server.site.write(name, "content");
        }
        let hidden = match serves_hidden {
            true => StatusCode::OK,
            false => StatusCode::NOT_FOUND,
        };
        for (paths, expected) in [(&HIDDEN[..], hidden), (&SEEN[..], StatusCode::OK)] {
            for (protocol, path, status) in statuses(&server, paths).await {
                assert_eq!(status, expected, "{protocol} {path} {serves_hidden}");
            }
        }
    }
}

/// A client that asks for a large file over HTTP/1.1 and takes `per_second` bytes of it; how long the
/// server bears with it.
async fn patience(server: &Running, tls: bool, per_second: usize) -> Duration {
    let request = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut stream: Box<dyn crate::common::Stream> = match tls {
        true => {
            let stream = server.connect_tls(&[b"http/1.1"]).await;
            SockRef::from(stream.get_ref().0)
                .set_recv_buffer_size(4096)
                .unwrap();
            Box::new(stream)
        }
        false => {
            let stream = server.connect().await;
            SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
            Box::new(stream)
        }
    };
    stream.write_all(request).await.unwrap();
    let began = Instant::now();
    let mut buffer = vec![0; per_second.div_ceil(10)];
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Written to find out whether the other end is still there: a second request.
        let is_there = stream.write_all(b"G").await.is_ok();
        if !is_there || (per_second > 0 && stream.read_exact(&mut buffer).await.is_err()) {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(25), "for ever");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_1_client_that_reads_nothing_or_trickles_is_reset_after_the_idle_time_out() {
    for tls in [false, true] {
        let idle = Duration::from_secs(1);
        let change = |options: &mut altway_serve::Options| options.limits.idle_timeout = idle;
        let server = match tls {
            true => Running::tls(change),
            false => Running::clear(change),
        };
        let nothing = patience(&server, tls, 0).await;
        assert!(nothing >= idle, "tls {tls}: {nothing:?}");
        let trickle = patience(&server, tls, 100).await;
        assert!(trickle >= idle, "tls {tls}: {trickle:?}");
    }
}
