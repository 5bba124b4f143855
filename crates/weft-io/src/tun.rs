//! A TUN device that delivers and accepts super-packets (TSO and USO), each after a virtio-net header.
//!
//! Each read or write is one `virtio_net_hdr` of [`VIRTIO_HEADER_LEN`] bytes (native-endian, linux/virtio_net.h) and
//! one IP packet of up to 65,535 bytes.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::netlink::Configure;
use crate::sys::{check, retry, unless_blocked};

/// Length of the virtio-net header before every packet, in bytes.
pub const VIRTIO_HEADER_LEN: usize = 10;

/// Length of the longest read, in bytes: a virtio-net header and a super-packet.
pub const MAX_READ_LEN: usize = VIRTIO_HEADER_LEN + 65_535;

/// The kernel's device node of the TUN driver.
const DEVICE_NODE: &str = "/dev/net/tun";

/// Settings of a [`TunDevice`].
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Device name, or a pattern with one `%d` that the kernel replaces by the first free number. `None` is `tun%d`.
    pub name: Option<String>,
    /// MTU in bytes.
    pub mtu: u16,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Descriptive text of the device (`ifalias`), or empty for none.
    pub alias: String,
}

/// Reason why a TUN device could not be opened.
#[derive(Debug)]
pub enum TunError {
    /// The process lacks `CAP_NET_ADMIN`.
    NoPermission(io::Error),
    /// The kernel has no TUN driver, or the container has no `/dev/net/tun`.
    NoDriver,
    /// Another process holds the device of this name, or a device of another kind has this name.
    NameInUse(String),
    /// Any other error, with the step that failed.
    Failed(&'static str, io::Error),
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NoPermission(error) => write!(
                f,
                "not allowed to open a TUN device ({error}): run as root, or once `setcap cap_net_admin+ep` on the weft program, \
                 or start it by its systemd unit"
            ),
            Self::NoDriver => {
                write!(f, "{DEVICE_NODE} is missing: `modprobe tun`, or add this device to the container")
            }
            Self::NameInUse(name) => {
                write!(f, "a device named {name} exists and is in use: choose another name or stop its owner")
            }
            Self::Failed(step, error) => write!(f, "TUN device: {step}: {error}"),
        }
    }
}

impl std::error::Error for TunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoPermission(error) | Self::Failed(_, error) => Some(error),
            Self::NoDriver | Self::NameInUse(_) => None,
        }
    }
}

impl TunError {
    fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NoPermission(error),
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) if step == OPEN => Self::NoDriver,
            _ => Self::Failed(step, error),
        }
    }
}

/// Name of the opening step in error messages.
const OPEN: &str = "open";

/// Offloads of TCP, in `TUNSETOFFLOAD`.
const TCP_OFFLOADS: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
/// Offloads of UDP, which exist since Linux 6.2.
const UDP_OFFLOADS: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// An open TUN device. The kernel removes it when its last descriptor is closed.
pub struct TunDevice {
    device: SyncDevice,
    has_udp_offload: bool,
    /// Name of the device at the time of opening.
    name: String,
    /// Interface index of the device.
    index: u32,
}

impl TunDevice {
    /// Opens a TUN device with non-blocking reads, sets its MTU and addresses, and sets it up.
    ///
    /// It enables checksum offload and segmentation offload for TCP and (since Linux 6.2) UDP.
    pub fn open(config: &TunConfig) -> Result<Self, TunError> {
        Self::open_as(config, true)
    }

    /// Opens a TUN device without offloads.
    ///
    /// Each read or write is one IP packet within the MTU. It has complete checksums and no header before it.
    pub fn open_plain(config: &TunConfig) -> Result<Self, TunError> {
        Self::open_as(config, false)
    }

    fn open_as(config: &TunConfig, has_offload: bool) -> Result<Self, TunError> {
        if !Path::new(DEVICE_NODE).exists() {
            return Err(TunError::NoDriver);
        }
        let device = open_device(config.name.as_deref(), has_offload)?;
        let has_udp_offload = device.udp_gso();
        let tun = Self::of(device, has_udp_offload)?;
        tun.configure(config)?;
        Ok(tun)
    }

