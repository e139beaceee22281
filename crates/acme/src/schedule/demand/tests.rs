//! Names on demand in virtual time: a program that allows or refuses them, an authority, and handshakes.

use super::super::{Challenge, Task};
use super::*;
use std::time::SystemTime;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const TODAY: Duration = Duration::from_secs(86_400);
const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// 2026-01-01.
fn epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// A schedule, its clock, and what it has done.
struct World {
    schedule: Schedule,
    elapsed: Duration,
    answer: Answer,
    /// Questions and orders that take no time.
    is_prompt: bool,
    questions: Vec<(Duration, String)>,
    orders: Vec<(Duration, String)>,
    forgotten: Vec<String>,
}

impl World {
    fn new(most: usize) -> Self {
        let now = Now {
            elapsed: Duration::ZERO,
            wall: epoch(),
        };
        let mut schedule = Schedule::new(vec![Challenge::Http01], 1, now);
        schedule.set_most_on_demand(most);
        Self {
            schedule,
            elapsed: Duration::ZERO,
            answer: Answer::Allowed,
            is_prompt: true,
            questions: Vec::new(),
            orders: Vec::new(),
            forgotten: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.elapsed,
            wall: epoch() + self.elapsed,
        }
    }

    fn want(&mut self, name: &str) {
        self.schedule.want(name, self.now());
    }

    fn run(&mut self, time: Duration) {
        let end = self.elapsed + time;
        loop {
            let mut many = 0;
            while let Some(task) = self.schedule.next_task(self.now()) {
                self.carry_out(task);
                many += 1;
                assert!(many < 10_000, "it goes on without waiting");
            }
            let forgotten = self.schedule.forget_unused(self.now());
            self.forgotten.extend(forgotten);
            let next = self.schedule.next_wakeup(self.now());
            assert!(next > self.elapsed);
            if self.elapsed == end {
                return;
            }
            self.elapsed = next.min(end);
        }
    }

    fn carry_out(&mut self, task: Task) {
        let now = self.now();
        match task {
            Task::Permission { name } => {
                self.questions.push((self.elapsed, name.clone()));
                if self.is_prompt {
                    let kept = (None, &SavedState::default());
                    self.schedule.on_answered(&name, self.answer, kept, now);
                }
            }
            Task::RenewalInfo { name } => {
                self.schedule.on_renewal_info(&name, None, TODAY, now);
            }
            Task::Order { name, .. } => {
                self.orders.push((self.elapsed, name.clone()));
                if self.is_prompt {
                    self.issue(&name);
                }
            }
            Task::Poll { name, .. } => self.issue(&name),
        }
    }

    fn issue(&mut self, name: &str) {
        let now = self.now();
        let validity = Validity {
            not_before: now.wall,
            not_after: now.wall + LIFETIME,
        };
        self.schedule.on_issued(name, validity, now);
    }

    fn names(&self) -> Vec<String> {
        let status = self.schedule.status(self.now()).into_iter();
        status.map(|it| it.name).collect()
    }
}

fn name(index: usize) -> String {
    format!("{index:05}.example")
}

#[test]
fn a_name_that_is_wanted_is_asked_for_and_then_ordered_for() {
    let mut world = World::new(10);
    world.want("a.example");
    world.run(MINUTE);
    assert_eq!(world.questions, [(Duration::ZERO, "a.example".into())]);
    assert_eq!(world.orders, [(Duration::ZERO, "a.example".into())]);
    // Whoever asks again meanwhile changes nothing.
    world.want("a.example");
    world.run(MINUTE);
    assert_eq!((world.questions.len(), world.orders.len()), (1, 1));
}

#[test]
fn nothing_is_on_demand_unless_it_is_said() {
    let mut world = World::new(0);
    world.want("a.example");
    world.run(HOUR);
    assert_eq!((world.questions.len(), world.orders.len()), (0, 0));
}

#[test]
fn a_name_of_the_configuration_is_never_asked_for() {
    let mut world = World::new(10);
    let now = world.now();
    world
        .schedule
        .add("a.example", None, &SavedState::default(), now);
    world.want("a.example");
    world.run(100 * TODAY);
    assert_eq!((world.questions.len(), world.orders.len()), (0, 2));
    assert_eq!(world.forgotten, [""; 0]);
}

