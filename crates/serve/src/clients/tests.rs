//! Tests that shares are given back, that no bound is passed, and who goes first.

use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

const SECOND: Duration = Duration::from_secs(1);

/// A table, and what struck.
struct Bench {
    clients: Clients,
    incidents: Rc<RefCell<Vec<(IpAddr, Incident)>>>,
    now: Instant,
}

fn bench(change: impl FnOnce(&mut Limits)) -> Bench {
    let mut limits = Limits::default();
    change(&mut limits);
    let incidents = Rc::<RefCell<Vec<_>>>::default();
    let recorded = Rc::clone(&incidents);
    Bench {
        clients: Clients::new(
            &limits,
            HeldBytes::new(limits.max_held_bytes),
            move |address, incident| {
                recorded.borrow_mut().push((address, incident));
            },
        ),
        incidents,
        now: Instant::now(),
    }
}

fn client(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

impl Bench {
    fn admit(&self, number: u32) -> Option<Rc<AdmittedConnection>> {
        let address = client(number);
        self.clients.admit(address, Transport::Tcp, self.now)
    }

    fn idle(&self, number: u32) -> Rc<AdmittedConnection> {
        let admitted = self.admit(number).expect("there is room");
        admitted.handshake_done();
        admitted
    }

    fn struck(&self) -> Vec<(IpAddr, Incident)> {
        self.incidents.take()
    }

    fn assert_empty(&self) {
        let shared = &self.clients.0;
        let table = shared.table.borrow();
        assert_eq!((table.open, table.leaving), ([0; 2], [0; 2]));
        assert!(table.clients.is_empty());
        assert_eq!((shared.handshakes.get(), shared.requests.get()), (0, 0));
    }
}

#[test]
fn requests_of_all_clients_are_told_as_long_as_they_are_there() {
    let told = Gauge::default();
    let limits = Limits::default();
    let held = HeldBytes::new(limits.max_held_bytes);
    let clients = Clients::counted(&limits, held, |_, _| {}, told.clone());
    let connect = |number| {
        let admitted = clients.admit(client(number), Transport::Tcp, Instant::now());
        admitted.expect("there is room")
    };
    let (one, two) = (connect(1), connect(2));
    one.set_requests(3);
    two.set_requests(1);
    assert_eq!(told.get(), 4);
    one.set_requests(2);
    assert_eq!(told.get(), 3);
    drop(two);
    assert_eq!(told.get(), 2);
    drop(one);
    assert_eq!(told.get(), 0);
}

#[test]
fn a_client_beyond_its_share_of_connections_is_refused_and_others_are_not() {
    let bench = bench(|limits| limits.max_connections = 40);
    let held: Vec<_> = (0..5).map(|_| bench.idle(1)).collect();
    assert!(bench.admit(1).is_none());
    assert_eq!(bench.struck(), [(client(1), Incident::ConnectionLimit)]);
    assert!(bench.admit(2).is_some());
    let quic = |number| {
        let address = client(number);
        bench.clients.admit(address, Transport::Quic, bench.now)
    };
    assert!(quic(1).is_none(), "both transports count");
    drop(held);
    assert!(quic(1).is_some());
    bench.assert_empty();
}

#[test]
fn handshakes_have_a_share_of_their_own() {
    let bench = bench(|limits| limits.max_handshakes_per_client = Some(2));
    let handshakes = [bench.admit(1).unwrap(), bench.admit(1).unwrap()];
    assert!(bench.admit(1).is_none());
    assert_eq!(bench.struck(), [(client(1), Incident::HandshakeLimit)]);
    handshakes[0].handshake_done();
    assert!(bench.admit(1).is_some());
}

#[test]
fn half_of_a_share_is_not_for_addresses_that_may_be_forged() {
    let bench = bench(|limits| limits.max_connections = 32);
    let _one = bench.idle(1);
    assert!(!bench.clients.is_crowded(client(1)));
    let _two = bench.idle(1);
    assert!(bench.clients.is_crowded(client(1)));
    assert!(!bench.clients.is_crowded(client(2)));
}

#[test]
fn the_longest_idle_goes_first_from_nine_tenths_on() {
    let bench = bench(|limits| limits.max_connections = 40);
    let held: Vec<_> = (0..36).map(|number| bench.idle(number)).collect();
    // These two were idle for longest; one is busy now, and one was.
    held[0].set_requests(1);
    held[1].set_requests(1);
    held[1].set_requests(0);
    assert!(held.iter().all(|it| !it.is_evicted()));
    let _new = bench.idle(100);
    let evicted: Vec<_> = (0..36).filter(|i| held[*i].is_evicted()).collect();
    assert_eq!(evicted, [2]);
    assert_eq!(bench.struck(), [(client(2), Incident::EvictedConnection)]);
    // What is on its way out makes room, though it is there still.
    let _newer = bench.idle(101);
    assert!(held[3].is_evicted());
}

#[test]
fn each_endpoint_of_quic_is_told_of_its_own_connections() {
    let bench = bench(|limits| limits.max_connections = 40);
    let held: Vec<_> = (0..36)
        .map(|number| {
            let admitted = bench
                .clients
                .admit(client(number), Transport::Quic, bench.now);
            let admitted = admitted.expect("there is room");
            // Two endpoints, with the same handles.
            let number = number as usize;
            admitted.name(number % 2, ConnectionHandle(number / 2));
            admitted.handshake_done();
            admitted
        })
        .collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut told = |endpoint| bench.clients.poll_evicted(endpoint, &mut cx);
    assert_eq!((told(0), told(1)), (Poll::Pending, Poll::Pending));
    let newcomer = |number| {
        bench
            .clients
            .admit(client(number), Transport::Quic, bench.now)
    };
    let new = [newcomer(100), newcomer(101), newcomer(102)];
    assert!(new.iter().all(Option::is_some) && held[0].is_evicted());
    let (first, second) = (ConnectionHandle(0), ConnectionHandle(1));
    assert_eq!(told(0), Poll::Ready(vec![first, second]));
    assert_eq!(told(1), Poll::Ready(vec![first]));
    assert_eq!((told(0), told(1)), (Poll::Pending, Poll::Pending));
}

#[test]
fn ten_thousand_idle_clients_keep_nobody_waiting() {
    let bench = bench(|_| {});
    let mut held = std::collections::VecDeque::new();
    for number in 0..30_000 {
        held.push_back(bench.idle(number));
        // As their tasks would.
        while held.front().is_some_and(|it| it.is_evicted()) {
            held.pop_front();
        }
        assert!(held.len() <= 9_001);
    }
    held.clear();
    bench.assert_empty();
}

#[test]
fn without_idle_connections_newcomers_are_refused_at_the_limit() {
    let bench = bench(|limits| limits.max_connections = 10);
    let busy: Vec<_> = (0..10).map(|number| bench.idle(number)).collect();
    for (number, connection) in busy.iter().enumerate() {
        assert!(connection.set_requests(1), "{number}");
    }
    drop(bench.struck());
    assert!(bench.admit(100).is_none());
    assert_eq!(bench.struck(), [(client(100), Incident::ConnectionLimit)]);
}

#[test]
fn a_handshake_that_stalls_loses_its_place_to_a_new_one() {
    let mut bench = bench(|limits| limits.max_handshakes = 2);
    let old = [bench.admit(1).unwrap(), bench.admit(2).unwrap()];
    assert!(bench.admit(3).is_none(), "they are not old enough");
    bench.now += SECOND;
    let new = bench.admit(3).unwrap();
    assert!(old[0].is_evicted() && !old[1].is_evicted() && !new.is_evicted());
    drop((old, new));
    bench.assert_empty();
}

#[test]
fn requests_beyond_the_share_of_a_client_or_of_all_do_not_fit() {
    let bench = bench(|limits| {
        limits.max_requests = 13;
        limits.max_requests_per_client = Some(8);
    });
    let [one, two, other] = [1, 1, 2].map(|number| bench.idle(number));
    assert!(one.set_requests(5) && two.set_requests(3));
    assert!(!two.set_requests(4));
    assert_eq!(bench.struck(), [(client(1), Incident::RequestLimit)]);
    assert!(two.set_requests(3) && other.set_requests(4));
    assert!(!other.set_requests(5));
    drop(one);
    assert!(other.set_requests(5));
}

#[test]
fn clients_that_take_all_requests_they_can_leave_some_for_another() {
    let bench = bench(|limits| limits.max_requests = 1_000);
    let greedy: Vec<_> = (1..=20).map(|number| bench.idle(number)).collect();
    // They ask in turns, so that no one is late.
    for connection in (0..200).flat_map(|_| greedy.iter()) {
        let had = connection.requests();
        if !connection.set_requests(had + 1) {
            connection.set_requests(had);
        }
    }
    let all = greedy.iter().map(|it| it.requests()).sum::<usize>();
    assert!((950..1_000).contains(&all), "{all}");
    assert!(bench.idle(21).set_requests(1));
}

#[test]
fn a_few_requests_of_a_client_fit_though_a_crowd_asks_for_more_than_there_is() {
    let bench = bench(|limits| limits.max_requests = 100);
    let crowd: Vec<_> = (1..=20).map(|number| bench.idle(number)).collect();
    for connection in &crowd {
        assert!(!connection.set_requests(100));
    }
    let [one, another] = [21, 21].map(|number| bench.idle(number));
    assert!(one.set_requests(FEW_REQUESTS - 1) && another.set_requests(1));
    assert!(!another.set_requests(2));
    assert!(one.set_requests(0) && another.set_requests(2));
}

#[test]
fn clients_that_take_all_connections_they_can_leave_some_for_another() {
    let bench = bench(|limits| limits.max_connections = 1_000);
    let mut greedy = Vec::new();
    for number in (0..200).flat_map(|_| 1..=20) {
        let busy = bench.admit(number).inspect(|it| it.handshake_done());
        greedy.extend(busy.inspect(|it| assert!(it.set_requests(1))));
    }
    assert!((950..1_000).contains(&greedy.len()), "{}", greedy.len());
    assert!(bench.admit(21).is_some());
}

#[test]
fn a_client_that_may_have_everything_has_everything() {
    let bench = bench(|limits| {
        limits.max_requests = 100;
        limits.max_requests_per_client = Some(100);
    });
    assert!(bench.idle(1).set_requests(100));
}

#[test]
fn held_bytes_are_shared_by_a_client_s_connections_alone() {
    let bench = bench(|limits| limits.max_held_bytes_per_client = Some(1_000));
    let [one, two, other] = [1, 1, 2].map(|number| bench.idle(number));
    let mut held = [one.held().holder(), two.held().holder()];
    one.set_requests(1);
    held[0].set(500);
    held[1].set(500);
    assert!(one.held().is_full() && !other.held().is_full());
    held[1].set(0);
    assert!(!one.held().is_full());
    one.set_requests(0);
    assert_eq!(bench.struck(), [(client(1), Incident::MemoryLimit)]);
}

#[derive(Debug, Clone)]
enum Step {
    Admit(u32, bool),
    Done(usize),
    Requests(usize, usize),
    Drop(usize),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u32, any::<bool>()).prop_map(|(client, tcp)| Step::Admit(client, tcp)),
        3 => any::<usize>().prop_map(Step::Done),
        2 => (any::<usize>(), 0..5_usize).prop_map(|(it, n)| Step::Requests(it, n)),
        2 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_bound_is_passed_and_everything_is_given_back(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut bench = bench(|limits| {
            limits.max_connections = 20;
            limits.max_connections_per_client = Some(4);
            limits.max_handshakes = 6;
            limits.max_handshakes_per_client = Some(3);
        });
        let mut held: Vec<Rc<AdmittedConnection>> = Vec::new();
        for step in steps {
            let pick = |i: usize| (!held.is_empty()).then(|| &held[i % held.len()]);
            match step {
                Step::Admit(number, tcp) => {
                    let transport = if tcp { Transport::Tcp } else { Transport::Quic };
                    held.extend(bench.clients.admit(client(number), transport, bench.now));
                }
                Step::Done(i) => pick(i).into_iter().for_each(|it| it.handshake_done()),
                Step::Requests(i, n) => pick(i).into_iter().for_each(|it| { it.set_requests(n); }),
                Step::Drop(i) if !held.is_empty() => drop(held.swap_remove(i % held.len())),
                Step::Drop(_) => {}
                Step::Wait => bench.now += SECOND,
            }
            let shared = &bench.clients.0;
            let table = shared.table.borrow();
            prop_assert!(table.open.iter().all(|open| *open <= 20));
            prop_assert!(table.clients.len() <= table.open[0] + table.open[1]);
            prop_assert!(shared.handshakes.get() <= 6);
            prop_assert_eq!(table.open[0] + table.open[1], held.len());
            let requests: usize = held.iter().map(|it| it.requests()).sum();
            prop_assert_eq!(shared.requests.get(), requests);
            for client in table.clients.values() {
                prop_assert!((1..=4).contains(&client.connections.get()));
                prop_assert!(client.handshakes.get() <= 3);
            }
        }
        drop(held);
        bench.assert_empty();
    }
}

