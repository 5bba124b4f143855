//! The interfaces of a capture: links and tunnel devices, each with its packet socket.

use super::headers::headers_len;
use super::scope::{LinkScope, PrefixOwners, ScopeVerdict};
use super::summary::InterfaceSummary;
use super::wire::{PacketBuffers, each_on_wire};
use crate::outcome::Failure;
use nix::net::if_::if_nametoindex;
use std::io::{self, Write};
use weft_io::packet::{Captured, PacketFilter, PacketSocket};
use weft_pcapng::{Counters, Interface, PcapngWriter, Record};

/// Number of bytes that the kernel copies of an inner packet if headers alone are wanted. Usual headers are shorter.
const HEADERS_BYTES: u32 = 512;
/// Number of bytes that the kernel copies beyond the stored ones, for a link-layer header.
const LINK_HEADER_BYTES: u32 = 64;

/// Kind of an interface (link or tunnel device), and which of its packets are stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layer {
    /// A link, with the node's datagrams.
    Outer(LinkScope),
    /// A tunnel's device, with the packets in it.
    Inner {
        /// Name of the VPN.
        vpn: String,
        /// Prefixes of the only peer whose packets are wanted. `None` if those of all peers are.
        owners: Option<PrefixOwners>,
        /// True if payload is stored, too.
        has_payload: bool,
    },
}

impl Layer {
    fn name(&self) -> &'static str {
        match self {
            Layer::Outer(_) => "outer",
            Layer::Inner { .. } => "inner",
        }
    }

    fn description(&self) -> String {
        match self {
            Layer::Outer(_) => "weft link".to_owned(),
            Layer::Inner { vpn, .. } => format!("weft tunnel, VPN {vpn}"),
        }
    }

    fn filter(&self, snap: Option<u32>) -> PacketFilter {
        match self {
            Layer::Outer(scope) => PacketFilter::Rules(scope.rules()),
            Layer::Inner { has_payload: false, .. } => PacketFilter::First { bytes: HEADERS_BYTES },
            Layer::Inner { .. } => {
                PacketFilter::First { bytes: snap.map_or(u32::MAX, |snap| snap.saturating_add(LINK_HEADER_BYTES)) }
            }
        }
    }

    /// Returns the maximum number of bytes that are stored of each packet. 0 means no limit.
    fn limit(&self, snap: Option<u32>) -> u32 {
        match self {
            Layer::Inner { has_payload: false, .. } => snap.map_or(HEADERS_BYTES, |snap| snap.min(HEADERS_BYTES)),
            _ => snap.unwrap_or(0),
        }
    }

    fn judge(&mut self, captured: &Captured<'_>) -> ScopeVerdict {
        let is_own = match self {
            Layer::Outer(scope) => return scope.judge(captured.is_outgoing, captured.packet),
            Layer::Inner { owners, .. } => owners.as_ref().is_none_or(|owners| owners.has_end_of(captured.packet)),
        };
        if is_own { ScopeVerdict::Own } else { ScopeVerdict::Foreign }
    }

    /// Returns the bytes of a packet that are stored.
    fn stored<'a>(&self, packet: &'a [u8], snap: Option<u32>) -> &'a [u8] {
        let len = match self {
            Layer::Inner { has_payload: false, .. } => headers_len(packet),
            _ => packet.len(),
        };
        packet.get(..len.min(snap.map_or(usize::MAX, |snap| snap as usize))).unwrap_or(packet)
    }

    /// True if this layer and `other` are of the same kind.
    fn is_like(&self, other: &Layer) -> bool {
        self.name() == other.name()
    }
}

/// An interface that is to be captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Name of the interface.
    pub name: String,
    /// The kernel's index of the interface.
    pub index: u32,
    /// Kind of the interface, and which of its packets are stored.
    pub layer: Layer,
}

/// An interface of a running capture, with its packet socket.
pub struct InterfaceTap {
    name: String,
    index: u32,
    /// The socket; `None` while the node does not use the interface.
    socket: Option<PacketSocket>,
    sink: InterfaceSink,
}

/// Decides which packets of an interface are stored, and writes them to the capture file.
struct InterfaceSink {
    layer: Layer,
    /// Maximum number of bytes that are stored of each packet. `None` sets no limit.
    snap: Option<u32>,
    interface: Option<Interface>,
    counters: Counters,
    bytes: u64,
}