#[test]
fn a_refusal_holds_for_a_while_and_a_silence_for_less() {
    for (answer, holds) in [
        (Answer::Refused, 5 * MINUTE),
        (Answer::Unanswered, MINUTE / 2),
    ] {
        let mut world = World::new(10);
        world.answer = answer;
        // Clients that come again and again.
        for _ in 0..600 {
            world.want("a.example");
            world.run(Duration::from_secs(1));
        }
        let between = world.questions.windows(2).map(|it| it[1].0 - it[0].0);
        for between in between {
            assert!(
                between >= holds && between <= holds + Duration::from_secs(2),
                "{between:?}"
            );
        }
        let most = 600 / usize::try_from(holds.as_secs()).unwrap() + 1;
        assert!(
            (2..=most).contains(&world.questions.len()),
            "{}",
            world.questions.len()
        );
        assert_eq!(world.orders, []);
        world.run(HOUR);
        assert!(
            world.schedule.demand.names.is_empty(),
            "it is not kept for ever"
        );
    }
}

#[test]
fn a_flood_of_names_costs_ten_questions_a_second_and_bounded_memory() {
    let mut world = World::new(10);
    world.answer = Answer::Refused;
    for index in 0..100_000 {
        world.want(&name(index));
        if index % 100 == 0 {
            world.run(Duration::from_millis(500));
        }
        assert!(world.schedule.demand.names.len() <= MAX_OTHERS + 10);
    }
    // 500 s.
    assert!(
        (4_500..=5_100).contains(&world.questions.len()),
        "{}",
        world.questions.len()
    );
    world.run(MINUTE);
    world.answer = Answer::Allowed;
    world.want("honest.example");
    world.run(Duration::from_secs(1));
    assert_eq!(world.orders.last().map(|it| &*it.1), Some("honest.example"));
}

#[test]
fn few_questions_and_orders_are_under_way_and_none_in_place_of_the_configuration_s() {
    let mut world = World::new(1_000);
    world.is_prompt = false;
    for index in 0..100 {
        world.want(&name(index));
    }
    world.run(MINUTE);
    assert_eq!(world.questions.len(), MAX_QUESTIONS);
    for _ in 0..25 {
        for (_, name) in std::mem::take(&mut world.questions) {
            let (now, kept) = (world.now(), (None, &SavedState::default()));
            world
                .schedule
                .on_answered(&name, Answer::Allowed, kept, now);
        }
        world.run(Duration::from_secs(2));
    }
    for _ in 0..20 {
        for (_, name) in world.orders.clone() {
            let now = world.now();
            world.schedule.on_pending(&name, Some(10 * MINUTE), now);
        }
        world.run(Duration::from_secs(2));
    }
    assert_eq!(world.orders.len(), MAX_ORDERS_ON_DEMAND);
    let now = world.now();
    world
        .schedule
        .add("mine.example", None, &SavedState::default(), now);
    world.run(Duration::from_secs(1));
    assert_eq!(world.orders.last().map(|it| &*it.1), Some("mine.example"));
}

#[test]
fn the_budget_of_orders_is_not_used_up_by_names_on_demand() {
    let mut world = World::new(1_000);
    for index in 0..240 {
        world.want(&name(index));
    }
    world.run(MINUTE);
    assert!(
        (200..=205).contains(&world.orders.len()),
        "{}",
        world.orders.len()
    );
    for index in 0..40 {
        let (name, now) = (format!("mine{index}.example"), world.now());
        world.schedule.add(&name, None, &SavedState::default(), now);
    }
    world.run(Duration::from_secs(1));
    let mine = world.orders.iter().filter(|it| it.1.starts_with("mine"));
    assert_eq!(mine.count(), 40);
}

#[test]
fn no_more_names_are_held_than_may_be() {
    let mut world = World::new(3);
    for index in 0..9 {
        world.want(&name(index));
        world.run(MINUTE);
    }
    assert_eq!(world.names(), [name(0), name(1), name(2)]);
    world.run(LIFETIME + TODAY);
    assert_eq!(world.forgotten.len(), 3);
    world.want(&name(5));
    world.run(MINUTE);
    assert_eq!(world.names(), [name(5)], "there is room again");
}

