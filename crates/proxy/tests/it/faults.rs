//! Servers that die and come back at random while requests go on.

use crate::common::{Client, Connection, origin, proxy, tcp, to};
use altway_upstream::Protocol;
use http::{Request, Version};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const CLIENTS: usize = 8;
const REQUESTS: usize = 250;

/// The requests that were seen, by their path, and the server that is dying at the moment.
#[derive(Default)]
struct World {
    seen: Mutex<HashMap<String, usize>>,
    dying: AtomicUsize,
}

fn server(number: usize, world: &Arc<World>) -> SocketAddr {
    let world = Arc::clone(world);
    let luck = Arc::new(AtomicUsize::new(1));
    origin(move |connection| live(number, &world, &luck, connection))
}

/// Answers, or dies in one of three ways before a byte of the response.
fn live(number: usize, world: &World, luck: &AtomicUsize, mut connection: Connection) {
    loop {
        let is_dying = || world.dying.load(Ordering::SeqCst) == number;
        let draw = luck.fetch_add(1, Ordering::SeqCst) % 3;
        if is_dying() && draw == 0 {
            return;
        }
        let Some(head) = connection.head() else {
            return;
        };
        *world
            .seen
            .lock()
            .unwrap()
            .entry(head[0].clone())
            .or_default() += 1;
        if is_dying() && draw == 1 {
            return;
        }
        connection.ok(&head[0]);
        if is_dying() && draw == 2 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_idempotent_request_is_answered_and_no_post_goes_twice() {
    let world = Arc::new(World::default());
    let servers: Vec<_> = (0..3).map(|number| server(number, &world)).collect();
    let mut options = to(servers[0]);
    options.servers = servers.iter().map(|it| tcp(*it, Protocol::Http1)).collect();
    options.attempts = 6;
    let running = proxy(options);
    let clients = (0..CLIENTS).map(|client| {
        let (address, world) = (running.address, Arc::clone(&world));
        tokio::spawn(async move {
            let version = [Version::HTTP_11, Version::HTTP_2][client % 2];
            let mut connection = Client::new(address, version).await;
            let mut lost = 0;
            for request in 0..REQUESTS {
                if request % 10 == 0 {
                    world.dying.store((client + request) % 4, Ordering::SeqCst);
                }
                let is_post = request % 3 == 0;
                let path = format!("/{client}/{request}");
                let method = if is_post { "POST" } else { "GET" };
                let asked = Request::builder().method(method).uri(&path);
                let response = connection.ask(asked, "").await;
                match response.status().as_u16() {
                    200 => {
                        let expected = format!("{method} {path} http/1.1").to_ascii_lowercase();
                        assert_eq!(response.body(), &expected);
                    }
                    502 if is_post => lost += 1,
                    status => panic!("{method} {path}: {status}"),
                }
            }
            lost
        })
    });
    let mut lost = 0;
    for client in clients.collect::<Vec<_>>() {
        lost += client.await.unwrap();
    }
    let seen = world.seen.lock().unwrap();
    let posts = seen.iter().filter(|(line, _)| line.starts_with("post"));
    let twice: Vec<_> = posts.filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    // The servers did die under requests.
    let again = seen.values().filter(|count| **count > 1).count();
    assert!(again + lost > 0, "nothing has failed");
}