/// A packet that is kept until the node has been asked for its present addresses.
pub struct HeldPacket {
    packet: Vec<u8>,
    len: usize,
    link_len: usize,
    unix_ns: u64,
    is_outgoing: bool,
    segmentation: Option<[u8; 10]>,
}

impl HeldPacket {
    fn of(captured: &Captured<'_>) -> HeldPacket {
        let Captured { packet, len, link_len, unix_ns, is_outgoing, segmentation } = *captured;
        HeldPacket { packet: packet.to_vec(), len, link_len, unix_ns, is_outgoing, segmentation: segmentation.copied() }
    }

    fn captured(&self) -> Captured<'_> {
        let HeldPacket { packet, len, link_len, unix_ns, is_outgoing, segmentation } = self;
        let (len, link_len, unix_ns, is_outgoing) = (*len, *link_len, *unix_ns, *is_outgoing);
        Captured { packet, len, link_len, unix_ns, is_outgoing, segmentation: segmentation.as_ref() }
    }
}

/// Result of reading one packet of an interface.
pub enum Taken {
    /// No packet waits.
    Nothing,
    /// A packet or batch was read. The value is the number of packets stored from it: 0 if they are not the node's.
    Done(u64),
    /// The packet may belong to an address of the node that is not known yet.
    NewAddress(HeldPacket),
}

impl InterfaceTap {
    /// Opens the socket of an interface.
    ///
    /// # Errors
    /// Fails without CAP_NET_RAW, or if the interface is not in this network namespace.
    pub fn open(wanted: Wanted, snap: Option<u32>) -> Result<InterfaceTap, Failure> {
        let Wanted { name, index, layer } = wanted;
        let socket = open(&name, index, &layer.filter(snap))?;
        let sink = InterfaceSink { layer, snap, interface: None, counters: Counters::default(), bytes: 0 };
        Ok(InterfaceTap { name, index, socket: Some(socket), sink })
    }

    /// Adds the interface to the capture file, if the file does not contain it yet.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn register(&mut self, writer: &mut PcapngWriter<impl Write>) -> io::Result<()> {
        let InterfaceSink { layer, snap, interface, .. } = &mut self.sink;
        if interface.is_none() {
            *interface = Some(writer.add_interface(&self.name, &layer.description(), layer.limit(*snap))?);
        }
        Ok(())
    }

    /// True if this interface is the one that `wanted` describes.
    pub fn is(&self, wanted: &Wanted) -> bool {
        (self.index, &self.name) == (wanted.index, &wanted.name) && self.sink.layer.is_like(&wanted.layer)
    }

    /// Takes over newer sockets and addresses of the node. Opens the socket again if it was closed.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the socket or its filter.
    pub fn update(&mut self, wanted: Wanted) -> Result<(), Failure> {
        let has_changed = match (&mut self.sink.layer, wanted.layer) {
            (Layer::Outer(scope), Layer::Outer(newer)) => scope.update(newer),
            (layer, newer) => {
                *layer = newer;
                false
            }
        };
        let filter = self.sink.layer.filter(self.sink.snap);
        match &self.socket {
            Some(socket) if has_changed => socket.set_filter(&filter).map_err(|why| {
                let name = &self.name;
                Failure::new(format!("interface {name}: cannot set the packet filter: {why}: start the capture again"))
            }),
            Some(_) => Ok(()),
            None => {
                self.socket = Some(open(&self.name, self.index, &filter)?);
                Ok(())
            }
        }
    }

    /// Closes the socket: the node does not use the interface any more.
    pub fn close(&mut self) {
        self.count_drops();
        self.socket = None;
    }

    /// Returns the open socket. `None` while the node does not use the interface.
    pub fn socket(&self) -> Option<&PacketSocket> {
        self.socket.as_ref()
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next packet or batch from the kernel. Stores at most `most` of its packets if they are the node's.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn take(
        &mut self,
        most: u64,
        writer: &mut PcapngWriter<impl Write>,
        scratch: &mut PacketBuffers,
    ) -> io::Result<Taken> {
        // A socket that fails is treated as one without packets. After the next request to the node it is opened
        // again or closed.
        match self.socket.as_mut().and_then(|socket| socket.receive().ok().flatten()) {
            Some(captured) => self.sink.take(&captured, most, writer, scratch),
            None => Ok(Taken::Nothing),
        }
    }

    /// Judges a packet again, and stores it if its address is known now. Returns the number of stored packets.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn take_held(
        &mut self,
        held: &HeldPacket,
        most: u64,
        writer: &mut PcapngWriter<impl Write>,
        scratch: &mut PacketBuffers,
    ) -> io::Result<u64> {
        match self.sink.take(&held.captured(), most, writer, scratch)? {
            Taken::Done(stored) => Ok(stored),
            Taken::Nothing | Taken::NewAddress(_) => Ok(0),
        }
    }

    /// Adds the number of packets that the kernel has dropped to the interface's counters.
    pub fn count_drops(&mut self) {
        let dropped = self.socket.as_ref().and_then(|socket| socket.take_drops().ok());
        self.sink.counters.dropped += u64::from(dropped.unwrap_or(0));
    }

    /// Writes the counters of the interface.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn finish(&mut self, writer: &mut PcapngWriter<impl Write>, unix_ns: u64) -> io::Result<()> {
        self.count_drops();
        let InterfaceSink { interface, counters, .. } = &self.sink;
        interface.map_or(Ok(()), |interface| writer.counters(interface, unix_ns, *counters))
    }

    /// Returns the counters for the summary.
    pub fn summary(&self) -> InterfaceSummary {
        let InterfaceSink { layer, counters, bytes, .. } = &self.sink;
        let Counters { packets, dropped } = *counters;
        InterfaceSummary { name: self.name.clone(), layer: layer.name(), packets, bytes: *bytes, dropped }
    }
}

