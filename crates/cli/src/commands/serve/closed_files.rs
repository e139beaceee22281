//! Files that a running server may not read: which they are, for whom, and what to do.
//!
//! A server that root started reads them at the start as root, and at each reload as the user as whom it goes on.

use super::places::{Places, Use};
use anyhow::Error;
use nix::unistd::{User, geteuid};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// The files that are named, at most.
const MOST_NAMED: usize = 8;

/// Puts before the error of files that can't be read which of the files of a plan are closed to the process's user, if any
/// is, and how to open them: an error alone is of the first.
pub(super) fn explained(error: Error, places: &Places) -> Error {
    if !is_denied(&error) {
        return error;
    }
    let files = places.used_again().into_iter();
    let files = files.filter(|(_, usage)| *usage == Use::Secret);
    let is_closed = |file: &&Path| access(*file, Access::READ_OK) == Err(Errno::ACCESS);
    let closed: Vec<_> = files.map(|(file, _)| file).filter(is_closed).collect();
    match closed.is_empty() {
        true => error,
        false => error.context(what_is_closed(&closed, &own_name())),
    }
}

/// Checks whether an error is for lack of a right.
pub(super) fn is_denied(error: &Error) -> bool {
    let causes = error.chain();
    let mut causes = causes.filter_map(|it| it.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn what_is_closed(files: &[&Path], user: &str) -> String {
    let named = files.iter().take(MOST_NAMED);
    let named: Vec<_> = named.map(|it| format!("`{}`", it.display())).collect();
    let more = match files.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (them, named) = (
        if files.len() > 1 { "them" } else { "it" },
        named.join(", "),
    );
    format!(
        "{user}, as whom this process runs, may not read {named}{more}: let a group of its own read {them} (mode 640), \
         and enter the folders above, or start a new process as root that takes over (`takeover`)"
    )
}

/// The user as whom the process runs.
fn own_name() -> String {
    let own = geteuid();
    let user = User::from_uid(own).ok().flatten();
    user.map_or_else(|| format!("user {own}"), |user| format!("`{}`", user.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_up_to_a_bound() {
        let names: Vec<_> = (1..=10).map(|it| format!("{it}.key")).collect();
        let files: Vec<_> = names.iter().map(Path::new).collect();
        let one = what_is_closed(&files[..1], "`altway`");
        assert!(
            one.starts_with("`altway`, as whom this process runs, may not read `1.key`: let"),
            "{one}"
        );
        assert!(one.contains("read it (mode 640)"), "{one}");
        let all = what_is_closed(&files, "`altway`");
        assert!(
            all.contains("`7.key`, `8.key` and 2 more: let a group of its own read them"),
            "{all}"
        );
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound));
        let before = error.to_string();
        assert_eq!(explained(error, &Places::default()).to_string(), before);
    }
}
