//! `altway lab export`: a run as one archive that others can find their way in and cite, with a data dictionary,
//! the licence, CITATION.cff, and the description of an RO-Crate.

use crate::checksums::{CHECKSUMS, changed_files, files, sum, sum_of};
use crate::folder::{SAMPLES, plan_files};
use crate::table::folder_error;
use crate::tar::Tar;
use crate::{Error, TRACES, read_run, traced_transfers};
use altway_record::{Manifest, Traced, trace_content};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The page of a run's report.
const REPORT: &str = "report.html";

/// Columns of the tables with their types and meanings, as the format's documents have them.
const SCHEMAS: [(&str, &str, &str); 2] = [
    (
        SAMPLES,
        "schema/samples.table.json",
        include_str!("../../../docs/data/schema/samples.table.json"),
    ),
    (
        "summary.csv",
        "schema/summary.table.json",
        include_str!("../../../docs/data/schema/summary.table.json"),
    ),
];

/// Schemas of what is no table.
const MORE_SCHEMAS: [(&str, &str); 2] = [
    (
        "schema/manifest.schema.json",
        include_str!("../../../docs/data/schema/manifest.schema.json"),
    ),
    (
        "schema/plan.schema.json",
        include_str!("../../../docs/data/schema/plan.schema.json"),
    ),
];

/// Description of an archive, beside that of the run itself.
#[derive(Debug, Clone)]
pub struct Deposit {
    /// People who measured: `Family, Given`, or the name of an organisation; at least one.
    pub authors: Vec<String>,
    /// The data's licence by its SPDX identifier.
    pub license: String,
    /// The data's title; `None`: made of the plan's name.
    pub title: Option<String>,
}

/// A file of the archive that is made for it.
type GeneratedFiles = BTreeMap<String, Vec<u8>>;

/// Writes the run in `run` to the archive `out`. The same run and words give the same bytes.
///
/// # Errors
/// There is no run, its files are not what its checksums say, or the archive can't be written.
pub fn export(run: &Path, out: &Path, deposit: &Deposit) -> Result<(), Error> {
    let (manifest, _) = read_run(run)?;
    let changed = changed_files(run)?;
    if !changed.is_empty() {
        return Err(Error::Changed {
            run: run.into(),
            files: changed,
        });
    }
    let kept = files(run)?;
    let mut made = made(&manifest, deposit, &traced_transfers(run)?);
    let readme = readme(&manifest, deposit, kept.contains_key(REPORT));
    made.insert("README.md".into(), readme.into_bytes());
    made.retain(|name, _| !kept.contains_key(name));
    let described = describe(&manifest, deposit, &kept, &made)?;
    made.insert("ro-crate-metadata.json".into(), described);
    made.insert(CHECKSUMS.into(), checksums(&kept, &made)?);
    write(run, out, &manifest, &kept, &made)
}

/// All but the description of the whole, and the sums.
fn made(manifest: &Manifest, deposit: &Deposit, traced: &[Traced]) -> GeneratedFiles {
    let mut made: GeneratedFiles = plan_files(&manifest.plan);
    made.insert("LICENSE.txt".into(), license(deposit).into_bytes());
    made.insert(
        "CITATION.cff".into(),
        citation(manifest, deposit).into_bytes(),
    );
    made.insert("data-dictionary.csv".into(), dictionary(traced));
    for (_, name, text) in SCHEMAS {
        made.insert(name.into(), text.as_bytes().to_vec());
    }
    for (name, text) in MORE_SCHEMAS {
        made.insert(name.into(), text.as_bytes().to_vec());
    }
    made
}

fn title(manifest: &Manifest, deposit: &Deposit) -> String {
    let plan = &manifest.plan.name;
    deposit.title.clone().unwrap_or_else(|| {
        format!("Transfer times over emulated networks, measured with altway lab: {plan}")
    })
}

/// The day on which the run began; of an old run without one, the first.
fn date(manifest: &Manifest) -> &str {
    manifest.started_at.get(..10).unwrap_or("1970-01-01")
}

