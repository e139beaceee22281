//! Each file of `tests/broken` with everything that is said of it in the file beside it.

use crate::{Disk, expect_file, folder};
use altway_config::read;

fn broken() -> Vec<String> {
    let entries = std::fs::read_dir(folder("broken")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter_map(|it| it.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn everything_that_is_wrong_is_said_with_its_place_and_a_hint() {
    let folder = folder("broken");
    let names = broken();
    assert!(names.len() >= 30, "{}", names.len());
    for name in names {
        let file = format!("{name}.toml");
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let disk = &mut Disk {
            folder: folder.clone(),
        };
        let faults = read(&file, &text, disk).expect_err(&file);
        for fault in faults.as_slice() {
            let place = fault.place.as_ref().expect("read from a file");
            assert!(place.file.is_some() && place.line > 0 && place.column > 0);
        }
        expect_file(&format!("{folder}/{name}.txt"), &format!("{faults}\n"));
    }
}
