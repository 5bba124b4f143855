//! A TUN device that delivers and accepts super-packets (TSO and USO), each after a virtio-net header.
//!
//! Each read or write is one `virtio_net_hdr` of [`VIRTIO_HEADER_LEN`] bytes (native-endian, linux/virtio_net.h) and
//! one IP packet of up to 65,535 bytes.

use std::ffi::{CStr, CString, c_char, c_int, c_short, c_uint, c_ulong};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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
                write!(f, "the device {DEVICE_NODE} is missing: run `modprobe tun`, or add the device to the container")
            }
            Self::NameInUse(name) => {
                write!(
                    f,
                    "the network device {name} belongs to another program: choose another name, or stop that program"
                )
            }
            Self::Failed(step, error) => {
                write!(f, "cannot make the TUN device ready: the step `{step}` failed: {error}")
            }
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

/// Name pattern of a device whose configuration contains no name.
const ANY_NAME: &str = "tun%d";
/// Offloads of TCP (`TUNSETOFFLOAD`).
const TCP_OFFLOADS: c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
/// Offloads of UDP, since Linux 6.2.
const UDP_OFFLOADS: c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// An open TUN device. The kernel removes it when its last descriptor is closed.
pub struct TunDevice {
    file: File,
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
        Self::new(create(config.name.as_deref(), true)?, true, config)
    }

    /// Opens a TUN device without offloads.
    ///
    /// Each read or write is one IP packet within the MTU. It has complete checksums and no header before it.
    pub fn open_plain(config: &TunConfig) -> Result<Self, TunError> {
        Self::new(create(config.name.as_deref(), false)?, false, config)
    }

    /// Continues with a device that an earlier process opened with [`TunDevice::open`].
    ///
    /// The device keeps its routes, and addresses that `config` does not name. Packets that the kernel queued meanwhile
    /// are read first.
    pub fn adopt(descriptor: OwnedFd, config: &TunConfig) -> Result<Self, TunError> {
        Self::new(descriptor.into(), true, config)
    }

    fn new(file: File, has_offload: bool, config: &TunConfig) -> Result<Self, TunError> {
        let has_udp_offload = set_offloads(&file, has_offload).map_err(TunError::at("set the offloads"))?;
        let name = name_of(&file).map_err(TunError::at("read the name"))?;
        let index = index_of(&name).map_err(TunError::at("read the index"))?;
        let tun = Self { file, has_udp_offload, name, index };
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
        unless_blocked(retry(|| (&self.file).read(buffer)))
    }

    /// Writes one packet, gathered from a virtio-net header and packet parts.
    ///
    /// Returns `false` if the kernel would block.
    ///
    /// The kernel rejects a malformed packet with `InvalidInput`, and any packet with `EIO` while the device is down.
    pub fn write(&self, parts: &[IoSlice]) -> io::Result<bool> {
        unless_blocked(retry(|| (&self.file).write_vectored(parts))).map(|written| written.is_some())
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

/// Creates a device that is down.
fn create(name: Option<&str>, has_offload: bool) -> Result<File, TunError> {
    if !Path::new(DEVICE_NODE).exists() {
        return Err(TunError::NoDriver);
    }
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE_NODE);
    let file = file.map_err(TunError::at(OPEN))?;
    let with_header = if has_offload { libc::IFF_VNET_HDR } else { 0 };
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI | with_header) as c_short;
    attach(&file, name.unwrap_or(ANY_NAME), flags).map_err(|error| match (error.raw_os_error(), name) {
        // TUNSETIFF returns EBUSY for a TUN device in use, and EINVAL for a device of another kind.
        (Some(libc::EBUSY | libc::EINVAL), Some(name)) => TunError::NameInUse(name.to_owned()),
        _ => TunError::at(OPEN)(error),
    })?;
    Ok(file)
}

fn attach(file: &File, name: &str, flags: c_short) -> io::Result<()> {
    let mut request = empty_request();
    // The last byte stays zero, because the kernel takes the name as text.
    let (field, _) = request.ifr_name.split_at_mut(libc::IFNAMSIZ - 1);
    let field = field.get_mut(..name.len()).ok_or_else(|| io::Error::other("the name is too long"))?;
    field.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: the descriptor is open. The kernel reads and writes `request`, which has the layout that it expects.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) }).map(drop)
}

/// Enables all offloads or none. Returns true if those of UDP are among them.
fn set_offloads(file: &File, enabled: bool) -> io::Result<bool> {
    let set = |offloads: c_uint| -> io::Result<c_int> {
        // SAFETY: the descriptor is open, and the request takes its argument by value.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, c_ulong::from(offloads)) })
    };
    if !enabled {
        return set(0).map(|_| false);
    }
    set(TCP_OFFLOADS)?;
    Ok(set(TCP_OFFLOADS | UDP_OFFLOADS).is_ok())
}

fn name_of(file: &File) -> io::Result<String> {
    let mut request = empty_request();
    // SAFETY: the descriptor is open. The kernel writes `request`, which has the layout that it expects.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) })?;
    let bytes = request.ifr_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&bytes).map_err(io::Error::other)?;
    Ok(name.to_string_lossy().into_owned())
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is to a string with a final zero, which outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn empty_request() -> libc::ifreq {
    // SAFETY: the structure consists of numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

impl AsRawFd for TunDevice {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl AsFd for TunDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
