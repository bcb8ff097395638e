//! Failures of GPUs: what ranks say, and what they leave alone.

use std::ptr::null_mut;

use cudarc::driver::sys;
use toporing::{Comm, Options};

use super::{Rank, adds, inside, said};

/// Access that the driver grants and that is wrong is told once.
#[test]
fn a_fallback_is_told() {
    let test = "failed::a_fallback_is_told";
    match said(test, "dgx-h100", &["stray 1 stores"], &[]) {
        None => Rank::all(&[0, 1], adds),
        Some(said) => {
            let words = "topo: fallback: SHM instead of P2P to rank 1: the driver grants access";
            assert_eq!(said.matches(words).count(), 1, "{said}");
        }
    }
}

/// The second GPU gets no kernel, and that of the first does not end: neither its memory nor the
/// GPU is used again.
#[test]
fn half_of_a_launch_on_urgent_streams() {
    let test = "failed::half_of_a_launch_on_urgent_streams";
    let lines = ["fail cuLaunchKernelEx 4 1", "fault 0 2 hang"];
    if !inside(test, "dgx-h100", &lines, &["call 4 fails", "leak"]) {
        return;
    }
    Rank::all(&[0, 1], |own| {
        let (mut stream, flags) = (null_mut(), 1);
        // SAFETY: the context is current; the driver writes a handle.
        unsafe { sys::cuStreamCreateWithPriority(&raw mut stream, flags, -1) }
            .result()
            .unwrap();
        let failed = own.sum_on(own.input, 100, stream.expose_provenance() as u64);
        assert!(failed.unwrap_err().to_string().contains("on GPU 1"));
        let id = Comm::new_id().unwrap();
        let options = Options {
            gpu: Some(own.device as u32),
            ..Options::default()
        };
        let again = Comm::join(&id, 0, 1, &options).err().unwrap().to_string();
        assert!(
            again.contains("does not end although it was told to"),
            "{again}"
        );
        Ok(())
    });
}
