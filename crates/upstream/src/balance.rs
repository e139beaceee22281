//! The choice among the servers of a group, as a pure function of their state and of the request.

use http::HeaderName;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A way to choose a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// Servers in turn, one after the other.
    #[default]
    RoundRobin,
    /// The one with fewer requests in progress, of two servers taken at random: nearly as even as the least of
    /// all, and no server that has just come back is given everything.
    LeastRequests,
    /// The same server for the same key, as long as it is there. When a server goes, only its keys move
    /// (rendezvous hashing).
    Hash(HashKey),
}

/// The part of a request whose hash decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The address of the client.
    Client,
    /// The first value of a field; requests without it are spread by round-robin.
    Field(HeaderName),
}

/// The state of a server when one is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// A number of its own, which it keeps whatever other servers there are.
    pub id: u64,
    /// True if it may be chosen: it is healthy, and this request has not failed there.
    pub is_usable: bool,
    /// The share of its usual requests that it is given, above 0 to 1: less than 1 in its slow start.
    pub weight: f64,
    /// Requests in progress.
    pub requests: usize,
}

/// The random number and the key by which one choice differs from another.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'k> {
    /// Counts the choices.
    pub turn: u64,
    /// Any number, each as likely as another.
    pub random: u64,
    /// The key of [`Balance::Hash`]; `None`: the request has none.
    pub key: Option<&'k [u8]>,
}

/// Returns the place of the server that is chosen; `None`: none is usable.
#[must_use]
pub fn choose(balance: &Balance, candidates: &[Candidate], draw: Draw<'_>) -> Option<usize> {
    match (balance, draw.key) {
        (Balance::LeastRequests, _) => least_of_two(candidates, draw.random),
        (Balance::Hash(_), Some(key)) => by_hash(candidates, key),
        _ => in_turn(candidates, draw),
    }
}

/// Begins with the server whose turn it is. One in its slow start is passed over as often as its weight says,
/// unless there is no other.
fn in_turn(candidates: &[Candidate], draw: Draw<'_>) -> Option<usize> {
    let count = candidates.len();
    let first = (draw.turn % count.max(1) as u64) as usize;
    let places = || (0..count).map(|offset| (first + offset) % count);
    let usable = |place: &usize| candidates[*place].is_usable;
    let luck = unit(draw.random);
    let mut eager = places().filter(usable);
    let chosen = eager.find(|place| luck < candidates[*place].weight);
    chosen.or_else(|| places().find(usable))
}

fn least_of_two(candidates: &[Candidate], random: u64) -> Option<usize> {
    let usable = || (0..candidates.len()).filter(|place| candidates[*place].is_usable);
    let count = usable().count() as u64;
    if count == 0 {
        return None;
    }
    let first = random % count;
    // Another one, each as likely.
    let second = (first + 1 + (random >> 32) % (count - 1).max(1)) % count;
    let at = |nth: u64| usable().nth(nth as usize);
    let (first, second) = (at(first)?, at(second)?);
    let load = |place: usize| {
        let candidate = &candidates[place];
        (candidate.requests as f64 + 1.0) / candidate.weight
    };
    Some(if load(second) < load(first) {
        second
    } else {
        first
    })
}

/// The usable server with the highest hash of key and server.
fn by_hash(candidates: &[Candidate], key: &[u8]) -> Option<usize> {
    let score = |candidate: &Candidate| {
        let mut hasher = DefaultHasher::new();
        (candidate.id, key).hash(&mut hasher);
        hasher.finish()
    };
    let usable = candidates.iter().enumerate().filter(|(_, it)| it.is_usable);
    let best = usable.max_by_key(|(_, candidate)| score(candidate))?;
    Some(best.0)
}

