use core::fmt;

/// Reason why bytes could not be parsed or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end inside or before a required field.
    Truncated,
    /// There are more bytes than the format allows.
    TooLong,
    /// This program does not support the protocol version.
    Version,
    /// The type of a datagram, frame or other field is unknown, or is not valid in this place.
    UnknownType,
    /// Fields are out of range or contradict each other.
    Malformed,
    /// The output buffer is too small. Its content is then undefined.
    NoRoom,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireError::Truncated => "truncated: the input ends inside a field",
            WireError::TooLong => "too long: bytes follow the last field",
            WireError::Version => "unknown protocol version",
            WireError::UnknownType => "unknown type",
            WireError::Malformed => "fields are out of range or contradict each other",
            WireError::NoRoom => "the output buffer is too small",
        })
    }
}

impl core::error::Error for WireError {}
