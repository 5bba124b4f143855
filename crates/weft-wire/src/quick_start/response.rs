use super::{QuickRate, VALUE_LEN};
use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::ip::{IpView, TcpOption};

/// RFC 4782 §4.1.
const KIND: u8 = 27;
/// Bytes of the TCP option.
pub const RESPONSE_LEN: usize = VALUE_LEN + 2;

/// The Quick-Start Response option of TCP: what the receiver saw of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// What arrived of the rate.
    pub rate: QuickRate,
    /// The packet's TTL less the option's.
    pub ttl_difference: u8,
    /// What arrived of the nonce, 30 bits.
    pub nonce: u32,
}

impl Response {
    /// Reads what follows the TCP option's kind and length.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`].
    pub fn parse(data: &[u8]) -> Result<Response, WireError> {
        let mut r = Reader::new(data);
        let (rate, ttl_difference, nonce) = (r.u8()?, r.u8()?, r.u32()?);
        r.end()?;
        Ok(Response { rate: QuickRate(rate & 0x0f), ttl_difference, nonce: nonce >> 2 })
    }

    /// That of a TCP segment; `None` if it has none, or one that makes no sense.
    pub fn of(packet: &[u8]) -> Option<Response> {
        let tcp = IpView::parse(packet).ok()?.tcp()?;
        tcp.options().find_map(|option| match option {
            TcpOption::Other { kind: KIND, data } => Response::parse(data).ok(),
            _ => None,
        })
    }

    /// Writes the TCP option to the front of `out`; gives its length, [`RESPONSE_LEN`].
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
}
