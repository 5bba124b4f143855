//! Loads `weft_er` into the kernel and keeps it loaded.

use super::grants::{GrantTable, Maps, holder};
use super::{NAME, OBJECT, fit, is_available};
use libbpf_rs::{ErrorKind, Link, Object, ObjectBuilder, OpenObject};
use std::path::Path;
use std::sync::Once;
use std::{fmt, fs, io};

/// File with the kernel's type information (BTF), without which the program cannot be fitted to the kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// File with the kernel's version.
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// Name of the BPF program that only a test of the rate control runs. It is not loaded otherwise.
const STEP: &str = "weft_er_step";

/// Reason why `weft_er` is not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The kernel provides no BTF.
    NoBtf,
    /// The process lacks CAP_BPF, CAP_PERFMON or CAP_NET_ADMIN in the initial user namespace.
    NotPermitted,
    /// Any other reason, such as a kernel that rejects the program.
    Refused(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoBtf => {
                write!(f, "the kernel has no BTF, because {BTF} is missing: use a kernel with CONFIG_DEBUG_INFO_BTF")
            }
            LoadError::NotPermitted => write!(
                f,
                "loading weft_er is not permitted: run as root on the host itself, or with CAP_BPF, CAP_PERFMON and \
                 CAP_NET_ADMIN"
            ),
            LoadError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LoadError {}

/// The process that keeps `weft_er` loaded.
#[derive(Debug)]
enum Held {
    /// This process does, as long as these two objects exist.
    Here { _link: Link, _object: Object },
    /// Another process does. The number is the id of the BPF map of its `weft_er`.
    There(u32),
}

/// Keeps `weft_er` loaded, or refers to the copy that another process keeps loaded.
#[derive(Debug)]
pub struct Congestion {
    held: Held,
    maps: Maps,
}

impl Congestion {
    /// Loads `weft_er`, or finds the copy that another process has loaded.
    ///
    /// # Errors
    /// [`LoadError`] with the reason.
    pub fn load() -> Result<Congestion, LoadError> {
        if !Path::new(BTF).exists() {
            return Err(LoadError::NoBtf);
        }
        let mut object = open()?.load().map_err(refused)?;
        match fit::made(&mut object).map(|mut map| map.attach_struct_ops()) {
            Some(Ok(link)) => {
                let maps = Maps::find(Some(&object)).map_err(refused)?;
                Ok(Congestion { held: Held::Here { _link: link, _object: object }, maps })
            }
            Some(Err(why)) if why.kind() == ErrorKind::AlreadyExists => {
                drop(object);
                let hidden = "another process has loaded a `weft_er` that this one cannot use: end that process";
                let holder = holder().ok_or_else(|| LoadError::Refused(hidden.into()))?;
                Ok(Congestion { held: Held::There(holder), maps: Maps::find(None).map_err(refused)? })
            }
            Some(Err(why)) => Err(refused(why)),
            None => Err(LoadError::Refused("the BPF object contains no congestion control".into())),
        }
    }

    /// True if this process keeps `weft_er` loaded, so that it is unloaded when this object is dropped.
    pub fn is_own(&self) -> bool {
        matches!(self.held, Held::Here { .. })
    }

    /// Checks that `weft_er` is still loaded.
    ///
    /// If the process that kept it loaded has ended, it loads it again or refers to another process's copy. It must be
    /// called about once per second.
    ///
    /// # Errors
    /// [`LoadError`] with the reason why `weft_er` is no longer available.
    pub fn keep(&mut self) -> Result<(), LoadError> {
        match self.held {
            Held::There(map) if !is_available(NAME) || holder() != Some(map) => {
                *self = Congestion::load()?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the granted rates of connections and destinations.
    pub fn grants(&self) -> GrantTable<'_> {
        GrantTable::of(&self.maps)
    }
}

/// Opens the BPF object and selects what is loaded: all programs except [`STEP`].
fn open() -> Result<OpenObject, LoadError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        libbpf_rs::set_print(None);
    });
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
    for mut program in object.progs_mut() {
        program.set_autoload(program.name() != STEP);
    }
    fit::fit(&mut object).map_err(refused)?;
    Ok(object)
}

fn refused(why: libbpf_rs::Error) -> LoadError {
    let why = format!("{why:#}");
    // The kind of the error is not sufficient: EACCES is also the kernel's answer when its verifier rejects the
    // program.
    if why.ends_with(&io::Error::from_raw_os_error(libc::EPERM).to_string()) {
        return LoadError::NotPermitted;
    }
    let release = fs::read_to_string(RELEASE).unwrap_or_default();
    LoadError::Refused(format!(
        "Linux {} rejects the congestion control weft_er: {why}: weft_er needs Linux 6.0 or later, built with BTF",
        release.trim()
    ))
}
