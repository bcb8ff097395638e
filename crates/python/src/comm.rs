//! Communicators.

use std::collections::HashSet;
use std::iter::once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use toporing::communicator::{
    self, Code, Fault, Launch, Options, RunChannels, Transfer, UniqueId, interrupt,
};

use crate::error::{CommError, exception};
use crate::held::HeldComm;
use crate::kept::{Keep, Kept};
use crate::notifier::Notifier;
use crate::numbers::{self, Kind, Numbers, TransferNumbers, launch};
use crate::signals;
use crate::work::Work;

/// What makes a module whose defects become exceptions.
const BUILD: &str = "install the wheel that `cargo xtask dist` makes";

/// Most kinds of calls that are remembered as connected.
const MOST_SEEN: usize = 4096;

/// Makes a unique id. A rank of this process must join with it.
#[pyfunction]
#[pyo3(signature = (interfaces=None))]
pub fn unique_id(interfaces: Option<String>) -> PyResult<String> {
    let options = Options {
        interfaces,
        ..Options::default()
    };
    let id = options.new_id().map_err(exception)?;
    Ok(id.to_string())
}

/// Frees an id with which this process does not join.
#[pyfunction]
pub fn free_unique_id(id: &str) -> PyResult<()> {
    let id = id.parse::<UniqueId>();
    let id = id.map_err(|error| PyValueError::new_err(error.to_string()))?;
    communicator::free_id(&id).map(|_| ()).map_err(exception)
}

/// Says where the next call of this thread is, for errors in debug mode.
#[pyfunction]
pub fn call_site(file: &str, line: u32) {
    communicator::call_site::set(file, line);
}

/// The state that a communicator's calls share.
struct Inner {
    /// The communicator.
    comm: Arc<HeldComm>,
    /// Calls functions of futures.
    notifier: Arc<Notifier>,
    /// Calls that ran before, so that all ranks are connected for them.
    seen: Mutex<HashSet<Kind>>,
    /// The owners of memory which started work uses.
    kept: Arc<Kept>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls until no other thread is in a call.
fn when_free<R>(mut call: impl FnMut() -> Result<R, Fault>, wait: impl Fn()) -> Result<R, Fault> {
    loop {
        match call() {
            Err(fault) if fault.code == Code::Busy => wait(),
            done => return done,
        }
    }
}

impl Inner {
    /// Calls the communicator when no other thread is in a call.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl Fn(&communicator::Comm) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        let called =
            py.detach(move || when_free(|| call(&self.comm), || self.comm.wait_for_callers()));
        called.map_err(exception)
    }

    /// Whether all these calls ran before, so that running them needs no new connections. From now
    /// on they have run.
    fn are_seen(&self, kinds: impl Iterator<Item = Kind>) -> bool {
        let mut seen = lock(&self.seen);
        let mut all = true;
        for kind in kinds {
            if seen.len() >= MOST_SEEN {
                seen.clear();
            }
            all &= !seen.insert(kind);
        }
        all
    }

    fn is_idle(&self) -> bool {
        self.comm.shared.queue().is_idle()
    }

    /// Starts something, with the interpreter. While another thread is in a call, it waits without
    /// the interpreter, which that thread may need to end the call.
    fn start(
        &self,
        py: Python<'_>,
        start: impl FnMut() -> Result<u64, Fault>,
    ) -> Result<u64, Fault> {
        when_free(start, || py.detach(|| self.comm.wait_for_callers()))
    }

    /// Runs something in this thread, without the interpreter; an exception of a signal handler
    /// ends it.
    fn run_here(&self, body: impl FnMut() -> Result<(), Fault>) -> PyResult<()> {
        let body = || when_free(body, || self.comm.wait_for_callers());
        let done = interrupt::while_asking(signals::ask, body);
        match (signals::take(), done) {
            (Some(raised), _) => {
                let _ = self.comm.abort();
                Err(raised)
            }
            (None, Err(fault)) => Err(exception(fault)),
            (None, Ok(())) => Ok(()),
        }
    }
}

