//! Whole datagrams: hop header with its packet number, inner header with a reference, the three handshake datagrams and
//! their payloads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::handshake::{
    COOKIE_REPLY_LEN, CookieReply, HandshakeResponse, Initiation, InitiationPayload, MessageWriter, ResponsePayload,
};
use weft_wire::hop::{HOP_HEADER_LEN, HopHeader, MAX_PACKET_NUMBER, PacketType, reconstruct_packet_number};
use weft_wire::inner::{INNER_LEN, InnerHeader, REFERENCE_LEN, emit_reference, parse_reference};

fuzz_target!(|bytes: &[u8]| {
    let packet_type = PacketType::of(bytes);
    if let Ok(header) = HopHeader::parse(bytes) {
        assert_eq!(packet_type, Ok(header.packet_type));
        let mut out = [0; HOP_HEADER_LEN];
        header.emit(&mut out).unwrap();
        assert_eq!(out, bytes[..HOP_HEADER_LEN]);
    }
    if let Ok((header, payload)) = InnerHeader::parse(bytes) {
        let mut out = [0; INNER_LEN];
        header.emit(&mut out).unwrap();
        assert_eq!([&out, payload].concat(), bytes);
        assert_eq!(header.head_seq().plus(i32::from(header.index)), header.seq);
    }
    numbers(bytes);
    handshake(bytes);
    if let Ok(payload) = InitiationPayload::parse(bytes) {
        assert_eq!(InitiationPayload::parse(&payload.emit()), Ok(payload));
    }
    if let Ok(payload) = ResponsePayload::parse(bytes) {
        assert_eq!(ResponsePayload::parse(&payload.emit()), Ok(payload));
    }
});

/// A packet number is the one nearest to the next expected, and a reference can be written again.
fn numbers(bytes: &[u8]) {
    if let Some((seen, low)) = bytes.first_chunk::<8>().zip(bytes.get(8..12)) {
        let seen = u64::from_be_bytes(*seen).min(MAX_PACKET_NUMBER);
        let low = u32::from_be_bytes(low.try_into().expect("four bytes"));
        let number = reconstruct_packet_number(low, seen);
        assert_eq!(number as u32, low);
        let is_nearest = number.abs_diff(seen + 1) <= 1 << 31;
        assert!(is_nearest || number < 1 << 32 || number > MAX_PACKET_NUMBER - (1 << 32));
    }
    if let Ok((unit, rest)) = parse_reference(bytes) {
        let mut out = [0; REFERENCE_LEN];
        emit_reference(unit, &mut out).unwrap();
        assert_eq!([&out, rest].concat(), bytes);
    }
}

/// Every parsed message is written again with the same bytes.
fn handshake(bytes: &[u8]) {
    if let Ok(message) = Initiation::parse(bytes) {
        let mut out = vec![0; bytes.len()];
        let mut writer = MessageWriter::initiation(&mut out, message.sender).unwrap();
        writer.noise_mut().copy_from_slice(message.noise);
        writer.finish(|_| *message.macs.mac1, Some(|_: &[u8]| *message.macs.mac2)).unwrap();
        assert_eq!(out, bytes);
    }
    if let Ok(message) = HandshakeResponse::parse(bytes) {
        let mut out = vec![0; bytes.len()];
        let mut writer = MessageWriter::response(&mut out, message.sender, message.receiver).unwrap();
        writer.noise_mut().copy_from_slice(message.noise);
        writer.finish(|_| *message.macs.mac1, Some(|_: &[u8]| *message.macs.mac2)).unwrap();
        assert_eq!(out, bytes);
    }
    if let Ok(reply) = CookieReply::parse(bytes) {
        let mut out = [0; COOKIE_REPLY_LEN];
        reply.emit(&mut out).unwrap();
        assert_eq!(out, bytes);
    }
}
