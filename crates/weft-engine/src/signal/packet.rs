//! Writes signals into TUN packets behind a virtio-net header, and into separate packets.

use weft_core::pool::{BufId, Pool};
use weft_wire::WireError;
use weft_wire::checksum::{checksum, finish_partial};
use weft_wire::er_sig::Signal;
use weft_wire::er_sig::carriage::{ADDED_LEN, insert};
use weft_wire::ip::{IpView, L4Checksum, TcpFlags, protocol};
use weft_wire::quick_start::QuickStartResponse;
use weft_wire::super_packet::{SuperPacket, partial_l4_checksum};
use weft_wire::virtio::{VNET_HEADER_LEN, VnetHeader};

/// Longest packet that may carry a signal, including the signal, in bytes.
const LONGEST: usize = 2_000;
/// Maximum length of the IP and TCP headers of a separate ACK, in bytes.
const HEADER_MAX: usize = 256;

/// Adds a signal to the packet of `len` bytes in a buffer. Returns the shape of the longer packet.
pub fn add(pool: &mut Pool, buf: BufId, len: usize, signal: &Signal) -> Result<SuperPacket, WireError> {
    lengthen(pool, buf, len, |packet, out, vnet| {
        if vnet.needs_csum() {
            vnet.csum_start += ADDED_LEN as u16;
        }
        insert(packet, signal, out)
    })
}

/// Adds the answer to a Quick-Start request to the SYN/ACK of `len` bytes in a buffer.
///
/// Returns the shape of the longer packet.
pub fn answer(
    pool: &mut Pool,
    buf: BufId,
    len: usize,
    response: &QuickStartResponse,
) -> Result<SuperPacket, WireError> {
    lengthen(pool, buf, len, |packet, out, vnet| {
        let checksum = if vnet.needs_csum() { L4Checksum::Partial } else { L4Checksum::Complete };
        response.insert(packet, checksum, out)
    })
}

/// Replaces the packet of `len` bytes in a buffer by the output of `write`, which has a longer header.
///
/// Returns the shape of the new packet.
fn lengthen(
    pool: &mut Pool,
    buf: BufId,
    len: usize,
    write: impl FnOnce(&[u8], &mut [u8], &mut VnetHeader) -> Result<usize, WireError>,
) -> Result<SuperPacket, WireError> {
    let bytes = pool.bytes_mut(buf);
    let (mut vnet, _) = VnetHeader::parse(bytes)?;
    let mut packet = [0; LONGEST];
    let packet = packet.get_mut(..len).ok_or(WireError::TooLong)?;
    packet.copy_from_slice(bytes.get(VNET_HEADER_LEN..VNET_HEADER_LEN + len).ok_or(WireError::Truncated)?);
    let longer = write(packet, bytes.get_mut(VNET_HEADER_LEN..).ok_or(WireError::NoRoom)?, &mut vnet)?;
    vnet.hdr_len = vnet.hdr_len.saturating_add(longer.saturating_sub(len) as u16);
    vnet.emit(bytes)?;
    SuperPacket::parse(&vnet, bytes.get_mut(VNET_HEADER_LEN..VNET_HEADER_LEN + longer).ok_or(WireError::NoRoom)?)
}

/// Builds an ACK without payload that carries a signal.
///
/// `packet` is a TCP packet that is too long to carry the signal itself. The ACK has its header and leaves before it.
/// The caller must release the returned buffer.
pub fn bare_ack(pool: &mut Pool, packet: &[u8], signal: &Signal) -> Option<(BufId, SuperPacket)> {
    let buf = pool.alloc_small()?;
    let ack = write_ack(packet, signal, pool.bytes_mut(buf).get_mut(VNET_HEADER_LEN..)?);
    let shape = ack.and_then(|len| {
        let vnet = VnetHeader::default();
        vnet.emit(pool.bytes_mut(buf)).ok()?;
        SuperPacket::parse(&vnet, pool.bytes_mut(buf).get_mut(VNET_HEADER_LEN..VNET_HEADER_LEN + len)?).ok()
    });
    if shape.is_none() {
        pool.release(buf);
    }
    shape.map(|shape| (buf, shape))
}

/// Writes to `out` an ACK of the connection of `packet` that carries the signal.
///
/// Returns its length, or `None` if `packet` is no TCP packet or the ACK does not fit.
pub(super) fn write_ack(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Option<usize> {
    let view = IpView::parse(packet).ok().filter(|view| view.protocol == protocol::TCP)?;
    let len = view.header_len + view.tcp()?.header_len;
    let mut header = [0; HEADER_MAX];
    let header = header.get_mut(..len)?;
    header.copy_from_slice(packet.get(..len)?);
    finish_bare(header, view.header_len).ok()?;
    insert(header, signal, out).ok()
}

/// Sets lengths, flags and checksums of a header whose payload was cut off.
fn finish_bare(packet: &mut [u8], ip_len: usize) -> Result<(), WireError> {
    let len = packet.len();
    write(packet, ip_len + 13, &[TcpFlags::ACK])?;
    if packet.first().is_some_and(|first| first >> 4 == 4) {
        write(packet, 2, &(len as u16).to_be_bytes())?;
        write(packet, 10, &[0, 0])?;
        let sum = checksum(packet.get(..ip_len).ok_or(WireError::Truncated)?);
        write(packet, 10, &sum.to_be_bytes())?;
    } else {
        write(packet, 4, &(len.saturating_sub(40) as u16).to_be_bytes())?;
    }
    let partial = partial_l4_checksum(packet)?;
    write(packet, ip_len + 16, &partial.to_be_bytes())?;
    finish_partial(packet, ip_len, 16)
}

fn write(packet: &mut [u8], at: usize, field: &[u8]) -> Result<(), WireError> {
    packet.get_mut(at..at + field.len()).ok_or(WireError::Truncated)?.copy_from_slice(field);
    Ok(())
}
