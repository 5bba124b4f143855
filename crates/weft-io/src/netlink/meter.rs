//! Reads a device's byte counters and the backlog of its queue.

use std::io;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};

use super::channel::NetlinkSocket;

/// MTU and counters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// MTU in bytes.
    pub mtu: u32,
    /// Total bytes that the device has sent.
    pub sent_bytes: u64,
    /// Total bytes that the device has received.
    pub received_bytes: u64,
    /// Backlog of the device's queueing discipline, in bytes.
    pub queued_bytes: u64,
}

/// Reads the counters of one device.
pub struct DeviceMeter {
    channel: NetlinkSocket,
    /// Interface index of the device.
    index: u32,
}

impl DeviceMeter {
    /// Opens a meter for the device with this interface index in the current network namespace.
    ///
    /// # Errors
    /// Fails if the kernel refuses the socket.
    pub fn open(index: u32) -> io::Result<DeviceMeter> {
        Ok(DeviceMeter { channel: NetlinkSocket::open(&[])?, index })
    }

    /// Reads the MTU and the counters of the device.
    ///
    /// # Errors
    /// Fails if the device no longer exists.
    pub fn read(&mut self) -> io::Result<Load> {
        let mut load = Load::default();
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        self.channel.get(RouteNetlinkMessage::GetLink(link), |payload| {
            if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = payload {
                for attribute in &link.attributes {
                    match attribute {
                        LinkAttribute::Mtu(mtu) => load.mtu = *mtu,
                        LinkAttribute::Stats64(all) => {
                            (load.sent_bytes, load.received_bytes) = (all.tx_bytes, all.rx_bytes);
                        }
                        _ => {}
                    }
                }
            }
        })?;
        let mut queue = TcMessage::default();
        queue.header.index = i32::try_from(self.index).unwrap_or_default();
        queue.header.parent = TcHandle::ROOT;
        self.channel.get(RouteNetlinkMessage::GetQueueDiscipline(queue), |payload| {
            if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(queue)) = payload {
                load.queued_bytes = queue.attributes.iter().map(backlog).sum();
            }
        })?;
        Ok(load)
    }
}

fn backlog(attribute: &TcAttribute) -> u64 {
    let TcAttribute::Stats2(all) = attribute else { return 0 };
    let waiting = |stats: &TcStats2| if let TcStats2::Queue(queue) = stats { u64::from(queue.backlog) } else { 0 };
    all.iter().map(waiting).sum()
}