    fn of(device: SyncDevice, has_udp_offload: bool) -> Result<Self, TunError> {
        device.set_nonblocking(true).map_err(TunError::at("set non-blocking"))?;
        let name = device.name().map_err(TunError::at("read the name"))?;
        let index = device.if_index().map_err(TunError::at("read the index"))?;
        Ok(Self { device, has_udp_offload, name, index })
    }

    /// Continues with a device that an earlier process opened with [`TunDevice::open`].
    ///
    /// It keeps other addresses and its routes. Packets that the kernel queued since then are read first.
    pub fn adopt(descriptor: OwnedFd, config: &TunConfig) -> Result<Self, TunError> {
        // SAFETY: `into_raw_fd` passes the only ownership on. The function fails for a descriptor of another kind.
        let device = unsafe { SyncDevice::from_fd(descriptor.into_raw_fd()) }.map_err(TunError::at("adopt"))?;
        set_offloads(&device, TCP_OFFLOADS).map_err(TunError::at("set the offloads"))?;
        let has_udp_offload = set_offloads(&device, TCP_OFFLOADS | UDP_OFFLOADS).is_ok();
        let tun = Self::of(device, has_udp_offload)?;
        if config.name.as_ref().is_some_and(|name| *name != tun.name) {
            return Err(TunError::NameInUse(tun.name));
        }
        tun.configure(config)?;
        Ok(tun)
    }

    fn configure(&self, config: &TunConfig) -> Result<(), TunError> {
        let mut configure = Configure::open().map_err(TunError::at("open netlink"))?;
        configure.set_mtu(self.index, config.mtu.into()).map_err(TunError::at("set the MTU"))?;
        if !config.alias.is_empty() {
            configure.set_alias(self.index, &config.alias).map_err(TunError::at("set the alias"))?;
        }
        for &(address, prefix_len) in &config.addresses {
            configure.add_address(self.index, address, prefix_len).map_err(TunError::at("add an address"))?;
        }
        configure.set_up(self.index, true).map_err(TunError::at("set up"))
    }

    /// Reads one virtio-net header and packet into `buffer` and returns their length.
    ///
    /// `buffer` should hold [`MAX_READ_LEN`] bytes. Longer packets are truncated. Returns `None` if no packet is
    /// waiting.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(retry(|| self.device.recv(buffer)))
    }

    /// Writes one packet, gathered from a virtio-net header and packet parts.
    ///
    /// Returns `false` if the kernel would block.
    ///
    /// The kernel rejects a malformed packet with `InvalidInput`, and any packet with `EIO` while the device is down.
    pub fn write(&self, parts: &[IoSlice]) -> io::Result<bool> {
        unless_blocked(retry(|| self.device.send_vectored(parts))).map(|written| written.is_some())
    }

    /// True if the kernel also delivers UDP super-packets (USO).
    pub fn has_udp_offload(&self) -> bool {
        self.has_udp_offload
    }

    /// Returns the device's name at the time of opening.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel's interface index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Sets the MTU, in bytes.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        Configure::open()?.set_mtu(self.index, mtu.into())
    }

    /// Sets the number of packets that the kernel queues for reading before it drops.
    pub fn set_txqueuelen(&self, packets: u32) -> io::Result<()> {
        Configure::open()?.set_txqueuelen(self.index, packets)
    }
}

fn open_device(name: Option<&str>, has_offload: bool) -> Result<SyncDevice, TunError> {
    let builder = DeviceBuilder::new().offload(has_offload).enable(false);
    let builder = match name {
        Some(name) => builder.name(name),
        None => builder,
    };
    builder.build_sync().map_err(|error| match (error.raw_os_error(), name) {
        // TUNSETIFF returns EBUSY for a TUN device in use, and EINVAL for a device of another kind.
        (Some(libc::EBUSY | libc::EINVAL), Some(name)) => TunError::NameInUse(name.to_owned()),
        _ => TunError::at(OPEN)(error),
    })
}

/// Sets the offloads of a device to exactly these.
fn set_offloads(device: &SyncDevice, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the request takes its argument by value.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) }).map(drop)
}

impl AsRawFd for TunDevice {
    fn as_raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

impl AsFd for TunDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