fn readme(manifest: &Manifest, deposit: &Deposit, has_report: bool) -> String {
    let (title, plan) = (title(manifest, deposit), &manifest.plan);
    let description = match plan.description.as_str() {
        "" => String::new(),
        text => format!("{text}\n\n"),
    };
    let report = match has_report {
        true => {
            "`report.html`: the result, its pictures, the conditions and the method; open it in a browser."
        }
        false => {
            "`altway lab report .` writes `report.html`: the result, its pictures, the conditions and the method."
        }
    };
    let commit = manifest.altway_commit.as_deref();
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!(
        "# {title}\n\n{description}Measured on {} with altway {}{commit}.\n\n\
         - {report}\n\
         - `samples.csv`: what was measured, a row a request; `summary.csv` what follows for each cell.\n\
         - `data-dictionary.csv`: every column of both with its type, unit and meaning, and every file of `traces/`, where there \
         are some, with its transfer. Units end a column's name.\n\
         - `manifest.json`: program, machine, link and plan; `schema/` says what stands there.\n\
         - `plan.toml`: `altway lab run plan.toml` measures the same anew.\n\
         - `SHA256SUMS`: `sha256sum -c SHA256SUMS` shows whether a file was changed.\n\n\
         Everything but `samples.csv`, `alone.csv`, `manifest.json` and `traces/` is made from these: `altway lab report .`.\n\
         How to cite it is said in `CITATION.cff`, the licence in `LICENSE.txt`.\n",
        date(manifest),
        manifest.altway_version,
    )
}

fn license(deposit: &Deposit) -> String {
    let (license, authors) = (&deposit.license, deposit.authors.join("; "));
    format!(
        "SPDX-License-Identifier: {license}\n\nThe data in this archive are of {authors} and are offered under {license}.\n\
         Its text: https://spdx.org/licenses/{license}.html\n"
    )
}

/// Citation File Format 1.2.0. A JSON string is one of YAML.
fn citation(manifest: &Manifest, deposit: &Deposit) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let mut cff = format!(
        "cff-version: 1.2.0\nmessage: If you use these measurements, please cite them as below.\ntype: dataset\n\
         title: {}\nauthors:\n",
        text(&title(manifest, deposit))
    );
    for author in &deposit.authors {
        let _ = match author.split_once(',') {
            Some((family, given)) => write!(
                cff,
                "  - family-names: {}\n    given-names: {}\n",
                text(family.trim()),
                text(given.trim())
            ),
            None => writeln!(cff, "  - name: {}", text(author.trim())),
        };
    }
    let _ = write!(
        cff,
        "date-released: {}\nlicense: {}\n",
        text(date(manifest)),
        text(&deposit.license)
    );
    if !manifest.plan.description.is_empty() {
        let _ = writeln!(cff, "abstract: {}", text(&manifest.plan.description));
    }
    cff
}

/// A row a column: file, name, type, unit, meaning. A file of a traced transfer has a row without a column, whose type is
/// the file's.
fn dictionary(traced: &[Traced]) -> Vec<u8> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = "file,column,type,unit,description\n".to_owned();
    for (file, _, schema) in SCHEMAS {
        let schema: Value = serde_json::from_str(schema).expect("a committed schema is JSON");
        for field in schema["fields"].as_array().into_iter().flatten() {
            let word = |key: &str| field[key].as_str().unwrap_or_default();
            let name = word("name");
            let _ = writeln!(
                text,
                "{file},{name},{},{},{}",
                word("type"),
                unit_of(name),
                quoted(word("description"))
            );
        }
    }
    if !traced.is_empty() {
        let what =
            "columns as in samples.csv, of the transfers that were traced when the run had ended";
        let _ = writeln!(text, "{TRACES}/{SAMPLES},,text/csv,,{}", quoted(what));
    }
    for one in traced {
        let transfer = transfer_in_words(one);
        for file in &one.files {
            let content = trace_content(file).unwrap_or("a file of the transfer");
            let (format, what) = (format_of(file), quoted(&format!("{transfer}: {content}")));
            let _ = writeln!(text, "{file},,{format},,{what}");
        }
    }
    text.into_bytes()
}

/// The transfer that files belong to: `cell 1, h2, row 0 of traces/samples.csv`.
fn transfer_in_words(traced: &Traced) -> String {
    let sample = &traced.sample;
    let arm = match sample.policy {
        Some(policy) => format!("policy {policy}"),
        None => sample.protocol.to_string(),
    };
    format!(
        "cell {}, {arm}, transfer {} of {TRACES}/{SAMPLES}",
        sample.cell, sample.ordinal
    )
}

/// The unit by which a column's name ends, in words.
fn unit_of(column: &str) -> &'static str {
    let units = [
        ("_us", "microseconds"),
        ("_us_p99", "microseconds"),
        ("_unix_ms", "milliseconds since 1970-01-01 UTC"),
        ("_ma_s", "seconds"),
        ("_bps", "bit/s"),
        ("_bytes", "bytes"),
        ("_ppb", "parts per billion"),
        ("_percent", "per cent"),
        ("_packets", "packets"),
    ];
    let ends = |(ending, _): &&(&str, &str)| column.ends_with(ending);
    units.iter().find(ends).map_or("", |(_, unit)| *unit)
}

