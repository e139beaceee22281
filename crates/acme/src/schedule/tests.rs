//! The schedule against an authority in virtual time: years, outages, clocks that jump.

use super::*;
use std::collections::BTreeSet;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// 2026-01-01.
fn epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Behaviour of the authority towards a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    Fine,
    Away,
    /// Rejects this share of tasks as with a bad nonce.
    Nonces(f64),
    NeverDecides,
    Refuses(Cause, Option<Duration>),
}

/// An authority, the server's clocks, and what happened.
struct World {
    schedule: Schedule,
    elapsed: Duration,
    wall: SystemTime,
    mood: Mood,
    lifetime: Duration,
    window: Option<Window>,
    rng: Rng,
    /// Orders that are under way, by name, with the number of looks so far.
    open: BTreeMap<String, u32>,
    issued: Vec<(Duration, String)>,
    tasks: Vec<(Duration, Task)>,
}

impl World {
    fn new(names: usize) -> Self {
        let now = Now {
            elapsed: Duration::ZERO,
            wall: epoch(),
        };
        let challenges = vec![Challenge::Http01, Challenge::TlsAlpn01];
        let mut schedule = Schedule::new(challenges, 1, now);
        for index in 0..names {
            schedule.add(&name(index), None, &SavedState::default(), now);
        }
        Self {
            schedule,
            elapsed: Duration::ZERO,
            wall: epoch(),
            mood: Mood::Fine,
            lifetime: 90 * DAY,
            window: None,
            rng: Rng::with_seed(2),
            open: BTreeMap::new(),
            issued: Vec::new(),
            tasks: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        let (elapsed, wall) = (self.elapsed, self.wall);
        Now { elapsed, wall }
    }

    fn advance(&mut self, by: Duration) {
        self.elapsed += by;
        self.wall += by;
    }

    /// Runs for so long, each task taking no time.
    fn run(&mut self, time: Duration) {
        let end = self.elapsed + time;
        loop {
            let mut many = 0;
            while let Some(task) = self.schedule.next_task(self.now()) {
                self.carry_out(&task);
                many += 1;
                assert!(many < 100_000, "it asks again and again without waiting");
            }
            let next = self.schedule.next_wakeup(self.now());
            assert!(next > self.elapsed && next <= self.elapsed + MAX_SLEEP);
            if self.elapsed == end {
                return;
            }
            self.advance(next.min(end) - self.elapsed);
        }
    }

    fn carry_out(&mut self, task: &Task) {
        let name = task.name().to_owned();
        self.tasks.push((self.elapsed, task.clone()));
        let failed = |cause| Failure {
            cause,
            retry_after: None,
            message: format!("{cause:?}"),
        };
        let now = self.now();
        let failure = match self.mood {
            Mood::Away => Some(failed(Cause::Authority)),
            Mood::Nonces(share) if self.rng.f64() < share => Some(failed(Cause::Authority)),
            Mood::Refuses(cause, retry_after) => Some(Failure {
                retry_after,
                ..failed(cause)
            }),
            _ => None,
        };
        if let Task::RenewalInfo { .. } = task {
            let window = self.window.filter(|_| failure.is_none());
            return self.schedule.on_renewal_info(&name, window, 6 * HOUR, now);
        }
        if let Some(failure) = failure {
            if !self.schedule.on_failed(&name, &failure, now) {
                self.open.remove(&name);
            }
            return;
        }
        let looks = self.open.entry(name.clone()).or_default();
        *looks += 1;
        if *looks < 3 || self.mood == Mood::NeverDecides {
            if !self.schedule.on_pending(&name, None, now) {
                self.open.remove(&name);
            }
            return;
        }
        self.open.remove(&name);
        self.issued.push((self.elapsed, name.clone()));
        let validity = Validity {
            not_before: epoch() + self.elapsed - HOUR,
            not_after: epoch() + self.elapsed - HOUR + self.lifetime,
        };
        self.schedule.on_issued(&name, validity, now);
    }

    fn orders(&self) -> Vec<Duration> {
        let orders = self.tasks.iter();
        let orders = orders.filter(|(_, task)| matches!(task, Task::Order { .. }));
        orders.map(|(at, _)| *at).collect()
    }

    fn status(&self) -> NameStatus {
        self.schedule.status(self.now())[0].clone()
    }
}

fn name(index: usize) -> String {
    format!("{index:04}.example")
}

#[test]
fn a_name_has_its_certificate_in_seconds_and_a_new_one_at_two_thirds_for_years() {
    let mut world = World::new(1);
    world.run(730 * DAY);
    assert!(world.issued[0].0 < Duration::from_secs(10));
    let between = world.issued.windows(2).map(|it| it[1].0 - it[0].0);
    for between in between {
        assert!(between > 56 * DAY && between < 61 * DAY, "{between:?}");
    }
    assert_eq!(world.orders().len(), world.issued.len());
    assert_eq!(world.status().error, None);
}

#[test]
fn the_first_order_replaces_nothing_and_the_others_what_is_there() {
    let mut world = World::new(1);
    world.run(130 * DAY);
    let replaces = world.tasks.iter().filter_map(|(_, task)| match task {
        Task::Order { replaces, .. } => Some(*replaces),
        _ => None,
    });
    assert_eq!(replaces.collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_window_of_the_authority_counts_and_one_in_the_past_at_once() {
    let mut world = World::new(1);
    world.run(DAY);
    let (start, end) = (epoch() + 20 * DAY, epoch() + 21 * DAY);
    world.window = Some(Window { start, end });
    world.run(40 * DAY);
    let renewed = world.issued[1].0;
    assert!(
        renewed >= 20 * DAY && renewed <= 21 * DAY + MINUTE,
        "{renewed:?}"
    );
    // Such as after a revocation: the next question is six hours away at most.
    let mut world = World::new(1);
    world.run(5 * DAY);
    let (start, end) = (epoch(), epoch() + DAY);
    world.window = Some(Window { start, end });
    world.run(7 * HOUR);
    assert_eq!(world.issued.len(), 2);
    // An authority that says so for ever has one order a day.
    world.run(10 * DAY);
    assert!(
        (11..=13).contains(&world.issued.len()),
        "{}",
        world.issued.len()
    );
}

#[test]
fn an_authority_that_is_away_for_days_costs_few_questions_and_no_certificate() {
    let mut world = World::new(3);
    world.run(50 * DAY);
    world.mood = Mood::Away;
    let before = world.tasks.len();
    world.run(12 * DAY);
    let asked = world.tasks[before..].iter();
    let asked = asked
        .filter(|(_, task)| !matches!(task, Task::RenewalInfo { .. }))
        .count();
    assert!((20..=150).contains(&asked), "{asked}");
    let status = world.status();
    assert!(status.validity.is_some_and(|it| it.not_after > world.wall));
    assert_eq!(status.error.as_deref(), Some("Authority"));
    assert!(status.retry_in.is_some_and(|wait| wait <= 73 * MINUTE));
    world.mood = Mood::Fine;
    let before = world.issued.len();
    world.run(3 * HOUR);
    assert_eq!(world.issued.len(), before + 3);
    assert_eq!(world.status().error, None);
}

#[test]
fn an_authority_that_is_away_is_asked_for_one_name_at_a_time() {
    let mut world = World::new(100);
    world.mood = Mood::Away;
    world.run(DAY);
    assert!(world.tasks.len() < 50, "{}", world.tasks.len());
    let names: BTreeSet<_> = world.tasks.iter().map(|(_, task)| task.name()).collect();
    assert!(names.len() > 20, "one name's fault holds no other up");
    world.mood = Mood::Fine;
    world.run(2 * HOUR);
    assert_eq!(world.issued.len(), 100);
}

#[test]
fn tasks_that_fail_together_are_one_outage_and_whoever_mends_it_need_not_wait() {
    let mut world = World::new(MAX_TASKS);
    let now = world.now();
    world.mood = Mood::Away;
    let tasks: Vec<_> = std::iter::from_fn(|| world.schedule.next_task(now)).collect();
    assert_eq!(tasks.len(), MAX_TASKS);
    for task in tasks {
        world.carry_out(&task);
    }
    let waits = world.schedule.status(now).into_iter();
    let waits: Vec<_> = waits.filter_map(|it| it.retry_in).collect();
    assert_eq!(waits.len(), MAX_TASKS);
    assert!(
        waits.iter().all(|wait| *wait <= Duration::from_secs(36)),
        "{waits:?}"
    );
    world.mood = Mood::Fine;
    world.schedule.retry(now);
    world.run(Duration::from_secs(10));
    assert_eq!(world.issued.len(), MAX_TASKS);
}

#[test]
fn an_order_goes_on_where_it_was_when_the_authority_is_back() {
    let mut world = World::new(1);
    let task = world.schedule.next_task(world.now()).unwrap();
    world.carry_out(&task);
    world.mood = Mood::Away;
    world.run(3 * DAY);
    world.mood = Mood::Fine;
    world.run(3 * HOUR);
    assert_eq!((world.orders().len(), world.issued.len()), (1, 1));
}

#[test]
fn a_clock_that_jumps_orders_no_more_than_it_must() {
    for (jump, back) in [(400 * DAY, false), (400 * DAY, true), (75 * DAY, false)] {
        let mut world = World::new(1);
        world.run(10 * DAY);
        match back {
            true => world.wall -= jump,
            false => world.wall += jump,
        }
        world.run(3 * DAY);
        let orders = world.orders().len() - 1;
        // Set forth, what there is seems old: one a day, and the state says why.
        let most = if back { 0 } else { 4 };
        assert!(orders <= most, "{jump:?} {back}: {orders}");
        let says = world.status().error.unwrap_or_default();
        assert_eq!(says.contains("clock"), !back, "{says}");
        // The clock is right again.
        world.wall = epoch() + world.elapsed;
        let (before, orders) = (world.issued.len(), world.orders().len());
        world.run(100 * DAY);
        assert!(world.issued.len() > before);
        assert!(world.orders().len() - orders <= 2);
    }
}

#[test]
fn a_wait_is_as_long_whatever_the_clock_says() {
    let mut world = World::new(1);
    world.mood = Mood::Refuses(Cause::RateLimit, Some(5 * HOUR));
    world.run(MINUTE);
    world.wall += 100 * DAY;
    world.run(2 * HOUR);
    world.wall -= 200 * DAY;
    world.run(2 * HOUR);
    assert_eq!(world.orders().len(), 1);
    world.run(2 * HOUR);
    assert_eq!(world.orders().len(), 2);
}

#[test]
fn rejected_nonces_delay_and_lose_nothing() {
    let mut world = World::new(20);
    world.mood = Mood::Nonces(0.5);
    world.run(DAY);
    let names: BTreeSet<_> = world.issued.iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), 20);
    assert_eq!(world.issued.len(), 20);
}

#[test]
fn an_order_that_is_never_decided_is_given_up_after_an_hour() {
    let mut world = World::new(1);
    world.mood = Mood::NeverDecides;
    world.run(61 * MINUTE);
    let looks = world.tasks.len();
    assert!((50..100).contains(&looks), "{looks}");
    let status = world.status();
    assert!(
        status
            .error
            .is_some_and(|error| error.contains("still pending"))
    );
    world.run(DAY);
    assert!(
        (4..=10).contains(&world.orders().len()),
        "{}",
        world.orders().len()
    );
    world.mood = Mood::Fine;
    world.run(8 * HOUR);
    assert_eq!(world.issued.len(), 1);
}

#[test]
fn a_refused_name_is_tried_by_the_next_challenge_and_less_and_less_often() {
    let mut world = World::new(1);
    world.mood = Mood::Refuses(Cause::Name, None);
    world.run(HOUR);
    let challenges = world.tasks.iter().filter_map(|(_, task)| match task {
        Task::Order { challenge, .. } => Some(*challenge),
        _ => None,
    });
    let (http, tls) = (Challenge::Http01, Challenge::TlsAlpn01);
    let challenges: Vec<_> = challenges.collect();
    assert_eq!(&challenges[..4], [http, tls, http, tls]);
    assert!(
        challenges.len() <= 5,
        "no more than authorities count in an hour"
    );
    world.run(7 * DAY);
    assert!(world.orders().len() < 45, "{}", world.orders().len());
    let before = world.orders().len();
    world.schedule.retry(world.now());
    world.run(Duration::ZERO);
    assert_eq!(
        world.orders().len(),
        before + 1,
        "whoever mends it need not wait"
    );
}

#[test]
fn a_refused_name_holds_no_other_up() {
    let mut world = World::new(1);
    world.mood = Mood::Refuses(Cause::Name, None);
    world.run(MINUTE / 2);
    world.mood = Mood::Fine;
    let now = world.now();
    world
        .schedule
        .add("other.example", None, &SavedState::default(), now);
    world.run(Duration::from_secs(10));
    assert_eq!(world.issued.len(), 1);
}

#[test]
fn a_limit_is_waited_for_and_not_longer_than_a_week() {
    for (asked, least, most) in [
        (None, HOUR, 2 * HOUR),
        (Some(DAY), DAY, DAY + MINUTE),
        (Some(365 * DAY), 7 * DAY, 7 * DAY + MINUTE),
    ] {
        let mut world = World::new(1);
        world.mood = Mood::Refuses(Cause::RateLimit, asked);
        world.run(MINUTE);
        world.schedule.retry(world.now());
        world.run(most);
        let second = world.orders()[1];
        assert!(second >= least && second <= most + MINUTE, "{second:?}");
    }
}

#[test]
fn an_account_that_is_refused_stops_all_names() {
    let mut world = World::new(50);
    world.mood = Mood::Refuses(Cause::Account, None);
    world.run(DAY);
    assert!(world.tasks.len() <= 12, "{}", world.tasks.len());
    world.mood = Mood::Fine;
    world.schedule.retry(world.now());
    world.run(MINUTE);
    assert!(world.issued.len() >= 40, "{}", world.issued.len());
}

#[test]
fn an_order_that_is_gone_is_made_anew_and_replaces_nothing() {
    let mut world = World::new(1);
    world.run(80 * DAY);
    let before = world.tasks.len();
    world.wall += 60 * DAY;
    world.mood = Mood::Refuses(Cause::Order, None);
    world.run(Duration::from_secs(1));
    world.mood = Mood::Fine;
    world.run(MINUTE);
    let orders = world.tasks[before..]
        .iter()
        .filter_map(|(_, task)| match task {
            Task::Order { replaces, .. } => Some(*replaces),
            _ => None,
        });
    assert_eq!(orders.collect::<Vec<_>>(), [true, false]);
}

/// A schedule that begins anew with what the former one kept.
fn restarted(world: &mut World) {
    let now = world.now();
    let saved_state = world.schedule.saved_state(&name(0), now).unwrap();
    let held = world.status().validity;
    let challenges = vec![Challenge::Http01, Challenge::TlsAlpn01];
    world.advance(Duration::from_secs(2));
    world.schedule = Schedule::new(challenges, world.rng.u64(..), world.now());
    world
        .schedule
        .add(&name(0), held, &saved_state, world.now());
}

#[test]
fn a_restart_in_the_middle_goes_on_with_the_order() {
    let mut world = World::new(1);
    let task = world.schedule.next_task(world.now()).unwrap();
    world.carry_out(&task);
    restarted(&mut world);
    world.run(MINUTE);
    assert_eq!((world.orders().len(), world.issued.len()), (1, 1));
    restarted(&mut world);
    world.run(DAY);
    assert_eq!(
        world.orders().len(),
        1,
        "what is there is not ordered again"
    );
}

#[test]
fn a_server_that_starts_again_and_again_asks_four_times_an_hour() {
    let mut world = World::new(1);
    world.mood = Mood::Refuses(Cause::Name, None);
    world.run(20 * HOUR);
    world.run(HOUR);
    let before = world.orders().len();
    restarted(&mut world);
    world.run(MINUTE);
    assert_eq!(
        world.orders().len(),
        before + 1,
        "one attempt for whoever restarts"
    );
    for _ in 0..120 {
        restarted(&mut world);
        world.run(MINUTE / 2);
    }
    assert!(
        world.orders().len() <= before + 6,
        "{}",
        world.orders().len() - before
    );
    assert!(world.status().failures >= 5, "the wait goes on growing");
    // A limit of the authority holds whatever is restarted.
    world.mood = Mood::Refuses(Cause::RateLimit, Some(2 * DAY));
    world.run(HOUR);
    let before = world.orders().len();
    restarted(&mut world);
    world.run(DAY);
    restarted(&mut world);
    assert_eq!(world.orders().len(), before);
    world.run(DAY);
    assert_eq!(world.orders().len(), before + 1);
}

#[test]
fn a_thousand_names_are_ordered_a_few_at_a_time_within_the_limits() {
    let mut world = World::new(1_000);
    let now = world.now();
    let first: Vec<_> = std::iter::from_fn(|| world.schedule.next_task(now)).collect();
    assert_eq!(first.len(), MAX_TASKS);
    for task in first {
        world.carry_out(&task);
        assert!(world.open.len() <= MAX_ORDERS);
    }
    world.run(3 * HOUR);
    assert!(
        (400..=501).contains(&world.issued.len()),
        "{}",
        world.issued.len()
    );
    world.run(9 * HOUR);
    assert_eq!(world.issued.len(), 1_000);
}

#[test]
fn a_name_that_is_taken_away_is_forgotten_whatever_comes_of_its_task() {
    let mut world = World::new(2);
    let now = world.now();
    let task = world.schedule.next_task(now).unwrap();
    let gone = task.name().to_owned();
    world.schedule.retain(|name| name != gone);
    assert!(!world.schedule.on_pending(&gone, None, now));
    world.run(DAY);
    assert_eq!(world.issued.len(), 1);
    assert_ne!(world.issued[0].1, gone);
    assert_eq!(world.schedule.status(world.now()).len(), 1);
}

#[test]
fn without_a_challenge_nothing_is_ordered() {
    let mut world = World::new(1);
    world.schedule.challenges.clear();
    world.run(DAY);
    assert_eq!(world.tasks, []);
}

#[test]
fn counters_that_a_file_has_at_their_end_stop_nothing() {
    let mut world = World::new(0);
    let saved_state = SavedState {
        failures: u32::MAX,
        refusals: u32::MAX,
        tried_at: u64::MAX,
        retry_at: u64::MAX,
        used_at: u64::MAX,
        ..SavedState::default()
    };
    world
        .schedule
        .add("a.example", None, &saved_state, world.now());
    for cause in [Cause::Name, Cause::Authority] {
        world.mood = Mood::Refuses(cause, None);
        world.run(DAY);
        world.schedule.retry(world.now());
    }
    assert!(world.orders().len() > 10, "{:?}", world.orders());
    world.mood = Mood::Fine;
    world.run(DAY);
    assert_eq!(world.issued.len(), 1);
}
