//! A NIC of a net plug-in.

use std::net::SocketAddr;

use bootstrap::Failure;
use bootstrap::socket::service::Alarm;
use executor::Route;
use net_plugin::{Device, Plugin, Shape};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};

use super::ends::{Question, ReceiveEnd, ReceiverOffer, SendEnd};
use super::in_place::{self, InPlaceIn, InPlaceOut};
use super::messages::{self, MessagesIn, MessagesOut};
use crate::framing::{FramedIn, FramedOut};
use crate::nic::{Incoming, Nic, Outgoing, Properties};
use crate::tcp::connect::words;

/// A NIC of a plug-in.
pub(crate) struct PluginNic {
    plugin: Plugin,
    device: u32,
    /// Publishes handles, and asks for those of others.
    alarm: Alarm,
    checks: bool,
}

impl PluginNic {
    /// All NICs of a plug-in. `checks` says whether slots that are copied carry checksums.
    pub(crate) fn all(plugin: &Plugin, alarm: &Alarm, checks: bool) -> Vec<Box<dyn Nic>> {
        let nic = |device| -> Box<dyn Nic> {
            Box::new(Self {
                plugin: plugin.clone(),
                device,
                alarm: alarm.clone(),
                checks,
            })
        };
        (0..plugin.devices().len() as u32).map(nic).collect()
    }

    fn device(&self) -> &Device {
        &self.plugin.devices()[self.device as usize]
    }

    fn ask(&self, route: &Route, shape: Shape) -> SendEnd {
        SendEnd::ask(Question {
            plugin: self.plugin.clone(),
            device: self.device,
            alarm: self.alarm.clone(),
            ticket: self.alarm.ask(route.to, &name(route)),
            shape,
        })
    }
}

impl Nic for PluginNic {
    fn properties(&self) -> Properties {
        Properties {
            reaches_devices: self.device().takes_device_memory(),
            inline_progress: false,
            polled: true,
            closes_late: true,
        }
    }

    fn mention(&self) -> String {
        format!(" over {}", self.device().name)
    }

    fn connect(
        &self,
        route: &Route,
        _to: SocketAddr,
        slots: SlotsOut,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        Ok(match slots {
            SlotsOut::Copied(slots) => {
                let end = self.ask(route, messages::shape(slots.most_bytes(), route.from));
                Box::new(FramedOut::new(MessagesOut::new(end), slots, self.checks))
            }
            SlotsOut::InPlace(slots) => {
                let end = self.ask(route, in_place::shape(slots.memory(), route.from));
                Box::new(InPlaceOut::new(end, slots))
            }
        })
    }

    fn receive(&self, route: &Route, slots: SlotsIn) -> Result<Box<dyn Incoming>, String> {
        let listening = self.plugin.listen(self.device);
        let (listening, handle) =
            listening.map_err(|error| format!("{} cannot be made: {error}", words(route)))?;
        let in_place = matches!(slots, SlotsIn::InPlace(_));
        let incoming: Box<dyn Incoming> = match slots {
            SlotsIn::Copied(slots) => {
                let shape = messages::shape(slots.most_bytes(), route.from);
                let end = ReceiveEnd::listen(listening, shape);
                Box::new(FramedIn::new(MessagesIn::new(end), slots))
            }
            SlotsIn::InPlace(slots) => {
                let shape = in_place::shape(slots.memory(), route.from);
                let end = ReceiveEnd::listen(listening, shape);
                Box::new(InPlaceIn::new(end, slots, self.device().force_flush))
            }
        };
        let offered = ReceiverOffer { handle, in_place };
        self.alarm.publish(&name(route), offered.bytes());
        Ok(incoming)
    }
}

/// The name under which the receiver of a route publishes its handle.
fn name(route: &Route) -> String {
    let Route {
        from,
        to,
        channel,
        port,
        protocol,
    } = route;
    format!("net plug-in {from} {to} {channel} {port} {protocol}")
}
