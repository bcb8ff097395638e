//! Streams: queues of work, each with a thread that does one piece after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::call;

/// A piece of work that a graph may repeat.
pub type Work = Arc<dyn Fn() + Send + Sync>;

/// An entry of a queue.
pub struct Item {
    /// What to do.
    pub work: Work,
    /// Streams that must first have done as many items.
    pub after: Vec<(Arc<Stream>, u64)>,
    /// Whether it counts against the limit of pending launches.
    pub is_launch: bool,
    /// What it counts against the limit of bytes.
    pub bytes: usize,
}

/// What a stream's queue holds before a launch blocks.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pending launches.
    pub launches: usize,
    /// Bytes of pending items; 0: any.
    pub bytes: usize,
}

/// What a stream captures.
pub struct Capture {
    /// The captured work.
    pub nodes: Vec<Work>,
    /// What it counts against the limit of bytes of a queue.
    pub bytes: usize,
    /// `CUstreamCaptureMode`.
    pub mode: u32,
    /// The thread that began.
    pub thread: ThreadId,
    /// Whether a call made the capture invalid.
    pub invalid: bool,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Number of items submitted and done.
    submitted: u64,
    done: u64,
    launches: usize,
    bytes: usize,
    has_thread: bool,
    ends: bool,
    capture: Option<Capture>,
}

impl Queue {
    /// Whether another item fits. One that is longer than the whole queue fits an empty one.
    const fn has_room(&self, item: &Item, limits: Limits) -> bool {
        let bytes = limits.bytes == 0 || self.bytes == 0 || self.bytes + item.bytes <= limits.bytes;
        bytes && !(item.is_launch && self.launches > 0 && self.launches >= limits.launches)
    }
}

/// A stream.
pub struct Stream {
    /// The device of its context.
    pub device: usize,
    /// Whether it waits for the legacy stream, and that one for it.
    pub blocking: bool,
    /// Its priority; 0 is the default, and less is higher.
    pub priority: i32,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream of GPU {}", self.device)
    }
}

impl Stream {
    /// A stream of a device.
    pub fn new(device: usize, blocking: bool) -> Arc<Self> {
        Self::with_priority(device, blocking, 0)
    }

    /// A stream with a priority.
    pub fn with_priority(device: usize, blocking: bool, priority: i32) -> Arc<Self> {
        Arc::new(Self {
            device,
            blocking,
            priority,
            queue: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        call::waits();
        self.changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Blocks while the queue is full, and holds what `hold` returns meanwhile.
    /// Returns the item's number.
    ///
    /// # Errors
    /// The host can start no thread.
    pub fn submit<T>(
        self: &Arc<Self>,
        item: Item,
        limits: Limits,
        hold: impl FnOnce() -> T,
    ) -> std::io::Result<u64> {
        let mut queue = self.lock();
        if !queue.has_room(&item, limits) {
            // The stream's thread needs the queue while this one waits for what it holds.
            drop(queue);
            let _held = hold();
            queue = self.lock();
            while !queue.has_room(&item, limits) {
                queue = self.wait(queue);
            }
        }
        if !queue.has_thread {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().name("topo phantom".to_owned());
            thread.spawn(move || own.serve())?;
            queue.has_thread = true;
        }
        queue.launches += usize::from(item.is_launch);
        queue.bytes += item.bytes;
        queue.submitted += 1;
        let number = queue.submitted;
        queue.items.push_back(item);
        self.changed.notify_all();
        Ok(number)
    }

    /// Does items until the stream ends.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            let Some(item) = queue.items.pop_front() else {
                if queue.ends {
                    return;
                }
                queue = self.wait(queue);
                continue;
            };
            drop(queue);
            for (other, number) in &item.after {
                other.wait_for(*number);
            }
            (item.work)();
            queue = self.lock();
            queue.done += 1;
            queue.launches -= usize::from(item.is_launch);
            queue.bytes -= item.bytes;
            self.changed.notify_all();
        }
    }

    /// Blocks until so many items are done.
    pub fn wait_for(&self, number: u64) {
        let mut queue = self.lock();
        while queue.done < number {
            queue = self.wait(queue);
        }
    }

