//! Writes big-endian fields into a message.

/// Writer over the buffer of one message.
///
/// A field without room is left out. The callers check the room of a whole record first, so that no record is cut.
#[derive(Debug)]
pub struct ExportWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> ExportWriter<'a> {
    /// Returns a writer at the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> ExportWriter<'a> {
        ExportWriter { buffer, len: 0 }
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes that fit.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Discards everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Writes bytes, or nothing if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.buffer.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Writes 8 bits.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Writes 16 bits.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Writes 32 bits.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Writes 64 bits.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Overwrites 16 bits at offset `at`.
    pub fn patch_u16(&mut self, at: usize, value: u16) {
        if let Some(place) = self.buffer.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}
