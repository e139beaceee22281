//! Reading of a text into a plan: the tree of the text is walked once, and whatever is wrong is noted on the way.
//!
//! Each key is checked by itself here, and that a table has the keys that it needs; whether values go
//! together is checked in `plan`, over what could be read, so that one fault does not hide another.

mod acme;
mod hints;
mod include;
mod proxy;
mod route;
mod server;
mod site;
mod upload;
mod walk;

pub use include::{ConfigFiles, MAX_INCLUDED, NoFiles};

use crate::plan::{Places, Plan, faults_of};
use crate::{Config, Faults};
use walk::Walk;

/// The longest text of a file that is read, in bytes.
pub const MAX_TEXT: usize = 16 << 20;

/// Reads a configuration and what it includes. `name`: what its file is called in messages; relative paths
/// in it are relative to the folder of that file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(name: &str, text: &str, files: &mut dyn ConfigFiles) -> Result<Plan, Faults> {
    read_with_places(name, text, files).map(|(plan, _)| plan)
}

/// Reads as [`read`] does, and gives the places of the keys besides, to report that what a key names is not there.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_with_places(
    name: &str,
    text: &str,
    files: &mut dyn ConfigFiles,
) -> Result<(Plan, Places), Faults> {
    let mut config = Config::default();
    let mut walk = Walk::default();
    let included = walk.file(name, text, |walk, root| walk.server(root, &mut config));
    let included = included.unwrap_or_default();
    walk.included(included, files, &mut config.sites);
    let Walk {
        mut faults,
        places,
        is_broken,
        ..
    } = walk;
    // Half a file says nothing of what is missing.
    if !is_broken {
        faults.extend(faults_of(&config, &places));
    }
    places.sort(&mut faults);
    Faults::none_or(faults, (Plan::unchecked(config), places))
}
