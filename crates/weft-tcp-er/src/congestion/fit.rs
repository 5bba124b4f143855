//! Which half of the object fits the running kernel, as that describes itself.

use super::NAME;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::{MapCore, MapMut, MapType, Object, OpenObject, ReferencesType};

/// The one for kernels before 6.10, which say less of an acknowledgment.
const NAME_6_0: &str = "weft_er_6_0";
/// The socket, and what was sampled.
const ARGUMENTS_6_0: usize = 2;
/// Since 6.4 a congestion control can go with the process that holds it.
const LINK: &str = "bpf_struct_ops_link";

/// Whether a map is `weft_er` itself, of this or another process.
pub(super) fn is_ours(map: &str) -> bool {
    [NAME, NAME_6_0].contains(&map)
}

/// Has `object` make the `weft_er` that the kernel takes, and no other.
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

/// The one that was made, once it is.
pub(super) fn made(object: &mut Object) -> Option<MapMut<'_>> {
    // libbpf gives the other one a descriptor, too.
    object.maps_mut().find(|map| map.map_type() == MapType::StructOps && map.autocreate())
}

/// How many the kernel gives `cong_control`.
fn arguments(kernel: &Btf<'_>) -> Option<usize> {
    let operations = kernel.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = operations.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = kernel.type_by_id::<Ptr<'_>>(member.ty)?;
    Some(kernel.type_by_id::<FuncProto<'_>>(pointer.referenced_type().type_id())?.len())
}
