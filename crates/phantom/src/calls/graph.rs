//! Graphs.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::{Driver, Graph, current, driver};
use crate::stream::Work;
use crate::table::Found;

const SECTION: Section = Section::Graph;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn executable(driver: &Driver, handle: u64) -> Answer<Arc<Graph>> {
    match driver.objects().executables.find(handle) {
        Found::Live(found) => Ok(Arc::clone(found)),
        Found::Dead => refuse(INVALID, SECTION, "the executable graph was destroyed"),
        Found::Unknown => refuse(INVALID, SECTION, "the handle is no executable graph"),
    }
}

entry_points! {
    /// Makes a graph executable.
    fn cuGraphInstantiateWithFlags(result: Out<u64>, graph: u64, flags: u64) {
        let (driver, device) = current()?;
        ensure(flags == 0, INVALID, SECTION, "the flags are not known of a phantom")?;
        let mut objects = driver.objects();
        let (nodes, bytes) = match objects.graphs.find(graph) {
            Found::Live(found) => (found.nodes.clone(), found.bytes),
            Found::Dead => return refuse(INVALID, SECTION, "the graph was destroyed"),
            Found::Unknown => return refuse(INVALID, SECTION, "the handle is no graph"),
        };
        let made = Graph { device, nodes, bytes, last: Mutex::default() };
        let number = objects.executables.insert(Arc::new(made));
        result.put(number, SECTION)
    }

    /// Prepares a launch.
    fn cuGraphUpload(graph: u64, stream: u64) {
        let (driver, device) = current()?;
        executable(driver, graph)?;
        let stream = driver.stream(device, stream)?;
        let error = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        ensure(!stream.captures(), error, SECTION, "the stream captures")
    }

    /// Launches an executable graph, after its earlier launches.
    fn cuGraphLaunch(graph: u64, stream: u64) {
        let (driver, device) = current()?;
        let graph = executable(driver, graph)?;
        let stream = driver.stream(device, stream)?;
        let error = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        ensure(!stream.captures(), error, SECTION, "the stream captures")?;
        let mut last = graph.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.clone();
        let own = Arc::clone(&graph);
        let work: Work = Arc::new(move || {
            if let Some((stream, number)) = &before {
                stream.wait_for(*number);
            }
            own.nodes.iter().for_each(|node| node());
        });
        let number = driver.submit(&stream, work, true, graph.bytes)?;
        *last = Some((stream, number));
        Ok(())
    }

    /// Destroys an executable graph.
    fn cuGraphExecDestroy(graph: u64) {
        let driver = driver()?;
        executable(driver, graph)?;
        driver.objects().executables.remove(graph);
        Ok(())
    }

    /// Destroys a graph.
    fn cuGraphDestroy(graph: u64) {
        match driver()?.objects().graphs.remove(graph) {
            Found::Live(_) => Ok(()),
            Found::Dead => refuse(INVALID, SECTION, "the graph was destroyed before"),
            Found::Unknown => refuse(INVALID, SECTION, "the handle is no graph"),
        }
    }
}
