//! Converts rows to Parquet columns and back.
//!
//! The columns are not compressed, so that the bytes do not depend on a library's version.

use super::{SweepFileError, SweepRow};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row, RowAccessor};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "message sweep {
    REQUIRED INT32 mix (INTEGER(32,false));
    REQUIRED INT64 seed (INTEGER(64,false));
    REQUIRED BYTE_ARRAY links (STRING);
    REQUIRED BYTE_ARRAY variant (STRING);
    REQUIRED INT32 run (INTEGER(32,false));
    REQUIRED DOUBLE goodput_bps;
    REQUIRED DOUBLE efficiency;
    OPTIONAL DOUBLE of_best_link_through_weft;
    OPTIONAL DOUBLE of_best_link;
    REQUIRED BOOLEAN pass;
}";

/// Writes a Parquet file with these rows and metadata.
pub(super) fn write<W: Write + Send>(
    out: W,
    about: &[(&str, String)],
    rows: &[SweepRow],
) -> Result<(), SweepFileError> {
    let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_created_by("weft".into())
        .set_compression(Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(about))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    // The columns must be written in the schema's order. Parquet stores unsigned numbers bit for bit in signed ones.
    required::<Int32Type, _>(&mut group, rows, |row| row.mix as i32)?;
    required::<Int64Type, _>(&mut group, rows, |row| row.seed as i64)?;
    required::<ByteArrayType, _>(&mut group, rows, |row| text(&row.links))?;
    required::<ByteArrayType, _>(&mut group, rows, |row| text(&row.variant))?;
    required::<Int32Type, _>(&mut group, rows, |row| row.run as i32)?;
    required::<DoubleType, _>(&mut group, rows, |row| row.goodput_bps)?;
    required::<DoubleType, _>(&mut group, rows, |row| row.efficiency)?;
    optional(&mut group, rows, |row| row.of_best_link_through_weft)?;
    optional(&mut group, rows, |row| row.of_best_link)?;
    required::<BoolType, _>(&mut group, rows, |row| row.pass)?;
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Reads a file that [`write`] wrote. Returns its metadata and its rows.
pub(super) fn read(file: File) -> Result<(BTreeMap<String, String>, Vec<SweepRow>), SweepFileError> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata().file_metadata();
    if metadata.schema() != schema()?.as_ref() {
        return Err(SweepFileError::NotASweep("it has other columns".into()));
    }
    let pairs = metadata.key_value_metadata().into_iter().flatten();
    let about = pairs.filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect();
    let rows = reader.get_row_iter(None)?.map(|row| row_of(&row?)).collect::<Result<_, ParquetError>>()?;
    Ok((about, rows))
}

fn schema() -> Result<Arc<Type>, ParquetError> {
    parse_message_type(SCHEMA).map(Arc::new)
}

fn required<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[SweepRow],
    value: impl Fn(&SweepRow) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column::<T, W>(group, &values, None)
}

fn optional<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[SweepRow],
    value: impl Fn(&SweepRow) -> Option<f64>,
) -> Result<(), ParquetError> {
    let all: Vec<Option<f64>> = rows.iter().map(value).collect();
    let is_there: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<f64> = all.into_iter().flatten().collect();
    column::<DoubleType, W>(group, &values, Some(&is_there))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    is_there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, is_there, None)?;
    column.close()
}

fn row_of(row: &Row) -> Result<SweepRow, ParquetError> {
    Ok(SweepRow {
        mix: row.get_uint(0)?,
        seed: row.get_ulong(1)?,
        links: row.get_string(2)?.clone(),
        variant: row.get_string(3)?.clone(),
        run: row.get_uint(4)?,
        goodput_bps: row.get_double(5)?,
        efficiency: row.get_double(6)?,
        of_best_link_through_weft: optional_double(row, 7),
        of_best_link: optional_double(row, 8),
        pass: row.get_bool(9)?,
    })
}

fn optional_double(row: &Row, column: usize) -> Option<f64> {
    match row.get_column_iter().nth(column) {
        Some((_, Field::Double(value))) => Some(*value),
        _ => None,
    }
}
