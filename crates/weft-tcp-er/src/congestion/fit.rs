//! Selects the variant of `weft_er` that fits the running kernel.
//!
//! The kernel's own type information (BTF) decides.

use super::NAME;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::{MapCore, MapMut, MapType, Object, OpenObject, ReferencesType};

/// Name of the variant for kernels before 6.10, which pass fewer arguments to `cong_control`.
const NAME_6_0: &str = "weft_er_6_0";
/// Number of arguments of `cong_control` before 6.10: the socket and the rate sample.
const ARGUMENTS_6_0: usize = 2;
/// Name of a BTF type that only kernels since 6.4 have.
///
/// With it, a BPF link can keep a congestion control loaded for the process that holds the link.
const LINK: &str = "bpf_struct_ops_link";

/// True if `map` is the name of the BPF map of a variant of `weft_er`.
pub(super) fn is_ours(map: &str) -> bool {
    [NAME, NAME_6_0].contains(&map)
}

/// Makes libbpf create only that variant of `weft_er` in `object` that the running kernel accepts.
pub(super) fn fit(object: &mut OpenObject) -> libbpf_rs::Result<()> {
    let kernel = Btf::from_vmlinux()?;
    let name = if arguments(&kernel) == Some(ARGUMENTS_6_0) { NAME_6_0 } else { NAME };
    let has_links = kernel.type_by_name::<Struct<'_>>(LINK).is_some();
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        map.set_autocreate(map.name() == name)?;
        if !has_links {
            map.set_map_flags(0)?;
        }
    }
    Ok(())
}

/// Returns the map of that variant of `weft_er` in `object` that was loaded.
pub(super) fn made(object: &mut Object) -> Option<MapMut<'_>> {
    // libbpf gives a map that it did not create a descriptor too, so only `autocreate` shows which map was created.
    object.maps_mut().find(|map| map.map_type() == MapType::StructOps && map.autocreate())
}

/// Returns the number of arguments that the kernel passes to `cong_control`. Returns `None` if the BTF lacks it.
fn arguments(kernel: &Btf<'_>) -> Option<usize> {
    let operations = kernel.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = operations.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = kernel.type_by_id::<Ptr<'_>>(member.ty)?;
    Some(kernel.type_by_id::<FuncProto<'_>>(pointer.referenced_type().type_id())?.len())
}