/// One rank's membership in a group of ranks.
#[pyclass(frozen, module = "toporing._native")]
pub struct Comm {
    inner: Mutex<Option<Arc<Inner>>>,
    #[pyo3(get)]
    rank: u32,
    #[pyo3(get)]
    ranks: u32,
}

impl Comm {
    fn open(&self) -> PyResult<Arc<Inner>> {
        let inner = lock(&self.inner).clone();
        inner.ok_or_else(|| CommError::new_err("the communicator was closed; make a new one"))
    }

    /// Starts collectives in order; `keep` owns their memory.
    fn start_all(
        py: Python<'_>,
        inner: &Arc<Inner>,
        launches: &[Launch],
        keep: Option<Py<PyAny>>,
    ) -> PyResult<Work> {
        inner.kept.free_done();
        let numbers = launches
            .iter()
            .map(|it| inner.start(py, || inner.comm.start(*it)));
        Self::kept(inner, numbers, (keep, Arc::default()))
    }

    /// The work that is started. Also if a start fails, the memory of those before it is kept.
    fn kept(
        inner: &Arc<Inner>,
        started: impl Iterator<Item = Result<u64, Fault>>,
        keep: Keep,
    ) -> PyResult<Work> {
        let (mut numbers, mut failed) = (Vec::new(), None);
        for number in started {
            match number {
                Ok(number) => numbers.push(number),
                Err(fault) => {
                    failed = Some(fault);
                    break;
                }
            }
        }
        let work = Work::new(&inner.comm, &inner.notifier, &inner.kept, numbers).stores(&keep.1);
        inner.kept.hold(Arc::clone(&work.outcome), keep);
        match failed {
            Some(fault) => Err(exception(fault)),
            None => Ok(work),
        }
    }

    /// Starts transfers, one by one or as a group.
    fn start_transfer_numbers(
        &self,
        py: Python<'_>,
        transfers: Vec<TransferNumbers>,
        owner: Option<Py<PyAny>>,
        grouped: bool,
    ) -> PyResult<Work> {
        let inner = self.open()?;
        let (transfers, source) = numbers::transfers(transfers)?;
        Self::start_read(py, &inner, &transfers, (owner, source), grouped)
    }

    fn start_read(
        py: Python<'_>,
        inner: &Arc<Inner>,
        transfers: &[Transfer],
        keep: Keep,
        grouped: bool,
    ) -> PyResult<Work> {
        inner.kept.free_done();
        match grouped {
            true => {
                let start = || inner.comm.start_group(transfers.to_vec());
                Self::kept(inner, once(inner.start(py, start)), keep)
            }
            false => {
                let numbers = transfers
                    .iter()
                    .map(|it| inner.start(py, || inner.comm.start_transfer(*it)));
                Self::kept(inner, numbers, keep)
            }
        }
    }
}

