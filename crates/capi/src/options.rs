//! Ids and options as C has them.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toporing::communicator::{Code, Fault, Options, RunChannels, UniqueId};

/// Most buffers are from `topo_alloc`.
pub const ALLOCATED: u32 = 2;

/// Collectives run on memory of GPUs, too.
pub const CUDA: u32 = 4;

/// No other process has memory of a GPU open that the caller may free.
pub const COPIES: u32 = 8;

/// Bytes of [`topo_id`].
pub const ID_BYTES: usize = 256;

/// Compare the collectives of all ranks before each runs.
pub const DEBUG: u32 = 1;

/// A unique id: a text with its terminating zero. Each process that knows it can join, so
/// it is a secret.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct topo_id {
    /// The text.
    pub text: [c_char; ID_BYTES],
}

/// Options of a communicator; zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct topo_options {
    /// `sizeof(topo_options)`.
    pub bytes: u32,
    /// A sum of `TOPO_DEBUG` and others.
    pub flags: u32,
    /// How long all ranks may take to join, ms. 0 is one minute.
    pub join_timeout_ms: u32,
    /// Longest wait of a call for another rank, ms. 0 is ten minutes.
    pub timeout_ms: u32,
    /// Network interfaces, as `NCCL_SOCKET_IFNAME` names them; may be null.
    pub interfaces: *const c_char,
    /// Replaces the identity of this host, as `NCCL_HOSTID` does; may be null.
    pub host_id: *const c_char,
    /// A file with the plan that is run, as `topo plan -o` writes it; may be null.
    pub plan: *const c_char,
    /// With `TOPO_CUDA`: CUDA's number of this rank's GPU, from 0.
    pub gpu: u32,
    /// Most thread blocks of a collective on this GPU. 0 is at most 32, and a quarter of those that
    /// fit; `u32::MAX` all, only if no other communicator of this process runs at the same time.
    pub blocks: u32,
}

/// Reads options.
///
/// # Safety
/// `options` is null or points to options whose texts are null or end with a zero.
pub unsafe fn read(options: *const topo_options) -> Result<Options, Fault> {
    let mut chosen = Options::default();
    // SAFETY: the caller says so.
    let Some(options) = (unsafe { options.as_ref() }) else {
        return Ok(chosen);
    };
    let expected = size_of::<topo_options>();
    if options.bytes as usize != expected {
        let found = options.bytes;
        return Err(Fault::invalid(format!(
            "options.bytes is {found}, expected {expected}: set it to sizeof(topo_options), and take the topo.h \
             of this library"
        )));
    }
    let unknown = options.flags & !(DEBUG | ALLOCATED | CUDA | COPIES);
    if unknown != 0 {
        return Err(Fault::invalid(format!(
            "options.flags has unknown bits {unknown:#x}; expected a sum of TOPO_DEBUG, \
             TOPO_ALLOCATED, TOPO_CUDA and TOPO_COPIES"
        )));
    }
    chosen.debug = options.flags & DEBUG != 0;
    chosen.allocated_buffers = options.flags & ALLOCATED != 0;
    chosen.copies = options.flags & COPIES != 0;
    chosen.gpu = (options.flags & CUDA != 0).then_some(options.gpu);
    chosen.blocks = match options.blocks {
        0 => None,
        u32::MAX => Some(0),
        most => Some(most),
    };
    if options.join_timeout_ms != 0 {
        chosen.join = Duration::from_millis(options.join_timeout_ms.into());
    }
    if options.timeout_ms != 0 {
        chosen.longest_wait = Duration::from_millis(options.timeout_ms.into());
    }
    // SAFETY: the caller says that they end with a zero.
    chosen.interfaces = unsafe { text(options.interfaces) };
    // SAFETY: as above.
    chosen.host_id = unsafe { text(options.host_id) };
    // SAFETY: as above.
    if let Some(file) = unsafe { text(options.plan) } {
        let plan = RunChannels::read(Path::new(&file));
        let plan = plan.map_err(|why| Fault::invalid(why.to_string()))?;
        chosen.plan = Some(Arc::new(plan));
    }
    Ok(chosen)
}

/// Reads an id.
pub fn parse(id: &topo_id) -> Result<UniqueId, Fault> {
    let bytes: Vec<u8> = id.text.iter().map(|it| it.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_err(|_| {
        Fault::invalid("the id does not end: broadcast all bytes of topo_id to the other ranks")
    })?;
    let parsed = text.to_string_lossy().parse::<UniqueId>();
    parsed.map_err(|error| Fault::invalid(error.to_string()))
}

/// The id as bytes.
pub fn write(id: &UniqueId) -> Result<topo_id, Fault> {
    let shown = id.to_string();
    if shown.len() >= ID_BYTES {
        return Err(Fault::new(Code::Internal, "the id is too long"));
    }
    let mut text = [0; ID_BYTES];
    for (to, from) in text.iter_mut().zip(shown.bytes()) {
        *to = from.cast_signed() as c_char;
    }
    Ok(topo_id { text })
}

/// A text of C.
///
/// # Safety
/// It is null or ends with a zero.
pub unsafe fn text(of: *const c_char) -> Option<String> {
    // SAFETY: the caller says so.
    (!of.is_null()).then(|| unsafe { CStr::from_ptr(of).to_string_lossy().into_owned() })
}
