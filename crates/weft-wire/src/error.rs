use core::fmt;

/// Why bytes could not be read, or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end before a field does.
    Truncated,
    /// There are more bytes than the format has.
    TooLong,
    /// A protocol version this program does not speak.
    Version,
    /// A datagram, frame or offload type this program does not know, or not one expected here.
    UnknownType,
    /// Fields are out of range or contradict each other.
    Malformed,
    /// The output buffer is too small; nothing useful was written.
    NoRoom,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireError::Truncated => "the bytes end before a field does",
            WireError::TooLong => "there are more bytes than the format has",
            WireError::Version => "unknown protocol version",
            WireError::UnknownType => "unknown type",
            WireError::Malformed => "fields are out of range or contradict each other",
            WireError::NoRoom => "the output buffer is too small",
        })
    }
}

impl core::error::Error for WireError {}
