//! All attacks, by what they aim at.

mod files;
mod gaps;
mod migration;
mod readers;
mod spellings;
mod unread;

use crate::Attack;

/// All attacks.
pub const ALL: &[&[Attack]] = &[
    unread::ATTACKS,
    gaps::ATTACKS,
    migration::ATTACKS,
    files::ATTACKS,
    readers::ATTACKS,
];
