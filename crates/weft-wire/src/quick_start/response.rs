use super::{QuickRate, QuickStart, VALUE_LEN};
use crate::WireError;
use crate::bytes::{ByteReader, Writer, put_at, u8_at, u16_at};
use crate::checksum::{finish_partial, pseudo_header};
use crate::ip::options::{finish_header, splice};
use crate::ip::{IpVersion, IpView, L4Checksum, TcpOption, TcpView};

/// Option kind of the Quick-Start Response (RFC 4782 §4.1).
const KIND: u8 = 27;
/// Length of the Quick-Start Response option, in bytes.
pub const RESPONSE_LEN: usize = VALUE_LEN + 2;
/// Length of the longest TCP header, in bytes.
const TCP_HEADER_MAX: usize = 60;

/// The Quick-Start Response option of TCP: the values of a request as the receiver saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuickStartResponse {
    /// The rate in the request when it arrived at the receiver.
    pub rate: QuickRate,
    /// IP TTL of the packet that carried the request, minus the TTL field of the request, modulo 256.
    pub ttl_difference: u8,
    /// The nonce in the request when it arrived at the receiver, 30 bits.
    pub nonce: u32,
}

impl QuickStartResponse {
    /// Returns the response to a request that arrived in a packet with the IP TTL `ttl`.
    pub fn to(request: &QuickStart, ttl: u8) -> QuickStartResponse {
        QuickStartResponse { rate: request.rate, ttl_difference: ttl.wrapping_sub(request.ttl), nonce: request.nonce }
    }

    /// Parses the data of the TCP option, without its kind and length.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`].
    pub fn parse(data: &[u8]) -> Result<QuickStartResponse, WireError> {
        let mut r = ByteReader::new(data);
        let (rate, ttl_difference, nonce) = (r.u8()?, r.u8()?, r.u32()?);
        r.end()?;
        Ok(QuickStartResponse { rate: QuickRate(rate & 0x0f), ttl_difference, nonce: nonce >> 2 })
    }

    /// Returns the Quick-Start Response in a packet with a TCP segment, or `None` if it has no valid one.
    pub fn of(packet: &[u8]) -> Option<QuickStartResponse> {
        let tcp = IpView::parse(packet).ok()?.tcp()?;
        tcp.options().find_map(|option| match option {
            TcpOption::Other { kind: KIND, data } => QuickStartResponse::parse(data).ok(),
            _ => None,
        })
    }

    /// Writes the TCP option at the start of `out` and returns its length, [`RESPONSE_LEN`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        w.u8(KIND)?;
        w.u8(RESPONSE_LEN as u8)?;
        w.u8(self.rate.0)?;
        w.u8(self.ttl_difference)?;
        w.u32(self.nonce << 2)?;
        Ok(w.len())
    }

    /// Writes `packet` with this response to `out` and returns the new length.
    ///
    /// The length grows by [`RESPONSE_LEN`]. The response precedes the other TCP options. `checksum` is the state of
    /// the packet's checksum field, which remains the same.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `out` or the TCP header is full. [`WireError::TooLong`] if the packet would exceed the
    /// maximum IP length. [`WireError::Malformed`] if it is not a TCP segment or already has a response.
    /// [`WireError::Truncated`], [`WireError::Version`].
    pub fn insert(&self, packet: &[u8], checksum: L4Checksum, out: &mut [u8]) -> Result<usize, WireError> {
        let ip = IpView::parse(packet)?;
        let tcp = ip.tcp().ok_or(WireError::Malformed)?;
        if QuickStartResponse::of(packet).is_some() {
            return Err(WireError::Malformed);
        }
        let (start, header_len) = (ip.header_len, tcp.header_len + RESPONSE_LEN);
        if header_len > TCP_HEADER_MAX {
            return Err(WireError::NoRoom);
        }
        let total_at = if ip.version == IpVersion::V4 { 2 } else { 4 };
        let total = u16_at(packet, total_at)?.checked_add(RESPONSE_LEN as u16).ok_or(WireError::TooLong)?;
        let mut option = [0; RESPONSE_LEN];
        self.emit(&mut option)?;
        let segment = packet.get(..ip.total_len).ok_or(WireError::Truncated)?;
        let len = splice(segment, start + TcpView::MIN_HEADER_LEN, &option, out)?;
        let out = out.get_mut(..len).ok_or(WireError::NoRoom)?;
        put_at(out, total_at, &total.to_be_bytes())?;
        put_at(out, start + 12, &[((header_len / 4) << 4) as u8 | u8_at(packet, start + 12)? & 0x0f])?;
        finish_header(out)?;
        put_at(out, start + 16, &pseudo_header(ip.src, ip.dst, ip.protocol, len - start).fold().to_be_bytes())?;
        if checksum == L4Checksum::Complete {
            finish_partial(out, start, 16)?;
        }
        Ok(len)
    }
}
