//! Primary contexts, the current context of a thread, peer access.

use cudarc::driver::sys::CUresult;

use crate::answer::{Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::{current, driver};
use crate::space;

entry_points! {
    /// Retains the primary context of a device.
    fn cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) {
        let driver = driver()?;
        let (device, _) = driver.device(device)?;
        driver.sound(device)?;
        context.put(driver.retain(device), Section::PrimaryContext)
    }

    /// Releases the primary context of a device.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let driver = driver()?;
        driver.release(driver.device(device)?.0)
    }

    /// Makes a context current on this thread.
    fn cuCtxSetCurrent(context: u64) {
        let driver = driver()?;
        let device = match context {
            0 => None,
            context => Some(driver.context(context)?),
        };
        if let Some(device) = device {
            driver.pass(device);
        }
        driver.enter(device);
        Ok(())
    }

    /// The current context of this thread.
    fn cuCtxGetCurrent(context: Out<u64>) {
        context.put(driver()?.entered(), Section::Context)
    }

    /// The device of the current context.
    fn cuCtxGetDevice(device: Out<i32>) {
        device.put(current()?.1 as i32, Section::Context)
    }

    /// Waits for all work of the current context.
    fn cuCtxSynchronize() {
        let (driver, device) = current()?;
        driver.not_while_capturing()?;
        driver.wait_for_all(device);
        driver.waited(device)
    }

    /// Lets the current context access memory of another context.
    fn cuCtxEnablePeerAccess(peer: u64, flags: u32) {
        let (driver, device) = current()?;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        ensure(flags == 0, invalid, Section::Peer, "flags must be 0")?;
        let peer = driver.context(peer)?;
        let context = CUresult::CUDA_ERROR_INVALID_CONTEXT;
        ensure(peer != device, context, Section::Peer, "the peer is the current context")?;
        ensure(
            driver.machine.reaches(device, peer),
            CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
            Section::Peer,
            "the devices cannot access each other's memory",
        )?;
        match driver.space().peers.insert((device, peer)) {
            true => Ok(()),
            // Programs ask for it again on purpose, so this is no broken rule.
            false => refuse(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, Section::Peer, ""),
        }
    }

    /// Ends access to memory of another context.
    fn cuCtxDisablePeerAccess(peer: u64) {
        let (driver, device) = current()?;
        let peer = driver.context(peer)?;
        let removed = driver.space().peers.remove(&(device, peer));
        space::changed();
        ensure(
            removed,
            CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
            Section::Peer,
            "access to the peer is not enabled",
        )
    }
}