#[pymethods]
impl Comm {
    /// Joins the other ranks. Times are in seconds. `plan`: its name and its text, and whether it
    /// must be of as many ranks; otherwise only its settings are taken where it is not.
    #[new]
    #[pyo3(signature = (id, rank, ranks, *, timeout=600.0, join_timeout=60.0, interfaces=None, host_id=None, debug=false, plan=None, gpu=None, blocks=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        id: &str,
        rank: u32,
        ranks: u32,
        timeout: f64,
        join_timeout: f64,
        interfaces: Option<String>,
        host_id: Option<String>,
        debug: bool,
        plan: Option<(String, String, bool)>,
        gpu: Option<u32>,
        blocks: Option<u32>,
    ) -> PyResult<Self> {
        let (mut run, mut settings) = (None, Vec::new());
        if let Some((name, text, must_fit)) = plan {
            let plan = RunChannels::from_json(&name, &text);
            let plan = plan.map_err(|why| PyValueError::new_err(why.to_string()))?;
            match must_fit || plan.ranks == ranks {
                true => run = Some(Arc::new(plan)),
                false => settings = plan.settings,
            }
        }
        let id = id.parse::<UniqueId>();
        let id = id.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let seconds = |given: f64| {
            let time = Duration::try_from_secs_f64(given);
            time.map_err(|_| PyValueError::new_err(format!("{given} is no number of seconds")))
        };
        let options = Options {
            debug,
            join: seconds(join_timeout)?,
            longest_wait: seconds(timeout)?,
            interfaces,
            host_id,
            plan: run,
            gpu,
            blocks,
            settings,
            ..Options::default()
        };
        let comm = py.detach(|| join(id, rank, ranks, options))?;
        Ok(Self::of(comm))
    }

    /// How this rank reaches each rank, with NCCL's names.
    #[getter]
    fn transports(&self) -> PyResult<Vec<&'static str>> {
        let transports = self.open()?.comm.transports.clone();
        Ok(transports.into_iter().map(|it| it.name()).collect())
    }

    /// Channels over which collectives may run.
    #[getter]
    fn channels(&self) -> PyResult<u16> {
        Ok(self.open()?.comm.channels)
    }

    /// Runs a collective, behind everything that was started. `keep` is an object that owns its
    /// memory; it is held until the collective is done, also if a signal ends the wait before.
    #[pyo3(signature = (collective, input, output, count, element, operation=0, root=0, keep=None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        collective: usize,
        input: usize,
        output: usize,
        count: usize,
        element: usize,
        operation: usize,
        root: u32,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let inner = self.open()?;
        let numbers = (collective, input, output, count, element, operation, root);
        let launch = launch(numbers, self.rank, self.ranks).map_err(exception)?;
        if inner.is_idle() && inner.are_seen(once(Kind::of_launch(&launch))) {
            let inner = &*inner;
            return py.detach(move || inner.run_here(|| inner.comm.run(launch).map(|_| ())));
        }
        // Connecting and waiting for others cannot ask for signals, but waiting for work can.
        let work = Self::start_all(py, &inner, &[launch], keep)?;
        work.await_or_abort(py, None).map(|_| ())
    }

    /// Enqueues a collective on memory of this rank's GPU behind the work of a stream: collective,
    /// input, output, count, element, operation, root, and the stream's handle.
    fn run_on(&self, py: Python<'_>, numbers: Numbers, stream: u64) -> PyResult<()> {
        let launch = launch(numbers, self.rank, self.ranks).map_err(exception)?;
        let run = move |comm: &communicator::Comm| comm.run_on(&launch, stream).map(drop);
        self.open()?.call(py, run)
    }

    /// Enqueues transfers on memory of this rank's GPU, which run together behind the work of a
    /// stream.
    fn transfer_on(
        &self,
        py: Python<'_>,
        transfers: Vec<TransferNumbers>,
        stream: u64,
    ) -> PyResult<()> {
        let (transfers, _) = numbers::transfers(transfers)?;
        let run = move |comm: &communicator::Comm| comm.run_group_on(&transfers, stream).map(drop);
        self.open()?.call(py, run)
    }

    /// Registers memory of this rank's GPU by its address and bytes. Returns the window's number.
    fn register(&self, py: Python<'_>, address: u64, bytes: u64) -> PyResult<u32> {
        self.open()?.call(py, |comm| comm.register(address, bytes))
    }

    /// Ends the registration of a window.
    fn deregister(&self, py: Python<'_>, window: u32) -> PyResult<()> {
        let ended = self.open()?.call(py, |comm| comm.deregister(window));
        ended.map(drop)
    }

    /// Whether everything that was enqueued has ended.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let ended = self.open()?.call(py, |comm| comm.query());
        ended.map(|code| code == Code::Ok)
    }

    /// Starts collectives, which run behind what was started before. `keep` is an object that owns
    /// their memory; it is held until they are done.
    #[pyo3(signature = (collectives, keep=None))]
    fn start(
        &self,
        py: Python<'_>,
        collectives: Vec<Numbers>,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<Work> {
        let inner = self.open()?;
        let launches = collectives
            .into_iter()
            .map(|it| launch(it, self.rank, self.ranks));
        let launches: Result<Vec<Launch>, Fault> = launches.collect();
        Self::start_all(py, &inner, &launches.map_err(exception)?, keep)
    }

    /// Runs sends and receives together, behind everything that was started. `keep` is as in `run`.
    #[pyo3(signature = (transfers, keep=None))]
    fn transfer(
        &self,
        py: Python<'_>,
        transfers: Vec<TransferNumbers>,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let inner = self.open()?;
        let (transfers, source) = numbers::transfers(transfers)?;
        if inner.is_idle()
            && !inner.comm.needs_worker(&transfers)
            && inner.are_seen(transfers.iter().map(Kind::of_transfer))
        {
            let inner = &*inner;
            let run = move || inner.comm.run_group(transfers.clone()).map(|_| ());
            return py.detach(move || inner.run_here(run));
        }
        let work = Self::start_read(py, &inner, &transfers, (keep, source), true)?;
        work.await_or_abort(py, None).map(|_| ())
    }

    /// Starts sends and receives that run together, at once. `keep` is an object that owns their
    /// memory.
    #[pyo3(signature = (transfers, keep=None))]
    fn start_group(
        &self,
        py: Python<'_>,
        transfers: Vec<TransferNumbers>,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<Work> {
        self.start_transfer_numbers(py, transfers, keep, true)
    }

    /// Sets the longest wait for another rank, in seconds, of the calls that follow; none: that of
    /// joining.
    #[pyo3(signature = (seconds=None))]
    fn set_timeout(&self, seconds: Option<f64>) -> PyResult<()> {
        let longest = seconds.map(|it| Duration::try_from_secs_f64(it).unwrap_or_default());
        let set = self.open()?.comm.set_longest_wait(longest);
        set.map(|_| ()).map_err(exception)
    }

    /// Starts sends and receives, each of which runs beside all others. `keep` is an object that
    /// owns their memory.
    #[pyo3(signature = (transfers, keep=None))]
    fn start_transfers(
        &self,
        py: Python<'_>,
        transfers: Vec<TransferNumbers>,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<Work> {
        self.start_transfer_numbers(py, transfers, keep, false)
    }

    /// A communicator of the ranks with this color, ordered by `order` and then by rank; `None` for
    /// a color below 0. All ranks call it together.
    fn split(&self, py: Python<'_>, color: i32, order: i32) -> PyResult<Option<Self>> {
        let part = self.open()?.call(py, |comm| comm.split(color, order))?;
        Ok(part.map(Self::of))
    }

    /// Makes all calls of all ranks with this communicator fail soon. Any thread may call it.
    fn abort(&self) -> PyResult<()> {
        let Some(inner) = lock(&self.inner).clone() else {
            return Ok(());
        };
        inner.comm.abort().map(|_| ()).map_err(exception)
    }

    /// Waits until everything that was started is done, and leaves.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(inner) = lock(&self.inner).take() else {
            return Ok(());
        };
        let done = inner.call(py, |comm| comm.finish());
        py.detach(|| drop(inner));
        done
    }
}

