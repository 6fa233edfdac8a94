//! Replays the committed corpus of the fuzz targets, so that what fuzzing once found stays found.

use std::fs;
use std::path::Path;

#[path = "../fuzz/src/lib.rs"]
mod targets;

#[test]
fn corpus() {
    for (name, run) in targets::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let mut inputs = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            if let Err(panic) = std::panic::catch_unwind(|| run(&data)) {
                eprintln!("{} fails", path.display());
                std::panic::resume_unwind(panic);
            }
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
}

/// Short inputs of every kind: each target must bear what is not even a header.
#[test]
fn short_inputs() {
    for (_, run) in targets::TARGETS {
        for len in 0..64 {
            for byte in [0u8, 1, 2, 0x7F, 0x80, 0xFF] {
                run(&vec![byte; len]);
            }
        }
        for selector in 0..=255 {
            run(&[selector, 255]);
            run(&[selector, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            run(&[selector, 255, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        }
    }
}
