//! The functions that connections call.

use std::ffi::c_int;
use std::ptr::null_mut;

use super::{Connect, Functions, Listen, Pointer, Receive, Send, config};
use crate::abi::{Code, POINTER_CUDA};
use crate::error::Error;

impl Functions {
    /// Calls a function that stores its result at the pointer it gets.
    fn result(
        &self,
        function: &'static str,
        call: impl FnOnce(*mut Pointer) -> Code,
    ) -> Result<Pointer, Error> {
        let mut result = null_mut();
        let code = call(&mut result);
        self.place.check(function, code)?;
        Ok(result)
    }

    /// Listens on a device, and fills in the handle for the connecting rank.
    ///
    /// # Safety
    /// The handle has [`crate::abi::HANDLE_BYTES`] bytes.
    pub unsafe fn listen(
        &self,
        context: usize,
        device: u32,
        handle: Pointer,
    ) -> Result<Pointer, Error> {
        let device = device as c_int;
        // SAFETY: the handle is large enough, and the result has a place.
        let object = self.result("listen", |to| unsafe {
            match self.listen {
                Listen::Plain(listen) => listen(device, handle, to),
                Listen::Context(listen) => listen(context as Pointer, device, handle, to),
            }
        })?;
        if object.is_null() {
            return Err(self.place.absurd("listen", "no object; expected one"));
        }
        Ok(object)
    }

    /// Polls a connection that is being made. Returns null until it is open.
    ///
    /// # Safety
    /// The handle is another rank's, at the same address in every call for one connection.
    pub unsafe fn connect(
        &self,
        context: usize,
        device: u32,
        handle: Pointer,
    ) -> Result<Pointer, Error> {
        let (device, mut offload) = (device as c_int, null_mut());
        let offload: *mut Pointer = &mut offload;
        // SAFETY: all results have their places; no offload is asked for.
        self.result("connect", |to| unsafe {
            match self.connect {
                Connect::Plain(connect) => connect(device, handle, to, offload),
                Connect::Configured(connect) => connect(device, &mut config(), handle, to, offload),
                Connect::Context(connect) => {
                    connect(context as Pointer, device, handle, to, offload)
                }
            }
        })
    }

    /// Polls a listening object. Returns null until a sender has connected.
    ///
    /// # Safety
    /// The object came from [`Self::listen`] and is not closed.
    pub unsafe fn accept(&self, listening: Pointer) -> Result<Pointer, Error> {
        let mut offload = null_mut();
        // SAFETY: all results have their places; no offload is asked for.
        self.result("accept", |to| unsafe {
            (self.accept)(listening, to, &mut offload)
        })
    }

    /// Registers memory of a kind.
    ///
    /// # Safety
    /// The communicator is open, and the memory is of that kind and stays until it is deregistered.
    pub unsafe fn register(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        kind: c_int,
    ) -> Result<Pointer, Error> {
        // SAFETY: the caller's promise, and the result has its place.
        self.result("regMr", |to| unsafe {
            (self.register)(communicator, memory.cast(), bytes, kind, to)
        })
    }

    /// Registers memory of a GPU that begins at an offset of a DMA-BUF.
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
        let register = self.register_dma_buf;
        let register = register.ok_or_else(|| self.place.missing("regMrDmaBuf"))?;
        let memory = memory.cast();
        // SAFETY: the caller's promise, and the result has its place.
        self.result("regMrDmaBuf", |to| unsafe {
            register(communicator, memory, bytes, POINTER_CUDA, offset, file, to)
        })
    }

    /// Deregisters memory.
    ///
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

    /// Posts a send. Returns its request, or null if it is to be called again.
    ///
    /// # Safety
    /// The memory is registered, fits the device, and is not touched until the request is complete.
    pub unsafe fn send(
        &self,
        communicator: Pointer,
        memory: *mut u8,
        bytes: usize,
        tag: c_int,
        registration: Pointer,
    ) -> Result<Pointer, Error> {
        let (object, memory, handle): (_, Pointer, _) = (communicator, memory.cast(), registration);
        // SAFETY: the caller's promise. A length fits into an int, because devices of v8 take no
        // more.
        self.result("isend", |to| unsafe {
            match self.send {
                Send::Short(send) => send(object, memory, bytes as c_int, tag, handle, to),
                Send::Plain(send) => send(object, memory, bytes, tag, handle, to),
                Send::Profiled(send) => send(object, memory, bytes, tag, handle, null_mut(), to),
            }
        })
    }

    /// Posts a receive of one message. Returns its request, or null if it is to be called again.
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
        let (mut memory, mut handle, mut tag): (Pointer, _, _) = (memory.cast(), registration, tag);
        let (memory, handle, tag): (*mut Pointer, *mut Pointer, *mut c_int) =
            (&mut memory, &mut handle, &mut tag);
        let (mut short, mut long, mut parent) = (bytes as c_int, bytes, null_mut());
        let object = communicator;
        // SAFETY: the caller's promise; the arrays have one element each, as the count says.
        self.result("irecv", |to| unsafe {
            match self.receive {
                Receive::Short(receive) => receive(object, 1, memory, &mut short, tag, handle, to),
                Receive::Plain(receive) => receive(object, 1, memory, &mut long, tag, handle, to),
                Receive::Profiled(receive) => {
                    receive(object, 1, memory, &mut long, tag, handle, &mut parent, to)
                }
            }
        })
    }

    /// Makes received data visible to a GPU. Returns a request, or null if nothing is needed.
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
        let flush = self.flush.ok_or_else(|| self.place.missing("iflush"))?;
        let (mut memory, mut bytes, mut handle) = (memory.cast(), bytes as c_int, registration);
        // SAFETY: the caller's promise; the arrays have one element each, as the count says.
        self.result("iflush", |to| unsafe {
            flush(communicator, 1, &mut memory, &mut bytes, &mut handle, to)
        })
    }

    /// Tests a request. Returns the length of its message in bytes if it is complete, which ends
    /// it.
    ///
    /// # Safety
    /// The request is in progress.
    pub unsafe fn test(&self, request: Pointer) -> Result<Option<c_int>, Error> {
        let (mut done, mut bytes) = (0, 0);
        // SAFETY: the results have their places; one message has one length.
        let code = unsafe { (self.test)(request, &mut done, &mut bytes) };
        self.place.check("test", code)?;
        Ok((done != 0).then_some(bytes))
    }

    /// # Safety
    /// The object came from [`Self::connect`] and is used no more.
    pub unsafe fn close_send(&self, communicator: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_send)(communicator) };
        self.place.check("closeSend", code)
    }

    /// # Safety
    /// The object came from [`Self::accept`] and is used no more.
    pub unsafe fn close_receive(&self, communicator: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_receive)(communicator) };
        self.place.check("closeRecv", code)
    }

    /// # Safety
    /// The object came from [`Self::listen`] and is used no more.
    pub unsafe fn close_listen(&self, listening: Pointer) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.close_listen)(listening) };
        self.place.check("closeListen", code)
    }
}
