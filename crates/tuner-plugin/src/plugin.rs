//! The functions that NCCL calls. Every function catches panics, and reports success whatever
//! happens: then NCCL keeps its own choice, and the job runs.

use std::ffi::{CStr, CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::VARIABLE;
use crate::abi::{self, Code, Logger, NvlinkDomains, SUCCESS, TUNING, level};
use crate::abi::{TunerV3, TunerV4, TunerV5, TunerV6, TunerV7};
use crate::choose::{Operation, Own};
use crate::file::{self, NoTable};
use crate::names::{COLLECTIVES, limits_channels, name};
use crate::table::{Communicator, Table};

/// The name in NCCL's log.
const NAME: &CStr = c"topo";

/// Most algorithms and protocols that a table of NCCL may have.
const MOST: c_int = 64;

/// The file, read once by a process: all its communicators must choose by the same.
static TABLE: OnceLock<Result<Table, NoTable>> = OnceLock::new();

fn table() -> &'static Result<Table, NoTable> {
    TABLE.get_or_init(|| match file::path((&raw const TABLE).cast()) {
        Some(path) => file::read(&path),
        None => Err(NoTable::Absent(format!(
            "the plug-in's folder is not known; {} names the file",
            VARIABLE
        ))),
    })
}

/// The state of a communicator.
struct Context {
    logger: Option<Logger>,
    nodes: u64,
    /// Its communicators in the table.
    candidates: Vec<usize>,
    /// A line about NCCL's own choice was logged.
    said: AtomicBool,
}

impl Context {
    fn say(&self, level: c_int, text: &str) {
        let (Some(logger), Ok(text)) = (self.logger, CString::new(text)) else {
            return;
        };
        // SAFETY: NCCL's logger, called like `printf` with a text for `%s`.
        unsafe {
            logger(
                level,
                TUNING,
                NAME.as_ptr(),
                0,
                c"TUNER/topo: %s".as_ptr(),
                text.as_ptr(),
            );
        }
    }

    /// Says why NCCL keeps its own choice, once.
    fn say_own(&self, level: c_int, why: &dyn std::fmt::Display) {
        if !self.said.swap(true, Ordering::Relaxed) {
            self.say(level, &format!("NCCL's own choice: {why}"));
        }
    }
}

/// Calls a function without letting a panic out.
fn guarded(call: impl FnOnce()) -> Code {
    // What was being changed is not used again: a context that panicked is only freed.
    let _ = catch_unwind(AssertUnwindSafe(call));
    SUCCESS
}

fn described(communicator: &Communicator) -> String {
    match communicator.gpus.as_slice() {
        [] => "a set of GPUs".to_owned(),
        [one] => format!("GPUs {one}"),
        [one, rest @ ..] => format!("GPUs {one} and {} other sets", rest.len()),
    }
}

/// Starts a communicator.
fn started(nodes: usize, ranks: usize, logger: Option<Logger>) -> Context {
    let (nodes, ranks) = (nodes as u64, ranks as u64);
    let mut context = Context {
        logger,
        nodes,
        candidates: Vec::new(),
        said: AtomicBool::new(false),
    };
    let table = match table() {
        Ok(table) => table,
        Err(NoTable::Absent(why)) => {
            context.say_own(level::INFORMATION, why);
            return context;
        }
        Err(NoTable::Unusable(why)) => {
            context.say_own(level::WARNING, why);
            return context;
        }
    };
    context.candidates = table.candidates(nodes, ranks);
    let of_table = |at: &usize| table.communicators.get(*at);
    match context.candidates.first().and_then(of_table) {
        Some(first) => {
            let others = context.candidates.len() - 1;
            let others = match others {
                0 => String::new(),
                _ => format!(", or {others} other sets that NCCL's costs tell apart"),
            };
            let text = format!(
                "{nodes} nodes, {ranks} ranks: choices for {}{others}",
                described(first)
            );
            context.say(level::INFORMATION, &text);
        }
        None => {
            let why = format!("{} ({nodes} nodes, {ranks} ranks)", Own::NoCommunicator);
            context.say_own(level::INFORMATION, &why);
        }
    }
    context
}

/// # Safety
/// `to` is null or an address for a context.
unsafe fn start(to: *mut abi::Context, nodes: usize, ranks: usize, logger: Option<Logger>) -> Code {
    guarded(|| {
        if to.is_null() {
            return;
        }
        // SAFETY: the caller says that a context can be written.
        unsafe { to.write(ptr::null_mut()) };
        let context = Box::into_raw(Box::new(started(nodes, ranks, logger)));
        // SAFETY: as above.
        unsafe { to.write(context.cast()) };
    })
}

unsafe extern "C" fn init_v4(
    ranks: usize,
    nodes: usize,
    logger: Option<Logger>,
    context: *mut abi::Context,
) -> Code {
    // SAFETY: NCCL gives an address for the context.
    unsafe { start(context, nodes, ranks, logger) }
}

/// The constants, whose size differs by version, are neither read nor changed.
unsafe extern "C" fn init_v5(
    context: *mut abi::Context,
    _communicator: u64,
    ranks: usize,
    nodes: usize,
    logger: Option<Logger>,
    _domains: *const NvlinkDomains,
    _constants: *mut c_void,
) -> Code {
    // SAFETY: NCCL gives an address for the context.
    unsafe { start(context, nodes, ranks, logger) }
}

/// # Safety
/// `context` is null or was made by [`start`] and not ended.
unsafe fn context<'a>(context: abi::Context) -> Option<&'a Context> {
    // SAFETY: the caller says so.
    unsafe { context.cast::<Context>().as_ref() }
}

