//! A plug-in's functions, of whichever version, behind one set of calls.

mod starting;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::abi::{
    Accept, Close, Config, ConnectV8, ConnectV10, ConnectV11, Deregister, Devices, Flush,
    GetProperties, InitV8, InitV10, InitV11, ListenV8, ListenV11, NO_TRAFFIC_CLASS, POINTER_CUDA,
    PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, ReceiveV8, ReceiveV9, ReceiveV10,
    Register, RegisterDmaBuf, SendV8, SendV9, SendV10, Table, TableV8, TableV9, TableV10, TableV11,
    TableV12, Test,
};
use crate::error::{Error, Place};

/// Versions that are known, the newest first.
pub const VERSIONS: [u32; 5] = [12, 11, 10, 9, 8];

pub type Pointer = *mut c_void;

#[derive(Clone, Copy)]
enum Init {
    Plain(InitV8),
    Profiled(InitV10),
    Context(InitV11),
}

#[derive(Clone, Copy)]
enum Properties {
    V8(GetProperties<PropertiesV8>),
    V9(GetProperties<PropertiesV9<4>>),
    V11(GetProperties<PropertiesV11>),
    V12(GetProperties<PropertiesV12>),
}

#[derive(Clone, Copy)]
enum Listen {
    Plain(ListenV8),
    Context(ListenV11),
}

#[derive(Clone, Copy)]
enum Connect {
    Plain(ConnectV8),
    Configured(ConnectV10),
    Context(ConnectV11),
}

#[derive(Clone, Copy)]
enum Send {
    Short(SendV8),
    Plain(SendV9),
    Profiled(SendV10),
}

#[derive(Clone, Copy)]
enum Receive {
    Short(ReceiveV8),
    Plain(ReceiveV9),
    Profiled(ReceiveV10),
}

/// The functions of a table that are there.
pub struct Functions {
    pub place: Place,
    pub name: String,
    table: usize,
    init: Init,
    devices: Devices,
    properties: Properties,
    listen: Listen,
    connect: Connect,
    accept: Accept,
    register: Register,
    register_dma_buf: Option<RegisterDmaBuf>,
    deregister: Deregister,
    send: Send,
    receive: Receive,
    flush: Option<Flush>,
    test: Test,
    close_send: Close,
    close_receive: Close,
    close_listen: Close,
    finalize: Option<Close>,
}

impl Functions {
    /// The functions of the table of a version at an address.
    ///
    /// # Safety
    /// There is a table of that version, and it stays.
    pub unsafe fn of(place: Place, table: *const c_void) -> Result<Self, Error> {
        // SAFETY: the caller says that the table is there and of this version, and the casts name the version's type.
        unsafe {
            match place.version {
                8 => {
                    let all = &*table.cast::<TableV8>();
                    let properties = Properties::V8;
                    let kinds = (
                        Init::Plain as fn(_) -> _,
                        properties as fn(_) -> _,
                        Listen::Plain as fn(_) -> _,
                        Connect::Plain as fn(_) -> _,
                        Send::Short as fn(_) -> _,
                        Receive::Short as fn(_) -> _,
                    );
                    Self::common(place, table, all, kinds)
                }
                9 => {
                    let all = &*table.cast::<TableV9>();
                    let kinds = (
                        Init::Plain as fn(_) -> _,
                        Properties::V9 as fn(_) -> _,
                        Listen::Plain as fn(_) -> _,
                        Connect::Plain as fn(_) -> _,
                        Send::Plain as fn(_) -> _,
                        Receive::Plain as fn(_) -> _,
                    );
                    Self::common(place, table, &all.common, kinds)
                }
                10 => {
                    let all = &*table.cast::<TableV10>();
                    let kinds = (
                        Init::Profiled as fn(_) -> _,
                        Properties::V9 as fn(_) -> _,
                        Listen::Plain as fn(_) -> _,
                        Connect::Configured as fn(_) -> _,
                        Send::Profiled as fn(_) -> _,
                        Receive::Profiled as fn(_) -> _,
                    );
                    Self::common(place, table, &all.common, kinds)
                }
                11 => {
                    let all = &*table.cast::<TableV11<PropertiesV11>>();
                    Self::newest(place, table, all, Properties::V11)
                }
                _ => {
                    let all = &*table.cast::<TableV12>();
                    Self::newest(place, table, all, Properties::V12)
                }
            }
        }
    }

    /// # Safety
    /// As [`Self::of`].
    unsafe fn newest<P: Copy>(
        place: Place,
        table: *const c_void,
        all: &TableV11<P>,
        properties: fn(GetProperties<P>) -> Properties,
    ) -> Result<Self, Error> {
        let kinds = (
            Init::Context as fn(_) -> _,
            properties,
            Listen::Context as fn(_) -> _,
            Connect::Context as fn(_) -> _,
            Send::Profiled as fn(_) -> _,
            Receive::Profiled as fn(_) -> _,
        );
        let finalize = all.finalize.ok_or_else(|| place.missing("finalize"))?;
        // SAFETY: the caller's promise is the same.
        let mut functions = unsafe { Self::common(place, table, &all.common, kinds) }?;
        functions.finalize = Some(finalize);
        Ok(functions)
    }

