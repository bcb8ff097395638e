//! A driver that gives recorded answers.

use probe::nvml::{
    Answer, Answers, C2cLink, DeviceAnswers, FabricInfo, MigMode, NvlinkAnswers, Nvml, PciInfo,
    PeerStatus,
};

pub struct Replayed(pub Answers);

impl Replayed {
    fn of<T: Clone>(&self, gpu: u32, field: impl Fn(&DeviceAnswers) -> Answer<T>) -> Answer<T> {
        self.0
            .devices
            .get(gpu as usize)
            .map_or_else(|| Answer::failed("InvalidArg"), field)
    }

    fn of_link<T: Clone>(
        &self,
        gpu: u32,
        link: u32,
        field: impl Fn(&NvlinkAnswers) -> Answer<T>,
    ) -> Answer<T> {
        self.of(gpu, |device| {
            let link = device.nvlinks.get(link as usize);
            link.map_or_else(|| Answer::failed("InvalidArg"), &field)
        })
    }
}

/// What is recorded of a GPU, by name.
macro_rules! of_device {
    ($($name:ident: $type:ty;)*) => {$(
        fn $name(&self, gpu: u32) -> Answer<$type> {
            self.of(gpu, |device| device.$name.clone())
        }
    )*};
}

impl Nvml for Replayed {
    fn driver(&self) -> Answer<String> {
        self.0.driver.clone()
    }
    fn count(&self) -> Answer<u32> {
        self.0.count.clone()
    }
    of_device! {
        name: String;
        brand: String;
        uuid: String;
        pci: PciInfo;
        compute_capability: i32;
        link_generation: u32;
        max_link_generation: u32;
        link_width: u32;
        max_link_width: u32;
        performance_state: u32;
        mig: MigMode;
        c2c_count: u32;
        fabric: FabricInfo;
    }

    fn nvlink_p2p(&self, gpu: u32, link: u32) -> Answer<bool> {
        self.of_link(gpu, link, |link| link.p2p.clone())
    }
    fn nvlink_up(&self, gpu: u32, link: u32, _by_field: bool) -> Answer<bool> {
        self.of_link(gpu, link, |link| link.up.clone())
    }
    fn nvlink_remote(&self, gpu: u32, link: u32) -> Answer<String> {
        self.of_link(gpu, link, |link| link.remote.clone())
    }
    fn c2c(&self, gpu: u32, link: u32) -> C2cLink {
        let known = self.0.devices.get(gpu as usize);
        let known = known.and_then(|device| device.c2c.get(link as usize));
        known.cloned().unwrap_or_else(|| C2cLink {
            up: Answer::failed("InvalidArg"),
            bandwidth: Answer::failed("InvalidArg"),
        })
    }
    fn peer(&self, gpu: u32, other: u32) -> PeerStatus {
        let known = self.0.devices.get(gpu as usize);
        let known = known.and_then(|device| device.peers.get(other as usize));
        known.cloned().unwrap_or_else(|| PeerStatus {
            read: Answer::failed("InvalidArg"),
            write: Answer::failed("InvalidArg"),
        })
    }
}
