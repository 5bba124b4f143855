//! Loading and unloading.

use super::grants::{Grants, Maps};
use super::{NAME, OBJECT};
use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder, OpenObject};
use std::fmt;
use std::path::Path;
use std::sync::Once;

/// The kernel's own types, without which nothing can be fitted to it.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// What only the comparison of the two laws runs.
const STEP: &str = "weft_er_step";

/// Why it is not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The kernel does not describe its types.
    NoBtf,
    /// CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the first user namespace are needed.
    NotPermitted,
    /// The kernel would not have it.
    Refused(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoBtf => write!(f, "the kernel has no BTF ({BTF})"),
            LoadError::NotPermitted => write!(f, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed"),
            LoadError::Refused(why) => write!(f, "the kernel does not take it: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// `weft_er`, which exists while this does, or while another process holds it.
#[derive(Debug)]
pub struct Congestion {
    /// None: another process holds it.
    own: Option<(Link, Object)>,
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
        let attached = object.maps_mut().find(|map| map.name() == NAME).map(|mut map| map.attach_struct_ops());
        match attached {
            Some(Ok(link)) => {
                let maps = Maps::find(Some(&object)).map_err(refused)?;
                Ok(Congestion { own: Some((link, object)), maps })
            }
            Some(Err(why)) if why.kind() == ErrorKind::AlreadyExists => {
                drop(object);
                Ok(Congestion { own: None, maps: Maps::find(None).map_err(refused)? })
            }
            Some(Err(why)) => Err(refused(why)),
            None => Err(LoadError::Refused("the object has no congestion control".into())),
        }
    }

    /// Whether it goes when this goes.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Loads it where the process that held it has ended; to be called every second or so.
    ///
    /// # Errors
    /// Why there is none any more.
    pub fn keep(&mut self) -> Result<(), LoadError> {
        if !self.is_own() && !super::is_available(NAME) {
            *self = Congestion::load()?;
        }
        Ok(())
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
    Ok(object)
}

fn refused(why: libbpf_rs::Error) -> LoadError {
    match why.kind() {
        ErrorKind::PermissionDenied => LoadError::NotPermitted,
        _ => LoadError::Refused(format!("{why:#}")),
    }
}