    /// # Safety
    /// As [`Self::of`].
    #[allow(
        clippy::type_complexity,
        reason = "one constructor for each function that differs"
    )]
    unsafe fn common<I: Copy, P, L: Copy, C: Copy, S: Copy, R: Copy>(
        place: Place,
        table: *const c_void,
        all: &Table<I, P, L, C, S, R>,
        kinds: (
            fn(I) -> Init,
            fn(GetProperties<P>) -> Properties,
            fn(L) -> Listen,
            fn(C) -> Connect,
            fn(S) -> Send,
            fn(R) -> Receive,
        ),
    ) -> Result<Self, Error> {
        macro_rules! there {
            ($field:ident, $name:literal) => {
                all.$field.ok_or_else(|| place.missing($name))?
            };
        }
        // SAFETY: a table's name ends, and stays with the table.
        let name = unsafe { starting::text(&place, "the table's name", all.name) }?;
        let name = name.ok_or_else(|| place.absurd("the table", "no name; expected one"))?;
        Ok(Self {
            name,
            table: table as usize,
            init: kinds.0(there!(init, "init")),
            devices: there!(devices, "devices"),
            properties: kinds.1(there!(get_properties, "getProperties")),
            listen: kinds.2(there!(listen, "listen")),
            connect: kinds.3(there!(connect, "connect")),
            accept: there!(accept, "accept"),
            register: there!(register, "regMr"),
            register_dma_buf: all.register_dma_buf,
            deregister: there!(deregister, "deregMr"),
            send: kinds.4(there!(send, "isend")),
            receive: kinds.5(there!(receive, "irecv")),
            flush: all.flush,
            test: there!(test, "test"),
            close_send: there!(close_send, "closeSend"),
            close_receive: there!(close_receive, "closeRecv"),
            close_listen: there!(close_listen, "closeListen"),
            finalize: None,
            place,
        })
    }

    /// Listens on a device, and fills in the handle by which others connect.
    ///
    /// # Safety
    /// The handle has [`crate::abi::HANDLE_BYTES`] bytes.
    pub unsafe fn listen(
        &self,
        context: usize,
        device: u32,
        handle: Pointer,
    ) -> Result<Pointer, Error> {
        let mut communicator = null_mut();
        // SAFETY: the handle is large enough, and the result has a place.
        let code = unsafe {
            match self.listen {
                Listen::Plain(listen) => listen(device as c_int, handle, &mut communicator),
                Listen::Context(listen) => listen(
                    context as Pointer,
                    device as c_int,
                    handle,
                    &mut communicator,
                ),
            }
        };
        self.place.check("listen", code)?;
        if communicator.is_null() {
            return Err(self.place.absurd("listen", "no object; expected one"));
        }
        Ok(communicator)
    }

    /// Goes on connecting; null until it is done.
    ///
    /// # Safety
    /// The handle is another rank's, at the same place in every call for one connection.
    pub unsafe fn connect(
        &self,
        context: usize,
        device: u32,
        handle: Pointer,
    ) -> Result<Pointer, Error> {
        let (mut communicator, mut offload) = (null_mut(), null_mut());
        let (to, offload): (*mut Pointer, *mut Pointer) = (&mut communicator, &mut offload);
        let device = device as c_int;
        // SAFETY: all results have their places; no offload is asked for.
        let code = unsafe {
            match self.connect {
                Connect::Plain(connect) => connect(device, handle, to, offload),
                Connect::Configured(connect) => connect(device, &mut config(), handle, to, offload),
                Connect::Context(connect) => {
                    connect(context as Pointer, device, handle, to, offload)
                }
            }
        };
        self.place.check("connect", code)?;
        Ok(communicator)
    }

    /// Goes on accepting; null until somebody has connected.
    ///
    /// # Safety
    /// The object came from [`Self::listen`] and is not closed.
    pub unsafe fn accept(&self, listening: Pointer) -> Result<Pointer, Error> {
        let (mut communicator, mut offload) = (null_mut(), null_mut());
        // SAFETY: all results have their places; no offload is asked for.
        let code = unsafe { (self.accept)(listening, &mut communicator, &mut offload) };
        self.place.check("accept", code)?;
        Ok(communicator)
    }

    /// Registers memory of a kind.
    ///
    /// # Safety
    /// The communicator is open, and the memory is of that kind and stays until it is given back.
    pub unsafe fn register(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        kind: c_int,
    ) -> Result<Pointer, Error> {
        let mut registration = null_mut();
        // SAFETY: the caller's promise, and the result has its place.
        let code =
            unsafe { (self.register)(communicator, memory.cast(), bytes, kind, &mut registration) };
        self.place.check("regMr", code)?;
        Ok(registration)
    }

    /// Registers memory of a GPU that begins somewhere in a file of its driver.
    ///
    /// # Safety
    /// As [`Self::register`].
    pub unsafe fn register_dma_buf(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        (file, offset): (c_int, u64),
    ) -> Result<Pointer, Error> {
        let Some(register) = self.register_dma_buf else {
            return Err(self.place.missing("regMrDmaBuf"));
        };
        let mut registration = null_mut();
        // SAFETY: the caller's promise, and the result has its place.
        let code = unsafe {
            register(
                communicator,
                memory.cast(),
                bytes,
                POINTER_CUDA,
                offset,
                file,
                &mut registration,
            )
        };
        self.place.check("regMrDmaBuf", code)?;
        Ok(registration)
    }

    /// # Safety
    /// The registration is of this open communicator.
    pub unsafe fn deregister(
        &self,
        communicator: Pointer,
        registration: Pointer,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.deregister)(communicator, registration) };
        self.place.check("deregMr", code)
    }

    /// Sends; a null request is to be tried again.
    ///
    /// # Safety
    /// The memory is registered, fits the device, and is not touched until the request is done.
    pub unsafe fn send(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        tag: c_int,
        registration: Pointer,
    ) -> Result<Pointer, Error> {
        let mut request = null_mut();
        let (memory, to): (Pointer, *mut Pointer) = (memory.cast(), &mut request);
        // SAFETY: the caller's promise. A length fits into an int, for devices of v8 say that they take no more.
        let code = unsafe {
            match self.send {
                Send::Short(send) => {
                    send(communicator, memory, bytes as c_int, tag, registration, to)
                }
                Send::Plain(send) => send(communicator, memory, bytes, tag, registration, to),
                Send::Profiled(send) => send(
                    communicator,
                    memory,
                    bytes,
                    tag,
                    registration,
                    null_mut(),
                    to,
                ),
            }
        };
        self.place.check("isend", code)?;
        Ok(request)
    }

    /// Receives one message; a null request is to be tried again.
    ///
    /// # Safety
    /// As [`Self::send`].
    pub unsafe fn receive(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        tag: c_int,
        registration: Pointer,
    ) -> Result<Pointer, Error> {
        let mut request = null_mut();
        let (mut memories, mut registrations): ([Pointer; 1], _) =
            ([memory.cast()], [registration]);
        let (mut tags, mut parents) = ([tag], [null_mut()]);
        let (memories, tags) = (memories.as_mut_ptr(), tags.as_mut_ptr());
        let registrations: *mut Pointer = registrations.as_mut_ptr();
        // SAFETY: the caller's promise; the arrays have one element each, as the count says.
        let code = unsafe {
            match self.receive {
                Receive::Short(receive) => receive(
                    communicator,
                    1,
                    memories,
                    [bytes as c_int].as_mut_ptr(),
                    tags,
                    registrations,
                    &mut request,
                ),
                Receive::Plain(receive) => receive(
                    communicator,
                    1,
                    memories,
                    [bytes].as_mut_ptr(),
                    tags,
                    registrations,
                    &mut request,
                ),
                Receive::Profiled(receive) => receive(
                    communicator,
                    1,
                    memories,
                    [bytes].as_mut_ptr(),
                    tags,
                    registrations,
                    parents.as_mut_ptr(),
                    &mut request,
                ),
            }
        };
        self.place.check("irecv", code)?;
        Ok(request)
    }

    /// Makes sure that what was received is seen; a null request needs nothing.
    ///
    /// # Safety
    /// The memory was received by this communicator, and is registered.
    pub unsafe fn flush(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        registration: Pointer,
    ) -> Result<Pointer, Error> {
        let Some(flush) = self.flush else {
            return Err(self.place.missing("iflush"));
        };
        let mut request = null_mut();
        // SAFETY: the caller's promise; the arrays have one element each, as the count says.
        let code = unsafe {
            flush(
                communicator,
                1,
                [memory.cast()].as_mut_ptr(),
                [bytes as c_int].as_mut_ptr(),
                [registration].as_mut_ptr(),
                &mut request,
            )
        };
        self.place.check("iflush", code)?;
        Ok(request)
    }

    /// Looks whether a request is done; then it is gone, and this is the length of its message, bytes.
    ///
    /// # Safety
    /// The request is under way.
    pub unsafe fn test(&self, request: Pointer) -> Result<Option<c_int>, Error> {
        let (mut done, mut bytes) = (0, 0);
        // SAFETY: the results have their places; of one message there is one length.
        let code = unsafe { (self.test)(request, &mut done, &mut bytes) };
        self.place.check("test", code)?;
        Ok((done != 0).then_some(bytes))
    }

    /// # Safety
    /// The object came from [`Self::connect`]; nobody uses it any more.
    pub unsafe fn close_send(&self, communicator: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_send)(communicator) };
        self.place.check("closeSend", code)
    }

    /// # Safety
    /// The object came from [`Self::accept`]; nobody uses it any more.
    pub unsafe fn close_receive(&self, communicator: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_receive)(communicator) };
        self.place.check("closeRecv", code)
    }

    /// # Safety
    /// The object came from [`Self::listen`]; nobody uses it any more.
    pub unsafe fn close_listen(&self, listening: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_listen)(listening) };
        self.place.check("closeListen", code)
    }
}

const fn config() -> Config {
    Config {
        traffic_class: NO_TRAFFIC_CLASS,
    }
}
