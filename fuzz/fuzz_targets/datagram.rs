//! Whole datagrams: hop header, inner header, the three handshake datagrams and their payloads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::handshake::{
    COOKIE_REPLY_LEN, CookieReply, Initiation, InitiationPayload, MessageWriter, HandshakeResponse, ResponsePayload,
};
use weft_wire::hop::{HOP_HEADER_LEN, HopHeader, PacketType};
use weft_wire::inner::{INNER_LEN, InnerHeader};

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
    }
    handshake(bytes);
    if let Ok(payload) = InitiationPayload::parse(bytes) {
        assert_eq!(InitiationPayload::parse(&payload.emit()), Ok(payload));
    }
    if let Ok(payload) = ResponsePayload::parse(bytes) {
        assert_eq!(ResponsePayload::parse(&payload.emit()), Ok(payload));
    }
});

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
