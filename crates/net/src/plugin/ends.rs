//! The ends of connections of a net plug-in, from the time when they are asked for.

use bootstrap::socket::service::Alarm;
use net_plugin::{ConnectAttempt, Handle, ListenComm, Plugin, ReceiveComm, SendComm, Shape};

use crate::nic::ConnectionError;

/// The offer of a receiver: its handle, and how it takes messages.
pub(super) struct ReceiverOffer {
    pub handle: Handle,
    pub in_place: bool,
}

impl ReceiverOffer {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.handle.bytes().to_vec();
        bytes.push(u8::from(self.in_place));
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (in_place, handle) = bytes.split_last()?;
        Some(Self {
            handle: Handle::of(handle)?,
            in_place: *in_place != 0,
        })
    }
}

/// The question for a receiver's handle.
pub(super) struct Question {
    pub plugin: Plugin,
    pub device: u32,
    pub alarm: Alarm,
    /// Its number.
    pub ticket: u32,
    pub shape: Shape,
}

impl Question {
    fn answer(&self) -> Result<Option<ConnectAttempt>, ConnectionError> {
        let Some(answer) = self.alarm.answer(self.ticket) else {
            return Ok(None);
        };
        let offered = ReceiverOffer::of(&answer).ok_or(ConnectionError::Handle)?;
        if offered.in_place != self.shape.memory.is_some() {
            return Err(ConnectionError::Form);
        }
        Ok(Some(self.plugin.connect(self.device, &offered.handle)?))
    }
}

enum SendState {
    Asked(Question),
    Connecting(ConnectAttempt, Shape),
    Open(SendComm),
}

/// A sending end.
pub struct SendEnd(SendState);

impl SendEnd {
    pub(super) const fn ask(question: Question) -> Self {
        Self(SendState::Asked(question))
    }

    /// One that is open.
    pub const fn of(sending: SendComm) -> Self {
        Self(SendState::Open(sending))
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.0, SendState::Open(_))
    }

    /// Messages in flight.
    pub(super) fn in_flight(&self) -> usize {
        match &self.0 {
            SendState::Open(sending) => sending.in_flight(),
            SendState::Asked(_) | SendState::Connecting(..) => 0,
        }
    }

    /// Whether it makes progress when it is polled.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_open() || self.in_flight() > 0
    }

    /// Connects it if that is possible now. Returns `None` while it is not open.
    pub(super) fn open(&mut self) -> Result<Option<&mut SendComm>, ConnectionError> {
        if let SendState::Asked(question) = &self.0
            && let Some(connecting) = question.answer()?
        {
            self.0 = SendState::Connecting(connecting, question.shape.clone());
        }
        if let SendState::Connecting(connecting, shape) = &mut self.0
            && let Some(sending) = connecting.poll(shape.clone())?
        {
            self.0 = SendState::Open(sending);
        }
        Ok(match &mut self.0 {
            SendState::Open(sending) => Some(sending),
            SendState::Asked(_) | SendState::Connecting(..) => None,
        })
    }
}

enum ReceiveState {
    Listening(ListenComm, Shape),
    Open(ReceiveComm),
}

/// A receiving end.
pub struct ReceiveEnd(ReceiveState);

impl ReceiveEnd {
    pub(super) const fn listen(listening: ListenComm, shape: Shape) -> Self {
        Self(ReceiveState::Listening(listening, shape))
    }

    /// One that is open.
    pub const fn of(receiving: ReceiveComm) -> Self {
        Self(ReceiveState::Open(receiving))
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.0, ReceiveState::Open(_))
    }

    /// Accepts the sender if it has connected. Returns `None` while it is not open.
    pub(super) fn open(&mut self) -> Result<Option<&mut ReceiveComm>, ConnectionError> {
        if let ReceiveState::Listening(listening, shape) = &mut self.0
            && let Some(receiving) = listening.accept(shape.clone())?
        {
            self.0 = ReceiveState::Open(receiving);
        }
        Ok(match &mut self.0 {
            ReceiveState::Open(receiving) => Some(receiving),
            ReceiveState::Listening(..) => None,
        })
    }

    /// Gives the memory of the oldest message back.
    pub(super) fn give_back(&mut self) {
        if let ReceiveState::Open(receiving) = &mut self.0 {
            receiving.give_back();
        }
    }
}