/// RO-Crate 1.1: the data set, its files with their sums, who made it and by which program.
fn describe(
    manifest: &Manifest,
    deposit: &Deposit,
    kept: &BTreeMap<String, PathBuf>,
    made: &GeneratedFiles,
) -> Result<Vec<u8>, Error> {
    let mut graph = Vec::new();
    for (name, path) in kept {
        let length = fs::metadata(path)
            .map_err(folder_error("read", path))?
            .len();
        graph.push(file(name, length, &sum(path)?));
    }
    for (name, bytes) in made {
        graph.push(file(name, bytes.len() as u64, &sum_of(bytes)));
    }
    let parts: Vec<Value> = graph
        .iter()
        .map(|file| json!({"@id": file["@id"]}))
        .collect();
    let (authors, references) = authors(deposit);
    graph.extend(authors);
    let license = format!("https://spdx.org/licenses/{}", deposit.license);
    graph.extend([
        json!({"@id": license, "@type": "CreativeWork", "name": deposit.license}),
        json!({
            "@id": "#altway",
            "@type": "SoftwareApplication",
            "name": "altway",
            "softwareVersion": manifest.altway_version,
            "identifier": manifest.altway_commit,
        }),
        json!({
            "@id": "#run",
            "@type": "CreateAction",
            "name": manifest.command.join(" "),
            "startTime": manifest.started_at,
            "instrument": {"@id": "#altway"},
            "agent": references.clone(),
            "object": {"@id": "plan.toml"},
            "result": [{"@id": SAMPLES}],
        }),
        json!({
            "@id": "./",
            "@type": "Dataset",
            "name": title(manifest, deposit),
            "description": match manifest.plan.description.as_str() {
                "" => "Transfer times over emulated networks.",
                text => text,
            },
            "datePublished": date(manifest),
            "license": {"@id": license},
            "author": references,
            "hasPart": parts,
            "mentions": {"@id": "#run"},
        }),
        json!({
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        }),
    ]);
    graph.reverse();
    let whole = json!({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph});
    let mut text = serde_json::to_vec_pretty(&whole).expect("all keys are texts");
    text.push(b'\n');
    Ok(text)
}

/// Returns the people who measured, and references to them.
fn authors(deposit: &Deposit) -> (Vec<Value>, Vec<Value>) {
    let one = |(i, name): (usize, &String)| {
        let id = format!("#author-{i}");
        let kind = match name.contains(',') {
            true => "Person",
            false => "Organization",
        };
        let author = json!({"@id": id, "@type": kind, "name": name});
        (author, json!({"@id": id}))
    };
    deposit.authors.iter().enumerate().map(one).unzip()
}

fn file(name: &str, length: u64, sum: &str) -> Value {
    json!({
        "@id": name,
        "@type": "File",
        "name": name,
        "contentSize": length.to_string(),
        "encodingFormat": format_of(name),
        "sha256": sum,
    })
}

fn format_of(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "csv" => "text/csv",
        "json" => "application/json",
        "toml" => "application/toml",
        "html" => "text/html",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "md" => "text/markdown",
        "cff" => "application/yaml",
        "parquet" => "application/vnd.apache.parquet",
        "pcapng" => "application/x-pcapng",
        "qlog" => "application/qlog+json",
        "sqlog" => "application/qlog+json-seq",
        "txt" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}

fn checksums(kept: &BTreeMap<String, PathBuf>, made: &GeneratedFiles) -> Result<Vec<u8>, Error> {
    let mut sums = BTreeMap::new();
    for (name, path) in kept {
        sums.insert(name, sum(path)?);
    }
    for (name, bytes) in made {
        sums.insert(name, sum_of(bytes));
    }
    let lines = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n"));
    Ok(lines.collect::<String>().into_bytes())
}

