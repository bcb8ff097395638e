//! The ends of connections of a net plug-in, and how far each is: asked for, connecting, open.

use bootstrap::socket::service::Alarm;
use executor::Route;
use net_plugin::{Connecting, Handle, Listening, Plugin, Receiving, Sending};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};

use super::carry::{self, CarryError};
use super::in_place;
use crate::forwarding::Served;

/// What is to be sent from now on.
pub(super) struct Leaving {
    pub route: Route,
    pub device: u32,
    pub slots: SlotsOut,
    /// The question for the other side's handle.
    pub ticket: u32,
    /// Of another rank of the host, which handed it over.
    pub served: Option<Served>,
}

/// What is sent.
pub(super) struct Sent {
    pub route: Route,
    pub device: u32,
    pub out: Out,
    pub served: Option<Served>,
}

/// What is to be received from now on.
pub(super) struct Coming {
    pub route: Route,
    pub device: u32,
    pub slots: SlotsIn,
    pub listening: Listening,
}

/// How far the sending end of a connection is. What waits in between is taken when it goes on.
pub(super) enum Out {
    Asked(Option<Leaving>),
    Connecting(Option<Leaving>, Connecting),
    Open(Outgoing),
}

/// How far the receiving end is.
pub(super) enum In {
    Listening(Option<Coming>),
    Open(Incoming),
}

/// A sending end that is open.
pub(super) enum Outgoing {
    Copied(carry::Outgoing),
    InPlace(in_place::Outgoing),
}

/// A receiving end that is open.
pub(super) enum Incoming {
    Copied(carry::Incoming),
    InPlace(in_place::Incoming),
}

impl Outgoing {
    fn new(sending: Sending, slots: SlotsOut, checks: bool) -> Self {
        match slots {
            SlotsOut::Copied(slots) => Self::Copied(carry::Outgoing::new(sending, slots, checks)),
            SlotsOut::InPlace(slots) => Self::InPlace(in_place::Outgoing::new(sending, slots)),
        }
    }

    fn go_on(&mut self, ending: bool) -> Result<bool, CarryError> {
        match self {
            Self::Copied(it) => it.go_on(ending),
            Self::InPlace(it) => it.go_on(ending),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Copied(it) => it.is_over(),
            Self::InPlace(it) => it.is_over(),
        }
    }

    pub fn is_busy(&self) -> bool {
        match self {
            Self::Copied(it) => it.is_busy(),
            Self::InPlace(it) => it.is_busy(),
        }
    }
}

impl Incoming {
    fn new(receiving: Receiving, slots: SlotsIn, flushed: bool) -> Self {
        match slots {
            SlotsIn::Copied(slots) => Self::Copied(carry::Incoming::new(receiving, slots)),
            SlotsIn::InPlace(slots) => {
                Self::InPlace(in_place::Incoming::new(receiving, slots, flushed))
            }
        }
    }

    fn go_on(&mut self) -> Result<bool, CarryError> {
        match self {
            Self::Copied(it) => it.go_on(),
            Self::InPlace(it) => it.go_on(),
        }
    }

    pub const fn is_over(&self) -> bool {
        match self {
            Self::Copied(it) => it.is_over(),
            Self::InPlace(it) => it.is_over(),
        }
    }
}

/// What a receiver offers: the handle, and how it takes messages.
pub(super) struct Offered {
    pub handle: Handle,
    pub in_place: bool,
}

impl Offered {
    pub fn bytes(&self) -> Vec<u8> {
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

impl Sent {
    pub fn go_on(
        &mut self,
        plugin: &Plugin,
        alarm: &Alarm,
        ending: bool,
        checks: bool,
    ) -> Result<bool, CarryError> {
        let Some(served) = &mut self.served else {
            return self.out.go_on(plugin, alarm, ending, checks);
        };
        if !served.has_begun() {
            return Ok(false);
        }
        let went = self.out.go_on(plugin, alarm, served.has_ended(), checks)?;
        if went {
            served.ring();
        }
        Ok(went)
    }

    /// Whether it was handed over and everything, the end too, was sent.
    pub fn is_sent(&mut self) -> bool {
        let ended = self.served.as_ref().is_some_and(Served::has_ended);
        ended && self.out.is_drained()
    }
}

impl Out {
    fn go_on(
        &mut self,
        plugin: &Plugin,
        alarm: &Alarm,
        ending: bool,
        checks: bool,
    ) -> Result<bool, CarryError> {
        match self {
            Self::Asked(leaving) => {
                let Some(it) = leaving.take() else {
                    return Ok(false);
                };
                let Some(answer) = alarm.answer(it.ticket) else {
                    *leaving = Some(it);
                    return Ok(false);
                };
                let offered = Offered::of(&answer).ok_or(CarryError::Handle)?;
                if offered.in_place != matches!(it.slots, SlotsOut::InPlace(_)) {
                    return Err(CarryError::Form);
                }
                let connecting = plugin.connect(it.device, &offered.handle)?;
                *self = Self::Connecting(Some(it), connecting);
                Ok(true)
            }
            Self::Connecting(leaving, connecting) => {
                let Some(it) = leaving.as_ref() else {
                    return Ok(false);
                };
                let shape = match &it.slots {
                    SlotsOut::Copied(slots) => carry::shape(slots.most_bytes(), it.route.from),
                    SlotsOut::InPlace(slots) => in_place::shape(slots.memory(), it.route.from),
                };
                let Some(sending) = connecting.go_on(shape)? else {
                    return Ok(false);
                };
                if let Some(it) = leaving.take() {
                    *self = Self::Open(Outgoing::new(sending, it.slots, checks));
                }
                Ok(true)
            }
            Self::Open(outgoing) => outgoing.go_on(ending),
        }
    }

    /// Whether nothing is left to be sent.
    pub fn is_drained(&mut self) -> bool {
        match self {
            // What nobody connected to has nothing to end.
            Self::Asked(leaving) | Self::Connecting(leaving, _) => {
                leaving.as_mut().is_none_or(|it| match &mut it.slots {
                    SlotsOut::Copied(slots) => !matches!(slots.next(), Ok(Some(_))),
                    SlotsOut::InPlace(slots) => !matches!(slots.next(), Ok(Some(_))),
                })
            }
            Self::Open(outgoing) => outgoing.is_over(),
        }
    }
}

impl In {
    pub fn go_on(&mut self, plugin: &Plugin) -> Result<bool, CarryError> {
        match self {
            Self::Listening(coming) => {
                let Some(it) = coming.as_mut() else {
                    return Ok(false);
                };
                let shape = match &it.slots {
                    SlotsIn::Copied(slots) => carry::shape(slots.most_bytes(), it.route.from),
                    SlotsIn::InPlace(slots) => in_place::shape(slots.memory(), it.route.from),
                };
                let Some(receiving) = it.listening.accept(shape)? else {
                    return Ok(false);
                };
                // The listening end is closed here, as it has served.
                if let Some(Coming { slots, device, .. }) = coming.take() {
                    let flushed = plugin.devices()[device as usize].force_flush;
                    *self = Self::Open(Incoming::new(receiving, slots, flushed));
                }
                Ok(true)
            }
            Self::Open(incoming) => incoming.go_on(),
        }
    }
}
