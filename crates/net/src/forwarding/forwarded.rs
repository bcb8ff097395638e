//! A FIFO that another rank handed over, at the proxy thread that forwards it.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;

use shared_memory::Bell;

/// The parts of a forwarded FIFO besides its slots.
pub(crate) struct ForwardedFifo {
    control: Arc<TcpStream>,
    sender: Bell,
    proxy: Bell,
    /// Whether the sender wakes a proxy that sleeps. Nothing is forwarded before that.
    begun: bool,
    /// Whether the sender is done, or gone.
    ended: bool,
}

impl ForwardedFifo {
    /// A FIFO with its non-blocking connection to the sender, the sender's bell, and the bell on
    /// which the proxy announces its sleep.
    pub(crate) fn new(control: TcpStream, sender: Bell, proxy: Bell) -> Self {
        Self {
            control: Arc::new(control),
            sender,
            proxy,
            begun: false,
            ended: false,
        }
    }

    /// Whether forwarding may begin; reads the control connection if it had not begun.
    pub(crate) fn has_begun(&mut self) -> bool {
        if !self.begun {
            self.look();
        }
        self.begun
    }

    /// Whether nothing more will be posted.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Tells the sender that slots were released.
    pub(crate) fn ring(&self) {
        self.sender.ring();
    }

    /// The bell on which sleep is announced; `None` while the sender does not ring it yet.
    pub(crate) fn bell(&self) -> Option<&Bell> {
        self.begun.then_some(&self.proxy)
    }

    /// Becomes readable when the sender posted something, or ends.
    pub(crate) fn control(&self) -> Arc<TcpStream> {
        Arc::clone(&self.control)
    }

    /// Reads what the sender said.
    pub(crate) fn look(&mut self) {
        let mut bytes = [0; 512];
        loop {
            match (&*self.control).read(&mut bytes) {
                Ok(0) => {
                    self.ended = true;
                    return;
                }
                Ok(_) => self.begun = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended |= error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}
