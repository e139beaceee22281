//! Writes the seeds into the corpus.

use std::fs;
use std::path::Path;

use altway_fuzz::{TARGETS, seeds};

fn main() -> std::io::Result<()> {
    for (target, _) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target);
        fs::create_dir_all(&folder)?;
        for seed in seeds::seeds(target) {
            fs::write(folder.join(format!("seed-{}", seed.name)), seed.input)?;
        }
    }
    Ok(())
}