    /// The number of items submitted so far.
    pub fn submitted(&self) -> u64 {
        self.lock().submitted
    }

    /// Whether all items are done.
    pub fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.done == queue.submitted
    }

    /// Ends the thread once all items are done.
    pub fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    /// Whether the stream captures.
    pub fn captures(&self) -> bool {
        self.lock().capture.is_some()
    }

    /// Begins a capture. Returns `false` if there is one.
    pub fn begin_capture(&self, mode: u32) -> bool {
        let mut queue = self.lock();
        if queue.capture.is_some() {
            return false;
        }
        queue.capture = Some(Capture {
            nodes: Vec::new(),
            bytes: 0,
            mode,
            thread: std::thread::current().id(),
            invalid: false,
        });
        true
    }

    /// Captures a piece of work. Returns `false` if the stream does not capture.
    pub fn capture(&self, work: &Work, bytes: usize) -> bool {
        let mut queue = self.lock();
        let Some(capture) = &mut queue.capture else {
            return false;
        };
        capture.nodes.push(Arc::clone(work));
        capture.bytes += bytes;
        true
    }

    /// Looks at the capture.
    pub fn with_capture<T>(&self, look: impl FnOnce(&mut Capture) -> T) -> Option<T> {
        self.lock().capture.as_mut().map(look)
    }

    /// Ends the capture.
    pub fn end_capture(&self) -> Option<Capture> {
        self.lock().capture.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn item(work: impl Fn() + Send + Sync + 'static, is_launch: bool) -> Item {
        Item {
            work: Arc::new(work),
            after: Vec::new(),
            is_launch,
            bytes: 1,
        }
    }

    /// Submits to a queue of some launches.
    fn submit(stream: &Arc<Stream>, item: Item, launches: usize) -> u64 {
        let limits = Limits { launches, bytes: 0 };
        stream.submit(item, limits, || ()).unwrap()
    }

    #[test]
    fn items_are_done_in_order() {
        let stream = Stream::new(0, true);
        let (tell, told) = channel();
        for number in 0..5 {
            let tell = tell.clone();
            let work = move || tell.send(number).unwrap();
            assert_eq!(submit(&stream, item(work, true), 2), number + 1);
        }
        stream.wait_for(5);
        assert!(stream.is_idle());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        stream.end();
    }

    #[test]
    fn a_stream_waits_for_another() {
        let (first, second) = (Stream::new(0, true), Stream::new(0, true));
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let waits = move || gate.lock().unwrap().recv().unwrap();
        submit(&first, item(waits, true), 1);
        let later = Item {
            after: vec![(Arc::clone(&first), 1)],
            ..item(|| {}, true)
        };
        submit(&second, later, 1);
        assert!(!second.is_idle());
        open.send(()).unwrap();
        second.wait_for(1);
        assert!(first.is_idle());
    }

    #[test]
    fn a_full_queue_blocks() {
        let stream = Stream::new(0, true);
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let waits = move || gate.lock().unwrap().recv().unwrap();
        submit(&stream, item(waits, true), 2);
        submit(&stream, item(|| {}, true), 2);
        let own = Arc::clone(&stream);
        let third = std::thread::spawn(move || submit(&own, item(|| {}, true), 2));
        // What is no launch does not wait.
        submit(&stream, item(|| {}, false), 2);
        assert!(!third.is_finished());
        open.send(()).unwrap();
        third.join().unwrap();
        stream.wait_for(4);
    }

    #[test]
    fn a_queue_full_of_bytes_blocks_and_holds() {
        let stream = Stream::new(0, true);
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let waits = move || gate.lock().unwrap().recv().unwrap();
        let limits = Limits {
            launches: 8,
            bytes: 2,
        };
        for work in [item(waits, true), item(|| {}, false)] {
            stream.submit(work, limits, || unreachable!()).unwrap();
        }
        let own = Arc::clone(&stream);
        let (tell, told) = channel();
        let third = std::thread::spawn(move || {
            own.submit(item(|| {}, false), limits, || tell.send(()).unwrap())
        });
        told.recv().unwrap();
        assert!(!third.is_finished());
        open.send(()).unwrap();
        third.join().unwrap().unwrap();
        stream.wait_for(3);
    }
}