impl Comm {
    fn of(comm: communicator::Comm) -> Self {
        let (rank, ranks) = (comm.shared.rank, comm.shared.ranks);
        let inner = Inner {
            comm: Arc::new(HeldComm::new(comm)),
            notifier: Arc::default(),
            seen: Mutex::default(),
            kept: Arc::default(),
        };
        Self {
            inner: Mutex::new(Some(Arc::new(inner))),
            rank,
            ranks,
        }
    }
}

/// Joins in another thread, so that signals end the wait.
fn join(id: UniqueId, rank: u32, ranks: u32, options: Options) -> PyResult<communicator::Comm> {
    Fault::check_unwinding(BUILD).map_err(exception)?;
    let (sender, joined) = channel();
    let thread = std::thread::Builder::new().name("topo join".to_owned());
    let started = thread.spawn(move || {
        // Nobody takes it if a signal ended the wait.
        let _ = sender.send(communicator::Comm::join(&id, rank, ranks, &options));
    });
    started.map_err(|error| CommError::new_err(format!("no thread can start: {error}")))?;
    loop {
        match joined.recv_timeout(signals::LOOK) {
            Ok(joined) => return joined.map_err(exception),
            Err(RecvTimeoutError::Timeout) => {
                if signals::ask()
                    && let Some(raised) = signals::take()
                {
                    return Err(raised);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(CommError::new_err("joining failed: its thread ended"));
            }
        }
    }
}