unsafe extern "C" fn information_v4(
    of: abi::Context,
    collective: c_int,
    bytes: usize,
    operations: c_int,
    times: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _registered: c_int,
    channels: *mut c_int,
) -> Code {
    guarded(|| {
        // SAFETY: NCCL gives the context of `init`.
        let Some(context) = (unsafe { context(of) }) else {
            return;
        };
        // From 2.31 on NCCL also asks about kernels of its symmetric memory, as no operations.
        let is_choice = operations >= 1 && !times.is_null();
        let sizes = 1..=MOST;
        if !is_choice || !sizes.contains(&algorithms) || !sizes.contains(&protocols) {
            return;
        }
        // SAFETY: NCCL gives rows of times for each algorithm, one behind the other.
        let times = unsafe {
            std::slice::from_raw_parts_mut(times, (algorithms * protocols).unsigned_abs() as usize)
        };
        let wanted = decide(
            context,
            collective,
            bytes as u64,
            operations.unsigned_abs(),
            times,
            protocols.unsigned_abs() as usize,
        );
        // SAFETY: NCCL gives an address for the channels.
        if let (Some(wanted), Some(channels)) = (wanted, unsafe { channels.as_mut() }) {
            *channels = wanted.into();
        }
    })
}

/// Makes the file's choice the cheapest, and returns the channels to take.
fn decide(
    context: &Context,
    collective: c_int,
    bytes: u64,
    operations: u32,
    times: &mut [f32],
    protocols: usize,
) -> Option<u8> {
    let (Ok(table), false) = (table(), context.candidates.is_empty()) else {
        return None;
    };
    let collective = u8::try_from(collective).ok()?;
    if usize::from(collective) >= COLLECTIVES.len() {
        return None;
    }
    let operation = Operation {
        collective,
        bytes,
        operations,
        times,
        protocols,
    };
    match table.choose(&context.candidates, &operation) {
        Ok(choice) => {
            let at = usize::from(choice.algorithm) * protocols + usize::from(choice.protocol);
            *times.get_mut(at)? = 0.0;
            let channels = choice.channels;
            channels.filter(|_| limits_channels(choice.algorithm, context.nodes))
        }
        Err(why) => {
            let of = name(&COLLECTIVES, collective);
            context.say_own(level::INFORMATION, &format!("{of} of {bytes} bytes: {why}"));
            None
        }
    }
}

unsafe extern "C" fn information_v3(
    of: abi::Context,
    collective: c_int,
    bytes: usize,
    operations: c_int,
    times: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    channels: *mut c_int,
) -> Code {
    // SAFETY: the arguments are those of the newer versions, without registered buffers.
    unsafe {
        information_v4(
            of, collective, bytes, operations, times, algorithms, protocols, 0, channels,
        )
    }
}

unsafe extern "C" fn chunk_size(
    of: abi::Context,
    collective: c_int,
    bytes: usize,
    algorithm: c_int,
    protocol: c_int,
    _channels: c_int,
    chunk: *mut usize,
) -> Code {
    guarded(|| {
        // SAFETY: NCCL gives the context of `init` and an address with its chunk.
        let (Some(context), Some(chunk)) = (unsafe { (context(of), chunk.as_mut()) }) else {
            return;
        };
        let small = |number: c_int| u8::try_from(number).ok();
        let (Ok(table), Some(collective)) = (table(), small(collective)) else {
            return;
        };
        let Some(taken) = small(algorithm).zip(small(protocol)) else {
            return;
        };
        let wanted = table.chunk(&context.candidates, collective, bytes as u64, taken);
        // A larger one than NCCL's may not fit its buffers.
        if let Some(wanted) = wanted {
            *chunk = (*chunk).min(wanted as usize);
        }
    })
}

unsafe extern "C" fn finish(context: abi::Context) -> Code {
    guarded(|| {
        if !context.is_null() {
            // SAFETY: NCCL gives the context of `init`, once.
            drop(unsafe { Box::from_raw(context.cast::<Context>()) });
        }
    })
}

/// The table of functions of version 3.
#[cfg_attr(topo_plugin, unsafe(export_name = "ncclTunerPlugin_v3"))]
pub static V3: TunerV3 = TunerV3 {
    name: NAME.as_ptr(),
    init: init_v4,
    information: information_v3,
    finish,
};

/// The table of functions of version 4.
#[cfg_attr(topo_plugin, unsafe(export_name = "ncclTunerPlugin_v4"))]
pub static V4: TunerV4 = TunerV4 {
    name: NAME.as_ptr(),
    init: init_v4,
    information: information_v4,
    finish,
};

/// The table of functions of version 5.
#[cfg_attr(topo_plugin, unsafe(export_name = "ncclTunerPlugin_v5"))]
pub static V5: TunerV5 = TunerV5 {
    name: NAME.as_ptr(),
    init: init_v5,
    information: information_v4,
    finish,
};

/// The table of functions of version 6.
#[cfg_attr(topo_plugin, unsafe(export_name = "ncclTunerPlugin_v6"))]
pub static V6: TunerV6 = TunerV6 {
    name: NAME.as_ptr(),
    init: init_v5,
    information: information_v4,
    finish,
    chunk_size: Some(chunk_size),
};

/// The table of functions of version 7. What differs from version 6, the constants, is not touched.
#[cfg_attr(topo_plugin, unsafe(export_name = "ncclTunerPlugin_v7"))]
pub static V7: TunerV7 = V6;