fn write(
    run: &Path,
    out: &Path,
    manifest: &Manifest,
    kept: &BTreeMap<String, PathBuf>,
    made: &GeneratedFiles,
) -> Result<(), Error> {
    let time = manifest.started_at.parse::<jiff::Timestamp>();
    let time = time.map_or(0, |time| u64::try_from(time.as_second()).unwrap_or(0));
    let absolute = std::path::absolute(run).map_err(folder_error("find", run))?;
    let folder = absolute.file_name().map_or_else(
        || manifest.plan.name.clone(),
        |name| name.to_string_lossy().into_owned(),
    );
    let mut temporary = out.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    let written = || -> io::Result<()> {
        let file = BufWriter::new(File::create(&temporary)?);
        let zipped = GzBuilder::new().write(file, Compression::default());
        let mut tar = Tar::new(zipped, time);
        for (name, path) in kept {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            tar.add(&format!("{folder}/{name}"), length, &mut file)?;
        }
        for (name, bytes) in made {
            tar.add(
                &format!("{folder}/{name}"),
                bytes.len() as u64,
                &mut &bytes[..],
            )?;
        }
        tar.finish()?.finish()?.flush()?;
        fs::rename(&temporary, out)
    };
    written().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        folder_error("write", out)(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_checksums;
    use std::process::Command;

    fn deposit() -> Deposit {
        Deposit {
            authors: vec!["Doe, Jo".into(), "An Institute".into()],
            license: "CC-BY-4.0".into(),
            title: None,
        }
    }

    fn run(parent: &Path) -> PathBuf {
        let run = parent.join("a-run");
        fs::create_dir(&run).unwrap();
        let manifest = include_str!("../../report/tests/data/manifest.json");
        fs::write(run.join("manifest.json"), manifest).unwrap();
        let samples = include_str!("../../report/tests/data/samples.csv");
        fs::write(run.join(SAMPLES), samples).unwrap();
        write_checksums(&run).unwrap();
        run
    }

    fn unpacked(parent: &Path, archive: &Path) -> PathBuf {
        let folder = parent.join("unpacked");
        fs::create_dir(&folder).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(&folder);
        assert!(tar.status().unwrap().success());
        folder.join("a-run")
    }

    #[test]
    fn an_archive_holds_the_run_and_what_others_need_and_its_sums_are_right() {
        let parent = tempfile::tempdir().unwrap();
        let (run, out) = (run(parent.path()), parent.path().join("a.tar.gz"));
        export(&run, &out, &deposit()).unwrap();
        let first = fs::read(&out).unwrap();
        export(&run, &out, &deposit()).unwrap();
        assert_eq!(
            fs::read(&out).unwrap(),
            first,
            "the same run, the same bytes"
        );
        let there = unpacked(parent.path(), &out);
        let mut check = Command::new("sha256sum");
        check
            .args(["--check", "--strict", "--quiet", CHECKSUMS])
            .current_dir(&there);
        assert!(check.status().unwrap().success());
        let read = |name: &str| fs::read_to_string(there.join(name)).unwrap();
        assert_eq!(
            read(SAMPLES),
            fs::read_to_string(run.join(SAMPLES)).unwrap()
        );
        assert!(read("CITATION.cff").contains(
            "family-names: \"Doe\"\n    given-names: \"Jo\"\n  - name: \"An Institute\""
        ));
        assert!(read("README.md").contains("- `altway lab report .` writes `report.html`: "));
        assert!(read("LICENSE.txt").starts_with("SPDX-License-Identifier: CC-BY-4.0\n"));
        let columns = altway_record::CSV_HEADER.trim_end().split(',');
        let dictionary = read("data-dictionary.csv");
        for column in columns {
            assert!(
                dictionary.contains(&format!("\nsamples.csv,{column},")),
                "{column}"
            );
        }
        let plan = crate::plans::read(there.join("plan.toml").to_str().unwrap()).unwrap();
        assert_eq!(plan.name, read_run(&run).unwrap().0.plan.name);
    }

    #[test]
    fn the_crate_describes_every_file_and_refers_to_nothing_that_is_not_there() {
        let parent = tempfile::tempdir().unwrap();
        let (run, out) = (run(parent.path()), parent.path().join("a.tar.gz"));
        export(&run, &out, &deposit()).unwrap();
        let there = unpacked(parent.path(), &out);
        let text = fs::read_to_string(there.join("ro-crate-metadata.json")).unwrap();
        let whole: Value = serde_json::from_str(&text).unwrap();
        let graph = whole["@graph"].as_array().unwrap();
        let of = |id: &str| graph.iter().find(|one| one["@id"] == id);
        let parts = of("./").unwrap()["hasPart"].as_array().unwrap();
        let described: Vec<&str> = parts
            .iter()
            .map(|part| part["@id"].as_str().unwrap())
            .collect();
        for name in files(&there).unwrap().keys() {
            let itself = name == "ro-crate-metadata.json";
            assert!(itself || described.contains(&name.as_str()), "{name}");
        }
        for part in &described {
            assert!(of(part).is_some() && there.join(part).exists(), "{part}");
        }
        for reference in ["#run", "#altway", "#author-0", "#author-1"] {
            assert!(of(reference).is_some(), "{reference}");
        }
    }

    #[test]
    fn a_run_that_was_changed_is_not_exported() {
        let parent = tempfile::tempdir().unwrap();
        let (run, out) = (run(parent.path()), parent.path().join("a.tar.gz"));
        let mut samples = fs::read_to_string(run.join(SAMPLES)).unwrap();
        samples = samples.replacen("h2", "h3", 1);
        fs::write(run.join(SAMPLES), samples).unwrap();
        let error = export(&run, &out, &deposit()).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert!(error.to_string().contains("samples.csv"), "{error}");
        assert!(!out.exists());
    }
}
