//! Loading and unloading.

use super::grants::{Grants, Maps, holder};
use super::{NAME, OBJECT, fit, is_available};
use libbpf_rs::{ErrorKind, Link, Object, ObjectBuilder, OpenObject};
use std::path::Path;
use std::sync::Once;
use std::{fmt, fs, io};

/// The kernel's own types, without which nothing can be fitted to it.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Which kernel this is.
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// What only the comparison of the two laws runs.
const STEP: &str = "weft_er_step";

/// Why it is not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The kernel does not describe its types.
    NoBtf,
    /// CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the first user namespace are needed.
    NotPermitted,
    /// Another reason, such as a kernel that would not have it.
    Refused(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoBtf => write!(f, "the kernel has no BTF ({BTF})"),
            LoadError::NotPermitted => write!(f, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed"),
            LoadError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LoadError {}

/// Who holds it.
#[derive(Debug)]
enum Held {
    /// By this one, as long as these last.
    Here { _link: Link, _object: Object },
    /// By another process, known by its map.
    There(u32),
}

/// `weft_er`, which exists while this does, or while another process holds it.
#[derive(Debug)]
pub struct Congestion {
    held: Held,
    maps: Maps,
}

impl Congestion {
    /// Loads it, or finds it loaded by another process.
    ///
    /// # Errors
    /// Why there is none.
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
                let holder =
                    holder().ok_or_else(|| LoadError::Refused("another process holds it, and hides it".into()))?;
                Ok(Congestion { held: Held::There(holder), maps: Maps::find(None).map_err(refused)? })
            }
            Some(Err(why)) => Err(refused(why)),
            None => Err(LoadError::Refused("the object has no congestion control".into())),
        }
    }

    /// Whether it goes when this goes.
    pub fn is_own(&self) -> bool {
        matches!(self.held, Held::Here { .. })
    }

    /// Loads it where the process that held it has ended, or finds who does now; to be called every second or so.
    ///
    /// # Errors
    /// Why there is none any more.
    pub fn keep(&mut self) -> Result<(), LoadError> {
        match self.held {
            Held::There(map) if !is_available(NAME) || holder() != Some(map) => {
                *self = Congestion::load()?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The rates of connections and destinations.
    pub fn grants(&self) -> Grants<'_> {
        Grants::of(&self.maps)
    }
}

/// The object, with all that runs in a kernel's TCP.
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
    // Its kind would not do: the verifier says EACCES when it is the program that displeases.
    if why.ends_with(&io::Error::from_raw_os_error(libc::EPERM).to_string()) {
        return LoadError::NotPermitted;
    }
    let release = fs::read_to_string(RELEASE).unwrap_or_default();
    LoadError::Refused(format!("Linux {} does not take it (it needs 6.0): {why}", release.trim()))
}
