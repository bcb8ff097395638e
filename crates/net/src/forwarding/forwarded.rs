//! Another rank's FIFO at the thread that carries it.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;

use shared_memory::Bell;

/// What belongs to a FIFO of another rank besides its slots.
pub(crate) struct Forwarded {
    control: Arc<TcpStream>,
    sender: Bell,
    carrier: Bell,
    /// Whether the sender wakes whoever sleeps. Before that nothing is carried.
    begun: bool,
    /// Whether the sender is done, or gone.
    ended: bool,
}

impl Forwarded {
    /// With the connection to the sender, which does not block, its bell, and the bell on which sleep is announced.
    pub fn new(control: TcpStream, sender: Bell, carrier: Bell) -> Self {
        Self {
            control: Arc::new(control),
            sender,
            carrier,
            begun: false,
            ended: false,
        }
    }

    /// Whether it may be carried; looks for the sender's word if that has not come.
    pub fn has_begun(&mut self) -> bool {
        if !self.begun {
            self.look();
        }
        self.begun
    }

    /// Whether nothing more will be posted.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Tells the sender that slots were given back.
    pub fn ring(&self) {
        self.sender.ring();
    }

    /// The bell on which sleep is to be announced; none if the sender does not ring it yet.
    pub fn bell(&self) -> Option<&Bell> {
        self.begun.then_some(&self.carrier)
    }

    /// What becomes readable when the sender has something, or ends.
    pub fn control(&self) -> Arc<TcpStream> {
        Arc::clone(&self.control)
    }

    /// Takes what the sender said.
    pub fn look(&mut self) {
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
