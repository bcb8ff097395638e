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

impl Nvml for Replayed {
    fn driver(&self) -> Answer<String> {
        self.0.driver.clone()
    }
    fn count(&self) -> Answer<u32> {
        self.0.count.clone()
    }
    fn name(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.name.clone())
    }
    fn brand(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.brand.clone())
    }
    fn uuid(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.uuid.clone())
    }
    fn pci(&self, gpu: u32) -> Answer<PciInfo> {
        self.of(gpu, |device| device.pci.clone())
    }
    fn compute_capability(&self, gpu: u32) -> Answer<i32> {
        self.of(gpu, |device| device.compute_capability.clone())
    }
    fn link_generation(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.link_generation.clone())
    }
    fn max_link_generation(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.max_link_generation.clone())
    }
    fn link_width(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.link_width.clone())
    }
    fn max_link_width(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.max_link_width.clone())
    }
    fn performance_state(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.performance_state.clone())
    }
    fn mig(&self, gpu: u32) -> Answer<MigMode> {
        self.of(gpu, |device| device.mig.clone())
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
    fn c2c_count(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.c2c_count.clone())
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
    fn fabric(&self, gpu: u32) -> Answer<FabricInfo> {
        self.of(gpu, |device| device.fabric.clone())
    }
}
