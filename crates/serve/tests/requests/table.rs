//! The table of requests for a folder, `table.txt`: what it says, and the folder.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const TABLE: &str = include_str!("table.txt");

/// The time of change of all files, in seconds since 1970.
pub(crate) const CHANGED: u64 = 1_700_000_000;

/// A request of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The heading that it stands under.
    pub(crate) group: &'static str,
    /// The line as it stands there.
    pub(crate) line: &'static str,
    pub(crate) method: &'static str,
    pub(crate) target: &'static str,
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// The lines under headings, each with its heading.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut group = "";
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    lines.filter_map(move |line| match line.strip_prefix('[') {
        Some(heading) => {
            group = heading.trim_end_matches(']');
            None
        }
        None => (!group.is_empty()).then_some((group, line)),
    })
}

/// Names and contents of the files. Links are left out.
pub(crate) fn files() -> Vec<(&'static str, String)> {
    let files = lines().filter(|(group, _)| *group == "files");
    let file = |(_, line): (_, &'static str)| {
        let (name, content) = line.split_once(" =")?;
        let content = content.trim_start();
        let repeated = content.rsplit_once('*');
        let times = repeated.and_then(|(once, times)| Some((once, times.parse().ok()?)));
        let (once, times) = times.unwrap_or((content, 1));
        Some((name, once.repeat(times)))
    };
    files.filter_map(file).collect()
}

/// Makes the folder, which is to have a parent that is nobody else's.
pub(crate) fn make(folder: &Path) {
    for (name, content) in files() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        touch(&path);
    }
    for (_, line) in lines().filter(|(group, _)| *group == "files") {
        if let Some((name, to)) = line.split_once(" -> ") {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        }
    }
    // Listings tell when folders were changed.
    for name in ["bare", "sub/.git", "sub", ".well-known", "."] {
        touch(&folder.join(name));
    }
}

fn touch(path: &Path) {
    let changed = UNIX_EPOCH + Duration::from_secs(CHANGED);
    let file = fs::File::open(path).unwrap();
    file.set_modified(changed).unwrap();
}

/// The requests. `etag` gives the entity tag of a target.
pub(crate) fn requests(mut etag: impl FnMut(&'static str) -> String) -> Vec<Row> {
    let requests = lines().filter(|(group, _)| *group != "files");
    let row = |(group, line): (&'static str, &'static str)| {
        let mut parts = line.split(" ; ");
        let (method, target) = parts.next().unwrap().split_once(' ').unwrap();
        let mut fields = Vec::new();
        for part in parts {
            let (name, value) = part.split_once(": ").unwrap();
            let mut value = value.to_owned();
            if value.contains('@') {
                let own = etag(target);
                let weak = format!("W/{}", own.trim_start_matches("W/"));
                value = value.replace("@etag", &own).replace("@weak", &weak);
            }
            fields.push((name, value));
        }
        Row {
            group,
            line,
            method,
            target,
            fields,
        }
    };
    requests.map(row).collect()
}
