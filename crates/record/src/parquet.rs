//! The rows of `samples.csv` as a Parquet file.
//!
//! For runs whose CSV is slow to read: the same columns under the same names, with types, compressed.
//! `samples.csv` stays what a run writes and resumes from; this file is made from it.

use crate::{CSV_HEADER, Sample, csv_rows};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::{parser::parse_message_type, types::TypePtr};
use std::sync::Arc;

/// Number of rows from which on a run gets a Parquet file without being asked: of fewer, CSV is
/// read at once.
pub const PARQUET_FROM_ROWS: usize = 20_000;

/// Number of rows that a row group has at most: bounds what a reader must hold of a column.
const ROW_GROUP: usize = 100_000;

/// The type in which [`parquet`] holds a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Truth,
    Real,
    Signed,
    Unsigned,
}

/// `samples` as a Parquet file: a column for each of `samples.csv`, null where the CSV has nothing.
///
/// Text is UTF-8, whole numbers have 64 bits (unsigned but for the time of the day), compressed with
/// Snappy. The same samples give the same bytes.
///
/// # Panics
/// Never: the columns are those that the schema names, and writing to memory does not fail.
#[must_use]
pub fn parquet(samples: &[Sample]) -> Vec<u8> {
    in_groups_of(ROW_GROUP, samples)
}

fn in_groups_of(row_group: usize, samples: &[Sample]) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let properties = Arc::new(properties.build());
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema(), properties).expect("memory does not fail");
    for rows in samples.chunks(row_group) {
        let mut group = writer.next_row_group().expect("the last group was closed");
        write_group(&mut group, &columns(rows));
        group.close().expect("all columns were written");
    }
    writer.into_inner().expect("memory does not fail")
}

fn names() -> impl Iterator<Item = &'static str> {
    CSV_HEADER.trim_end().split(',')
}

fn kind(column: &str) -> Kind {
    match column {
        "protocol" | "protocol_used" | "topology" | "server" | "client" | "congestion"
        | "certificate" | "connection" | "link" | "queue" | "policy" | "fault" => Kind::Text,
        "null_arm" | "valid" | "certificate_compression" => Kind::Truth,
        "lateness_us_p99" => Kind::Real,
        "started_unix_ms" => Kind::Signed,
        _ => Kind::Unsigned,
    }
}

fn schema() -> TypePtr {
    let fields: String = names()
        .map(|name| match kind(name) {
            Kind::Text => format!("optional binary {name} (STRING);\n"),
            Kind::Truth => format!("optional boolean {name};\n"),
            Kind::Real => format!("optional double {name};\n"),
            Kind::Signed => format!("optional int64 {name} (INTEGER(64,true));\n"),
            Kind::Unsigned => format!("optional int64 {name} (INTEGER(64,false));\n"),
        })
        .collect();
    let message = format!("message samples {{\n{fields}}}");
    Arc::new(parse_message_type(&message).expect("the columns' names are words"))
}

/// The cells of each column, as `samples.csv` spells them.
fn columns(rows: &[Sample]) -> Vec<Vec<String>> {
    let text = csv_rows(rows);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    let mut columns = vec![Vec::with_capacity(rows.len()); names().count()];
    for row in reader.records() {
        let row = row.expect("it was written a moment ago");
        for (column, cell) in columns.iter_mut().zip(&row) {
            column.push(cell.to_owned());
        }
    }
    columns
}

fn write_group(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, columns: &[Vec<String>]) {
    for (name, cells) in names().zip(columns) {
        let mut column = group
            .next_column()
            .expect("memory does not fail")
            .expect("the schema has a column for each name");
        write_column(column.untyped(), kind(name), cells);
        column.close().expect("memory does not fail");
    }
}

fn write_column(writer: &mut ColumnWriter<'_>, kind: Kind, cells: &[String]) {
    // A column's definition level: 1 where there is a value, 0 where there is none.
    let levels: Vec<i16> = cells
        .iter()
        .map(|cell| i16::from(!cell.is_empty()))
        .collect();
    let levels = Some(levels.as_slice());
    let cells = cells.iter().filter(|cell| !cell.is_empty());
    let written = match writer {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts: Vec<ByteArray> = cells.map(|cell| cell.as_str().into()).collect();
            writer.write_batch(&texts, levels, None)
        }
        ColumnWriter::BoolColumnWriter(writer) => {
            let truths: Vec<bool> = cells.map(|cell| cell == "true").collect();
            writer.write_batch(&truths, levels, None)
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let numbers: Vec<f64> = cells.map(|cell| number(cell)).collect();
            writer.write_batch(&numbers, levels, None)
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let numbers: Vec<i64> = cells.map(|cell| whole(kind, cell)).collect();
            writer.write_batch(&numbers, levels, None)
        }
        _ => unreachable!("the schema has columns of these types alone"),
    };
    written.expect("memory does not fail");
}

/// A whole number's 64 bits, which Parquet keeps in an `i64` whether or not they have a sign.
fn whole(kind: Kind, cell: &str) -> i64 {
    match kind {
        Kind::Signed => number(cell),
        _ => number::<u64>(cell).cast_signed(),
    }
}

fn number<T: std::str::FromStr>(cell: &str) -> T {
    let parsed = cell.parse().ok();
    parsed.expect("the column's kind is that of the sample's field")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;
    use std::collections::BTreeMap;

    type Row = BTreeMap<String, Field>;

    fn rows(file: Vec<u8>) -> Vec<Row> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(|row| row.unwrap().into_columns().into_iter().collect())
            .collect()
    }

    #[test]
    fn every_column_of_a_sample_is_read_back() {
        let mut failed = sample();
        (failed.total_us, failed.protocol_used) = (None, None);
        failed.fault = "timed out, \"twice\"".into();
        failed.link_seed = u64::MAX;
        failed.valid = false;
        let rows = rows(parquet(&[sample(), failed]));
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].len(), names().count());
        assert_eq!(rows[0]["ordinal"], Field::ULong(7));
        assert_eq!(rows[0]["lateness_us_p99"], Field::Double(80.5));
        assert_eq!(rows[0]["started_unix_ms"], Field::Long(1_790_000_000_000));
        assert_eq!(rows[0]["protocol"], Field::Str("h3".into()));
        assert_eq!(rows[0]["fault"], Field::Null);
        assert_eq!(rows[1]["total_us"], Field::Null);
        assert_eq!(rows[1]["protocol_used"], Field::Null);
        assert_eq!(rows[1]["link_seed"], Field::ULong(u64::MAX));
        assert_eq!(rows[1]["valid"], Field::Bool(false));
        assert_eq!(rows[1]["fault"], Field::Str("timed out, \"twice\"".into()));
    }

    #[test]
    fn a_run_without_samples_is_a_file_without_rows() {
        assert_eq!(rows(parquet(&[])).len(), 0);
    }

    #[test]
    fn the_same_samples_give_the_same_bytes() {
        let samples = vec![sample(); 3];
        assert_eq!(parquet(&samples), parquet(&samples));
    }

    #[test]
    fn rows_of_several_groups_stay_in_order() {
        let samples: Vec<_> = (0..5)
            .map(|ordinal| Sample {
                ordinal,
                ..sample()
            })
            .collect();
        let file = in_groups_of(2, &samples);
        let reader = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let ordinals: Vec<_> = rows(file)
            .iter()
            .map(|row| row["ordinal"].clone())
            .collect();
        assert_eq!(ordinals, (0..5).map(Field::ULong).collect::<Vec<_>>());
    }
}
