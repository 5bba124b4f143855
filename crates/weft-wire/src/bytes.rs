//! A reader and a writer for byte slices, and access at an offset with a check of the length. Integers are big-endian.

use crate::{WireError, varint};

/// Reads fields from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        ByteReader(bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Skips all zero bytes at the front of the unread bytes.
    pub(crate) fn skip_zeros(&mut self) {
        let zeros = self.0.iter().position(|byte| *byte != 0).unwrap_or(self.0.len());
        self.0 = self.0.get(zeros..).unwrap_or_default();
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], WireError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (field, rest) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|&[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(|field| u16::from_be_bytes(*field))
    }

    pub(crate) fn u24(&mut self) -> Result<u32, WireError> {
        self.array().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(|field| u32::from_be_bytes(*field))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(|field| u64::from_be_bytes(*field))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, WireError> {
        let (value, rest) = varint::parse(self.0)?;
        self.0 = rest;
        Ok(value)
    }

    pub(crate) fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::TooLong) }
    }
}

/// Writes fields into a byte slice, front to back.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    /// Number of bytes written.
    len: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Writer { bytes, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn written(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Discards all bytes written after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(crate) fn put(&mut self, field: &[u8]) -> Result<(), WireError> {
        let end = self.len + field.len();
        self.bytes.get_mut(self.len..end).ok_or(WireError::NoRoom)?.copy_from_slice(field);
        self.len = end;
        Ok(())
    }

    /// Overwrites the bytes at offset `at`, which were written earlier, with `field`.
    pub(crate) fn patch(&mut self, at: usize, field: &[u8]) -> Result<(), WireError> {
        put_at(self.bytes, at, field)
    }

    pub(crate) fn u8(&mut self, value: u8) -> Result<(), WireError> {
        self.put(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> Result<(), WireError> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u24(&mut self, value: u32) -> Result<(), WireError> {
        let [_, a, b, c] = value.to_be_bytes();
        self.put(&[a, b, c])
    }

    pub(crate) fn u32(&mut self, value: u32) -> Result<(), WireError> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn varint(&mut self, value: u64) -> Result<(), WireError> {
        self.len += varint::emit(value, self.bytes.get_mut(self.len..).ok_or(WireError::NoRoom)?)?;
        Ok(())
    }
}

/// Returns the `N` bytes at offset `at`. Fails if the slice is too short.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], WireError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(WireError::Truncated)
}

/// Returns the byte at offset `at`. Fails if the slice is too short.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Result<u8, WireError> {
    bytes.get(at).copied().ok_or(WireError::Truncated)
}

/// Returns the 16-bit integer at offset `at`. Fails if the slice is too short.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Result<u16, WireError> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

/// Returns the 32-bit integer at offset `at`. Fails if the slice is too short.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, WireError> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// Overwrites the bytes from offset `at` on with `field`. Fails if the slice is too short.
pub(crate) fn put_at(bytes: &mut [u8], at: usize, field: &[u8]) -> Result<(), WireError> {
    bytes.get_mut(at..at + field.len()).ok_or(WireError::NoRoom)?.copy_from_slice(field);
    Ok(())
}