#[test]
fn what_comes_faster_than_its_rate_is_refused_over_all_connections_of_a_client() {
    let bench = bench(|limits| limits.requests_per_prefix = Some("1/s, burst 3".parse().unwrap()));
    let (one, two, other) = (bench.idle(1), bench.idle(1), bench.idle(2));
    assert_eq!(one.request(bench.now), Ok(()));
    assert_eq!(two.request(bench.now), Ok(()));
    assert_eq!(one.request(bench.now), Ok(()));
    assert_eq!(two.request(bench.now), Err(SECOND));
    assert_eq!(other.request(bench.now), Ok(()));
    assert_eq!(bench.struck(), [(client(1), Incident::RequestRate)]);
    assert_eq!(two.request(bench.now + SECOND), Ok(()));
}

#[test]
fn a_client_that_comes_again_is_remembered_as_long_as_its_rate_counts() {
    let mut bench =
        bench(|limits| limits.requests_per_prefix = Some("1/s, burst 2".parse().unwrap()));
    let last = bench.idle(1);
    (0..2).for_each(|_| last.request(bench.now).unwrap());
    drop(last);
    assert_eq!(bench.idle(1).request(bench.now), Err(SECOND));
    bench.now += 10 * SECOND;
    let again = bench.idle(1);
    (0..2).for_each(|_| again.request(bench.now).unwrap());
    bench.now += 10 * SECOND;
    // Somebody else's request shows what time it is.
    bench.idle(2).request(bench.now).unwrap();
    drop(again);
    let table = bench.clients.0.table.borrow();
    let known: Vec<_> = table
        .departed
        .iter()
        .map(|(prefix, _)| prefix.to_string())
        .collect();
    assert_eq!(
        known,
        ["10.0.0.2/32"],
        "the other one's rate counts no more"
    );
}

#[test]
fn however_many_clients_come_and_go_the_memory_of_their_rates_is_bounded() {
    let bench = bench(|limits| limits.requests_per_prefix = Some("1/h".parse().unwrap()));
    for number in 0..=MAX_IDLE_PREFIXES as u32 {
        bench.idle(number).request(bench.now).unwrap();
    }
    assert_eq!(
        bench.clients.0.table.borrow().departed.len(),
        MAX_IDLE_PREFIXES
    );
    assert!(bench.idle(0).request(bench.now).is_ok(), "forgotten");
    assert!(bench.idle(7).request(bench.now).is_err());
    bench.assert_empty();
}

#[test]
fn by_default_loopback_addresses_may_ask_as_fast_as_they_like() {
    let bench = bench(|_| {});
    let asked = |address: IpAddr| {
        let admitted = bench.clients.admit(address, Transport::Tcp, bench.now);
        let admitted = admitted.unwrap();
        let refused = (0..60_000).filter(|_| admitted.request(bench.now).is_err());
        refused.count()
    };
    assert_eq!(asked("127.0.0.1".parse().unwrap()), 0);
    assert_eq!(asked("::ffff:127.0.0.1".parse().unwrap()), 0);
    assert_eq!(asked(client(1)), 10_000);
}