impl InterfaceSink {
    /// Stores at most `most` of the packets that the kernel has joined in `captured`, if they belong to the node.
    fn take(
        &mut self,
        captured: &Captured<'_>,
        most: u64,
        writer: &mut PcapngWriter<impl Write>,
        scratch: &mut PacketBuffers,
    ) -> io::Result<Taken> {
        match (self.layer.judge(captured), self.interface) {
            (ScopeVerdict::NewAddress, _) => Ok(Taken::NewAddress(HeldPacket::of(captured))),
            (ScopeVerdict::Own, Some(interface)) => {
                self.store(captured, most, (writer, interface), scratch).map(Taken::Done)
            }
            (ScopeVerdict::Foreign, _) | (ScopeVerdict::Own, None) => Ok(Taken::Done(0)),
        }
    }

    fn store<W: Write>(
        &mut self,
        captured: &Captured<'_>,
        most: u64,
        (writer, interface): (&mut PcapngWriter<W>, Interface),
        scratch: &mut PacketBuffers,
    ) -> io::Result<u64> {
        let InterfaceSink { layer, snap, counters, bytes, .. } = self;
        let (before, is_whole) = (counters.packets, captured.len == captured.packet.len());
        let mut write = |packet: &[u8]| -> io::Result<()> {
            if counters.packets - before >= most {
                return Ok(());
            }
            let len = if is_whole { packet.len() } else { captured.len };
            let stored = layer.stored(packet, *snap);
            let record = Record { unix_ns: captured.unix_ns, is_outgoing: Some(captured.is_outgoing), stored, len };
            writer.packet(interface, &record)?;
            counters.packets += 1;
            *bytes += len as u64;
            Ok(())
        };
        match layer {
            Layer::Outer(_) => each_on_wire(captured, scratch, write)?,
            Layer::Inner { .. } => write(captured.packet)?,
        }
        Ok(counters.packets - before)
    }
}

fn open(name: &str, index: u32, filter: &PacketFilter) -> Result<PacketSocket, Failure> {
    let is_here = if_nametoindex(name).is_ok_and(|found| found == index);
    if !is_here {
        return Err(Failure::new(format!(
            "interface {name} is not in this network namespace: run weft capture in the node's namespace, where PID is \
             the node's process: nsenter -t PID -n weft capture"
        )));
    }
    PacketSocket::open(index, filter).map_err(|why| {
        Failure::new(match why.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("no permission to capture on interface {name}: run weft capture as root, or with CAP_NET_RAW")
            }
            _ => format!("cannot open a packet socket on the interface {name}: {why}: start the capture again"),
        })
    })
}
