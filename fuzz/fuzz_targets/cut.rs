//! The ingress edge: cuts a packet into segments and joins them again without loss.
//!
//! The input is a virtio_net_hdr and a packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::inner::{MAX_SLICE_INDEX, UnitKind};
use weft_wire::ip::IpView;
use weft_wire::super_packet::{Run, SegmentRole, SuperPacket};
use weft_wire::virtio::{VNET_HEADER_LEN, VnetHeader};

fuzz_target!(|read: &[u8]| {
    let Ok((vnet, packet)) = VnetHeader::parse(read) else { return };
    let mut packet = packet.to_vec();
    let Ok(plan) = SuperPacket::parse(&vnet, &mut packet) else { return };
    let mut payload_len = 0;
    for k in 0..plan.segments() {
        let mut segment = vec![0; plan.header_len()];
        plan.segment_header(&packet, k, SegmentRole::Alone, &mut segment).unwrap();
        segment.extend(&packet[plan.payload(k)]);
        assert_eq!(IpView::parse(&segment).unwrap().total_len, segment.len());
        Run::begin(plan.unit_kind(), &segment).unwrap();
        payload_len += plan.payload(k).len();
    }
    assert_eq!(plan.header_len() + payload_len, plan.total_len());
    if plan.may_be_sliced() && plan.segments() <= usize::from(MAX_SLICE_INDEX) + 1 {
        slice_and_join(&plan, &packet);
    }
});

fn slice_and_join(plan: &SuperPacket, packet: &[u8]) {
    let mut head = vec![0; plan.header_len()];
    plan.segment_header(packet, 0, SegmentRole::Head, &mut head).unwrap();
    head.extend(&packet[plan.payload(0)]);
    let mut run = Run::begin(UnitKind::HeadSlice, &head).unwrap();
    for k in 1..plan.segments() {
        run.push_tail(plan.payload(k).len(), k + 1 == plan.segments()).unwrap();
        Run::begin_with_tail(&head, k as u8, plan.payload(k).len(), k + 1 == plan.segments()).unwrap();
    }
    let mut out = [0; Run::MAX_EMITTED_LEN];
    let len = run.emit(&head, &mut out).unwrap();
    let (vnet, header) = VnetHeader::parse(&out[..len]).unwrap();
    assert_eq!((len - VNET_HEADER_LEN, usize::from(vnet.gso_size)), (plan.header_len(), plan.gso_size()));
    let written = [header, &packet[plan.header_len()..plan.total_len()]].concat();
    assert_eq!(IpView::parse(&written).unwrap().total_len, plan.total_len());
    let (was, is) = (IpView::parse(packet).unwrap(), IpView::parse(&written).unwrap());
    assert_eq!(was.flow_key(), is.flow_key());
    let number = |view: &IpView| view.tcp().map(|tcp| (tcp.seq, tcp.ack, tcp.flags, tcp.window));
    assert_eq!(number(&was), number(&is));
}
