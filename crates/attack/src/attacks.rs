//! All attacks, by what they aim at.

mod cancel;
mod control;
mod crowd;
mod files;
mod frames;
mod gaps;
mod handshakes;
mod http1;
mod initials;
mod log;
mod migration;
mod readers;
mod spellings;
mod together;
mod unread;

use crate::Attack;

/// All attacks.
pub const ALL: &[&[Attack]] = &[
    unread::ATTACKS,
    together::ATTACKS,
    gaps::ATTACKS,
    migration::ATTACKS,
    files::ATTACKS,
    crowd::ATTACKS,
    log::ATTACKS,
    readers::ATTACKS,
    cancel::ATTACKS,
    http1::ATTACKS,
    handshakes::ATTACKS,
    initials::ATTACKS,
    frames::ATTACKS,
    control::ATTACKS,
];
