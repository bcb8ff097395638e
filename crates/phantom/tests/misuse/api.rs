//! Calls of the library, and what most cases begin with.

use std::sync::OnceLock;

use libloading::Library;

/// The library.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the library was made for this.
        unsafe { Library::new(super::built("libphantom.so")) }.unwrap()
    })
}

/// Calls a function by name; the types are those of the arguments.
macro_rules! call {
    (@type $argument:expr) => { _ };
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments have the function's types; the library checks their values.
        unsafe {
            let function = $crate::api::library()
                .get::<unsafe extern "C" fn($($crate::api::call!(@type $argument)),*) -> u32>(
                    stringify!($name).as_bytes(),
                )
                .unwrap();
            function($($argument),*)
        }
    }};
}

/// Calls a function that must succeed.
macro_rules! right {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!($crate::api::call!($name($($argument),*)), 0, stringify!($name))
    };
}

pub(crate) use {call, right};

/// Granularity of physical memory, bytes.
pub const GRANULARITY: usize = 2 << 20;

/// PTX of a kernel that the emulator has.
pub const PTX: &[u8] = b".version 8.0\n.target sm_75\n.entry topo_run_move() {}\n\0";

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location(pub u32, pub i32);

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    pub kind: u32,
    pub handles: u32,
    pub location: Location,
    pub windows: usize,
    pub flags: u64,
}

/// `CUmemAccessDesc`
#[repr(C)]
pub struct Access(pub Location, pub u32);

/// `CUmulticastObjectProp`
#[repr(C)]
pub struct MulticastProperties {
    pub devices: u32,
    pub size: usize,
    pub handles: u64,
    pub flags: u64,
}

/// `CUlaunchAttribute`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    pub id: u32,
    pub padding: u32,
    pub value: [u32; 16],
}

/// `CUlaunchConfig`
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: u64,
    pub attributes: *const LaunchAttribute,
    pub count: u32,
}

/// Pinned memory of a device with these kinds of handles.
pub fn properties(device: i32, handles: u32) -> Properties {
    Properties {
        kind: 1,
        handles,
        location: Location(1, device),
        windows: 0,
        flags: 0,
    }
}

/// A place for a result.
pub fn out<T: Default>() -> *mut T {
    Box::leak(Box::default())
}

/// What a function returns on another thread.
pub fn elsewhere(call: impl FnOnce() -> u32 + Send + 'static) -> u32 {
    std::thread::spawn(call).join().unwrap()
}

/// Initializes the driver and makes a device's context current. Returns the context.
pub fn begin(device: i32) -> u64 {
    right!(cuInit(0_u32));
    let mut context = 0_u64;
    right!(cuDevicePrimaryCtxRetain(&raw mut context, device));
    right!(cuCtxSetCurrent(context));
    context
}

/// Allocates memory of the current device; returns the result.
pub fn allocated(bytes: usize) -> u32 {
    call!(cuMemAlloc_v2(out::<u64>(), bytes))
}

/// Memory of the current device.
pub fn allocate(bytes: usize) -> u64 {
    let mut address = 0_u64;
    right!(cuMemAlloc_v2(&raw mut address, bytes));
    address
}

/// A stream of the current context.
pub fn stream(flags: u32) -> u64 {
    let mut stream = 0_u64;
    right!(cuStreamCreate(&raw mut stream, flags));
    stream
}

/// An event of the current context.
pub fn event(flags: u32) -> u64 {
    let mut event = 0_u64;
    right!(cuEventCreate(&raw mut event, flags));
    event
}

/// Physical memory of a device.
pub fn create(device: i32, bytes: usize, handles: u32) -> u64 {
    create_with(&properties(device, handles), bytes)
}

/// Physical memory of NUMA node 0.
pub fn create_on_host(bytes: usize) -> u64 {
    let mut properties = properties(0, 0);
    properties.location.0 = 3;
    create_with(&properties, bytes)
}

fn create_with(properties: &Properties, bytes: usize) -> u64 {
    let mut handle = 0_u64;
    right!(cuMemCreate(
        &raw mut handle,
        bytes,
        &raw const *properties,
        0_u64
    ));
    handle
}

/// Reserved addresses.
pub fn reserve(bytes: usize) -> u64 {
    let mut address = 0_u64;
    right!(cuMemAddressReserve(
        &raw mut address,
        bytes,
        0_usize,
        0_u64,
        0_u64
    ));
    address
}

/// A mapping of new physical memory.
pub fn map(device: i32, bytes: usize) -> (u64, u64) {
    let (handle, address) = (create(device, bytes, 0), reserve(bytes));
    right!(cuMemMap(address, bytes, 0_usize, handle, 0_u64));
    (address, handle)
}

/// Maps memory; returns the result.
pub fn map_at(address: u64, bytes: usize, offset: usize, handle: u64) -> u32 {
    call!(cuMemMap(address, bytes, offset, handle, 0_u64))
}

/// Gives a device access to a mapping; returns the result.
pub fn give_access(address: u64, bytes: usize, device: i32) -> u32 {
    let access = Access(Location(1, device), 3);
    call!(cuMemSetAccess(address, bytes, &raw const access, 1_usize))
}

/// An attribute of an address, of 8 bytes.
pub fn attribute(of: u64, number: u32) -> u64 {
    let mut value = 0_u64;
    right!(cuPointerGetAttribute(&raw mut value, number, of));
    value
}

/// The allocation or mapping that holds an address: where it begins, and its bytes.
pub fn range_of(address: u64) -> (u64, usize) {
    let (mut base, mut bytes) = (0_u64, 0_usize);
    right!(cuMemGetAddressRange_v2(
        &raw mut base,
        &raw mut bytes,
        address
    ));
    (base, bytes)
}

/// A multicast object for a number of devices.
pub fn multicast(devices: u32, size: usize) -> u64 {
    multicast_with(devices, size, 0)
}

/// The same with these kinds of handles.
pub fn multicast_with(devices: u32, size: usize, handles: u64) -> u64 {
    let mut handle = 0_u64;
    let properties = MulticastProperties {
        devices,
        size,
        handles,
        flags: 0,
    };
    right!(cuMulticastCreate(&raw mut handle, &raw const properties));
    handle
}

/// A loaded module.
pub fn module() -> u64 {
    let mut module = 0_u64;
    right!(cuModuleLoadData(&raw mut module, PTX.as_ptr()));
    module
}

/// A kernel of a module.
pub fn function(module: u64) -> u64 {
    let mut function = 0_u64;
    right!(cuModuleGetFunction(
        &raw mut function,
        module,
        c"topo_run_move".as_ptr()
    ));
    function
}
