//! The functions of a plug-in, whatever the version of its table.

mod calls;
mod starting;

use std::ffi::c_void;

use crate::abi::{
    Accept, Close, Config, ConnectV8, ConnectV10, ConnectV11, Deregister, Devices, Flush,
    GetProperties, InitV8, InitV10, InitV11, ListenV8, ListenV11, NO_TRAFFIC_CLASS, PropertiesV8,
    PropertiesV9, PropertiesV11, PropertiesV12, ReceiveV8, ReceiveV9, ReceiveV10, Register,
    RegisterDmaBuf, SendV8, SendV9, SendV10, Table, TableV8, TableV9, TableV10, TableV11, TableV12,
    Test,
};
use crate::error::{Error, Place};

/// The supported versions, newest first.
pub const VERSIONS: [u32; 5] = [12, 11, 10, 9, 8];

pub type Pointer = *mut c_void;

/// Functions whose arguments differ by version: an enum of their types, made from each of them.
macro_rules! by_version {
    ($($name:ident { $($variant:ident($function:ty)),+ })+) => {$(
        #[derive(Clone, Copy)]
        enum $name { $($variant($function)),+ }

        $(impl From<$function> for $name {
            fn from(function: $function) -> Self {
                Self::$variant(function)
            }
        })+
    )+};
}

by_version! {
    Init { Plain(InitV8), Profiled(InitV10), Context(InitV11) }
    Properties {
        V8(GetProperties<PropertiesV8>),
        V9(GetProperties<PropertiesV9<4>>),
        V11(GetProperties<PropertiesV11>),
        V12(GetProperties<PropertiesV12>)
    }
    Listen { Plain(ListenV8), Context(ListenV11) }
    Connect { Plain(ConnectV8), Configured(ConnectV10), Context(ConnectV11) }
    Send { Short(SendV8), Plain(SendV9), Profiled(SendV10) }
    Receive { Short(ReceiveV8), Plain(ReceiveV9), Profiled(ReceiveV10) }
}

/// The functions of a table.
pub struct Functions {
    pub place: Place,
    pub name: String,
    /// The table's address.
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
    /// Reads the table at an address, of the version that `place` gives.
    ///
    /// # Safety
    /// There is a table of that version, and it stays.
    pub unsafe fn of(place: Place, table: *const c_void) -> Result<Self, Error> {
        // SAFETY: the caller says that the table is there and of this version, and the casts name
        // the version's type.
        unsafe {
            match place.version {
                8 => Self::common(place, &*table.cast::<TableV8>()),
                9 => Self::common(place, &(*table.cast::<TableV9>()).common),
                10 => Self::common(place, &(*table.cast::<TableV10>()).common),
                11 => Self::newest(place, &*table.cast::<TableV11<PropertiesV11>>()),
                _ => Self::newest(place, &*table.cast::<TableV12>()),
            }
        }
    }

    /// # Safety
    /// As [`Self::of`].
    unsafe fn newest<P: Copy>(place: Place, table: &TableV11<P>) -> Result<Self, Error>
    where
        Properties: From<GetProperties<P>>,
    {
        let finalize = table.finalize.ok_or_else(|| place.missing("finalize"))?;
        // SAFETY: the caller's promise.
        let functions = unsafe { Self::common(place, &table.common) }?;
        Ok(Self {
            finalize: Some(finalize),
            ..functions
        })
    }

    /// # Safety
    /// As [`Self::of`].
    unsafe fn common<I: Copy, P, L: Copy, C: Copy, S: Copy, R: Copy>(
        place: Place,
        table: &Table<I, P, L, C, S, R>,
    ) -> Result<Self, Error>
    where
        Init: From<I>,
        Properties: From<GetProperties<P>>,
        Listen: From<L>,
        Connect: From<C>,
        Send: From<S>,
        Receive: From<R>,
    {
        macro_rules! there {
            ($field:ident, $name:literal) => {
                table.$field.ok_or_else(|| place.missing($name))?.into()
            };
        }
        // SAFETY: a table's name ends, and stays with the table.
        let name = unsafe { starting::text(&place, "the table's name", table.name) }?;
        let name = name.ok_or_else(|| place.absurd("the table", "no name; expected one"))?;
        Ok(Self {
            name,
            table: std::ptr::from_ref(table).addr(),
            init: there!(init, "init"),
            devices: there!(devices, "devices"),
            properties: there!(get_properties, "getProperties"),
            listen: there!(listen, "listen"),
            connect: there!(connect, "connect"),
            accept: there!(accept, "accept"),
            register: there!(register, "regMr"),
            register_dma_buf: table.register_dma_buf,
            deregister: there!(deregister, "deregMr"),
            send: there!(send, "isend"),
            receive: there!(receive, "irecv"),
            flush: table.flush,
            test: there!(test, "test"),
            close_send: there!(close_send, "closeSend"),
            close_receive: there!(close_receive, "closeRecv"),
            close_listen: there!(close_listen, "closeListen"),
            finalize: None,
            place,
        })
    }
}

const fn config() -> Config {
    Config {
        traffic_class: NO_TRAFFIC_CLASS,
    }
}