/// A number from 0 to below 1.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(id: u64, requests: usize) -> Candidate {
        Candidate {
            id,
            is_usable: true,
            weight: 1.0,
            requests,
        }
    }

    fn draw(turn: u64, random: u64) -> Draw<'static> {
        Draw {
            turn,
            random,
            key: None,
        }
    }

    fn random(seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn round_robin_takes_one_after_the_other_and_passes_over_what_is_down() {
        let mut candidates = [0, 1, 2].map(|id| candidate(id, 0));
        let chosen = |candidates: &[Candidate], turn| {
            choose(&Balance::RoundRobin, candidates, draw(turn, 0)).unwrap()
        };
        let all: Vec<_> = (0..6).map(|turn| chosen(&candidates, turn)).collect();
        assert_eq!(all, [0, 1, 2, 0, 1, 2]);
        candidates[1].is_usable = false;
        let two: Vec<_> = (0..6).map(|turn| chosen(&candidates, turn)).collect();
        assert_eq!(two, [0, 2, 2, 0, 2, 2]);
    }

    #[test]
    fn nothing_is_chosen_where_nothing_is_usable() {
        let mut down = candidate(0, 0);
        down.is_usable = false;
        let key = Draw {
            key: Some(b"k"),
            ..draw(3, 4)
        };
        let hash = Balance::Hash(HashKey::Client);
        for balance in [Balance::RoundRobin, Balance::LeastRequests, hash] {
            for candidates in [&[][..], &[down, down]] {
                assert_eq!(choose(&balance, candidates, key), None, "{balance:?}");
            }
        }
    }

    #[test]
    fn a_server_in_its_slow_start_has_its_share_and_everything_when_it_is_alone() {
        let mut slow = candidate(0, 0);
        slow.weight = 0.1;
        for balance in [Balance::RoundRobin, Balance::LeastRequests] {
            let share = (0..10_000)
                .filter(|turn| {
                    let candidates = [slow, candidate(1, 0)];
                    choose(&balance, &candidates, draw(*turn, random(*turn))) == Some(0)
                })
                .count();
            assert!(share < 700, "{share} of 10,000 by {balance:?}");
            assert_eq!(choose(&balance, &[slow], draw(0, u64::MAX)), Some(0));
        }
    }

    #[test]
    fn of_two_servers_the_less_busy_one_is_taken() {
        let candidates = [candidate(0, 9), candidate(1, 3)];
        for seed in 0..100 {
            let chosen = choose(&Balance::LeastRequests, &candidates, draw(0, random(seed)));
            assert_eq!(chosen, Some(1));
        }
    }

    #[test]
    fn the_busiest_of_three_has_nothing_and_the_others_share() {
        let candidates = [candidate(0, 9), candidate(1, 3), candidate(2, 3)];
        let mut counts = [0; 3];
        for seed in 0..3_000 {
            let chosen = choose(&Balance::LeastRequests, &candidates, draw(0, random(seed)));
            counts[chosen.unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1] > 1_200 && counts[2] > 1_200, "{counts:?}");
    }

    #[test]
    fn requests_without_the_hashed_field_are_spread() {
        let candidates = [0, 1].map(|id| candidate(id, 0));
        let hash = Balance::Hash(HashKey::Field(http::header::COOKIE));
        let chosen: Vec<_> = (0..4)
            .map(|turn| choose(&hash, &candidates, draw(turn, 0)).unwrap())
            .collect();
        assert_eq!(chosen, [0, 1, 0, 1]);
    }

    proptest! {
        #[test]
        fn a_key_keeps_its_server_while_others_go_and_come(
            key in proptest::collection::vec(any::<u8>(), 0..20),
            gone in 0_usize..8,
        ) {
            let mut candidates: Vec<_> = (0..8).map(|id| candidate(random(id), 0)).collect();
            let draw = Draw { key: Some(&key), ..draw(0, 0) };
            let hash = Balance::Hash(HashKey::Client);
            let before = choose(&hash, &candidates, draw).unwrap();
            candidates[gone].is_usable = false;
            let after = choose(&hash, &candidates, draw).unwrap();
            if before == gone {
                prop_assert_ne!(after, gone);
            } else {
                prop_assert_eq!(after, before);
            }
        }

        #[test]
        fn whatever_is_chosen_is_usable(
            usable in proptest::collection::vec(any::<bool>(), 0..9),
            turn: u64,
            random: u64,
        ) {
            let candidates: Vec<_> = usable.iter().map(|is_usable| Candidate {
                is_usable: *is_usable,
                weight: 0.3,
                ..candidate(random, turn as usize % 5)
            }).collect();
            for balance in [Balance::RoundRobin, Balance::LeastRequests] {
                let chosen = choose(&balance, &candidates, draw(turn, random));
                prop_assert_eq!(chosen.is_some(), usable.contains(&true));
                if let Some(chosen) = chosen {
                    prop_assert!(usable[chosen]);
                }
            }
        }
    }
}