#[test]
fn a_name_is_renewed_while_it_is_used_and_asked_for_before() {
    let mut world = World::new(10);
    world.want("a.example");
    for _ in 0..200 {
        world.run(TODAY);
        let now = world.now();
        world.schedule.used("a.example", now);
    }
    assert_eq!((world.questions.len(), world.orders.len()), (4, 4));
    assert_eq!(world.forgotten, [""; 0]);
    // Nobody comes any more.
    world.run(LIFETIME + TODAY);
    assert_eq!(world.forgotten, ["a.example"]);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn a_name_that_is_refused_at_its_renewal_ends_with_its_certificate() {
    let mut world = World::new(10);
    world.want("a.example");
    world.run(MINUTE);
    world.answer = Answer::Refused;
    for _ in 0..89 {
        world.run(TODAY);
        let now = world.now();
        world.schedule.used("a.example", now);
    }
    assert_eq!((world.orders.len(), world.forgotten.len()), (1, 0));
    world.run(2 * TODAY);
    assert_eq!(world.forgotten, ["a.example"]);
}

#[test]
fn a_name_whose_orders_fail_is_asked_for_again_and_forgotten_when_nobody_wants_it() {
    let mut world = World::new(10);
    world.is_prompt = false;
    world.want("a.example");
    world.run(Duration::from_secs(1));
    let (now, kept) = (world.now(), (None, &SavedState::default()));
    world
        .schedule
        .on_answered("a.example", Answer::Allowed, kept, now);
    world.run(Duration::from_secs(1));
    assert_eq!(world.orders.len(), 1);
    let failure = crate::Failure {
        cause: crate::Cause::RateLimit,
        retry_after: Some(3 * HOUR),
        message: "too many".into(),
    };
    let now = world.now();
    world.schedule.on_failed("a.example", &failure, now);
    world.run(4 * HOUR);
    assert_eq!(
        (world.questions.len(), world.orders.len()),
        (2, 1),
        "the answer was old"
    );
    let now = world.now();
    world
        .schedule
        .on_answered("a.example", Answer::Refused, kept, now);
    world.run(2 * TODAY);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn a_name_from_before_a_restart_is_held_without_a_question_until_it_is_old() {
    let mut world = World::new(10);
    world.want("a.example");
    world.run(10 * TODAY);
    let now = world.now();
    world.schedule.used("a.example", now);
    world.run(TODAY / 2);
    let saved_state = world
        .schedule
        .saved_state("a.example", world.now())
        .unwrap();
    let used = (epoch() + 10 * TODAY).duration_since(SystemTime::UNIX_EPOCH);
    assert_eq!(saved_state.used_at, used.unwrap().as_secs());
    let held = world.schedule.status(world.now())[0].validity;
    let restored = |world: &mut World, saved_state: &SavedState| {
        world.schedule = Schedule::new(vec![Challenge::Http01], 2, world.now());
        world.schedule.set_most_on_demand(10);
        let now = world.now();
        world.schedule.restore("a.example", held, saved_state, now);
    };
    restored(&mut world, &saved_state);
    world.run(10 * TODAY);
    assert_eq!((world.questions.len(), world.orders.len()), (1, 1));
    world.run(50 * TODAY);
    assert_eq!((world.questions.len(), world.orders.len()), (2, 2));
    // It was not used for so long, this process and the one before together.
    world.run(31 * TODAY);
    assert_eq!(world.forgotten, ["a.example"]);
    // A name of the configuration is kept whatever was.
    restored(&mut world, &saved_state);
    let now = world.now();
    world.schedule.add("a.example", held, &saved_state, now);
    assert_eq!(
        world
            .schedule
            .saved_state("a.example", now)
            .unwrap()
            .used_at,
        0
    );
    world.run(2 * LIFETIME);
    assert_eq!(world.forgotten.len(), 1);
}

#[test]
fn names_that_no_site_has_any_more_are_dropped() {
    let mut world = World::new(10);
    let now = world.now();
    world
        .schedule
        .add("mine.test", None, &SavedState::default(), now);
    for name in ["a.example", "b.other"] {
        world.want(name);
    }
    world.run(MINUTE);
    world.schedule.retain(|name| name == "mine.test");
    world
        .schedule
        .retain_on_demand(|name| name.ends_with(".example"));
    assert_eq!(world.names(), ["a.example", "mine.test"]);
}
