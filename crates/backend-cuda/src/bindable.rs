//! Memory to which a team's multicast can be bound: kinds of handles, granularity, callers' memory.

use cudarc::driver::sys;
use device_runtime::{Bindable, Team};
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::callers_memory::{self, place_of};
use crate::device::Device;
use crate::error::Driver;
use crate::memory::MemoryKind;

/// The kind of handle that a team uses; `None` among threads of one process.
pub(crate) fn kind_of(team: &Team) -> Result<Option<MemoryKind>, String> {
    let Some(name) = &team.kind else {
        return Ok(None);
    };
    let found = MemoryKind::ALL.into_iter().find(|it| it.name() == name);
    match found.filter(|it| it.handle_type().is_some()) {
        None => Err(format!("there are no multicasts of kind {name}")),
        found => Ok(found),
    }
}

pub(crate) fn handle_type(kind: Option<MemoryKind>) -> HandleType {
    let of_kind = kind.and_then(MemoryKind::handle_type);
    of_kind.unwrap_or(HandleType::CU_MEM_HANDLE_TYPE_NONE)
}

/// What the places and sizes of bound memory are multiples of, bytes.
pub(crate) fn granularity(
    team: &Team,
    properties: &sys::CUmulticastObjectProp,
) -> Result<usize, String> {
    let least = sys::CUmulticastGranularity_flags_enum::CU_MULTICAST_GRANULARITY_MINIMUM;
    let mut granularity = 0;
    // SAFETY: the driver reads the properties and writes one number.
    unsafe { sys::cuMulticastGetGranularity(&raw mut granularity, properties, least) }
        .to(|| format!("asking how a multicast of {} GPUs is aligned", team.ranks))?;
    Ok(granularity.max(1))
}

/// The part of a caller's allocation that holds `team.bytes` bytes from an address on, in multiples
/// of the granularity.
///
/// # Errors
/// It is no memory that a multicast of the team can be bound to.
pub(crate) fn bindable(device: &Device, address: u64, team: &Team) -> Result<Bindable, String> {
    let number = device.number;
    let kind = kind_of(team)?;
    let advice = "a multicast (NVLS) takes virtual memory: of cuMemCreate with a handle type that other processes can open, of \
                  ncclMemAlloc, or of PyTorch's symmetric memory";
    // A window lies in one mapping.
    let found = callers_memory::allocation(device, address, 1);
    let allocation = found.filter(|it| !it.is_of_peers).ok_or_else(|| {
        format!("{address:#x} is in no memory of GPU {number} that can be registered; {advice}")
    })?;
    let made_for = place_of(address).map_or(0, |it| it.handle_types);
    let needed = u64::from(handle_type(kind).0);
    if made_for & needed != needed {
        let kind = kind.map_or("", MemoryKind::name);
        return Err(format!(
            "the memory at {address:#x} has no {kind} handle, which these ranks need to share a multicast; \
             {advice}"
        ));
    }
    let properties = sys::CUmulticastObjectProp {
        numDevices: team.ranks,
        size: team.bytes as usize,
        handleTypes: needed,
        flags: 0,
    };
    let granularity = granularity(team, &properties)? as u64;
    let base = address - address % granularity;
    let end = address.checked_add(team.bytes);
    let end = end.and_then(|end| end.checked_next_multiple_of(granularity));
    let mapped = allocation.bytes();
    let last = allocation.base.saturating_add(mapped);
    match end.filter(|end| base >= allocation.base && *end <= last) {
        Some(end) => Ok(Bindable {
            base,
            bytes: end - base,
            allocation,
        }),
        None => Err(format!(
            "{} bytes at {address:#x} of GPU {number} are not in one piece of memory of whole multiples of {granularity} bytes: \
             {mapped} bytes are mapped at {:#x}",
            team.bytes, allocation.base
        )),
    }
}
