//! Waking a rank that sleeps, at no cost while it does not.
//!
//! Who waits announces its sleep, makes a fence, and looks once more before it sleeps. Who gives something makes a fence
//! and looks for an announcement. One of them must see the other. The giver's fence would cost as much as the rest of a
//! short message, so the sleeper makes it for everyone (`membarrier`), wherever the kernel offers that.

#[cfg(not(loom))]
use std::sync::Arc;
use std::time::Duration;

#[cfg(not(loom))]
use crate::alarms::Alarms;

use crate::sync::{
    LINE_WORDS, Ordering, Word, Words, has_asymmetric_fences, heavy_fence, light_fence, sleep, wake,
};

/// Words of a bell.
pub(crate) const RING_WORDS: usize = LINE_WORDS;

/// Values of the word on which the owner sleeps.
const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

/// How the owner makes its fence. New memory says the one that is always right.
const FENCE_EACH: u64 = 0;
const FENCE_FOR_ALL: u64 = 1;

/// A rank's bell, which others ring after they gave it something.
#[derive(Debug, Clone)]
pub struct Bell {
    state: Word,
    fences: Word,
    aborted: Word,
    /// Whether the kernel makes fences in this process too.
    registered: bool,
    /// What is written to instead of waking a sleeper, if the owner sleeps on descriptors.
    #[cfg(not(loom))]
    alarms: Option<Alarms>,
    /// What else is rung with this one.
    #[cfg(not(loom))]
    also: Option<Arc<dyn Ring>>,
}

/// What can be rung with a bell.
#[cfg(not(loom))]
pub trait Ring: std::fmt::Debug + Send + Sync {
    /// Something was given.
    fn ring(&self);
}

/// One after the other.
#[cfg(not(loom))]
#[derive(Debug)]
struct Both(Arc<dyn Ring>, Arc<dyn Ring>);

#[cfg(not(loom))]
impl Ring for Both {
    fn ring(&self) {
        self.0.ring();
        self.1.ring();
    }
}

#[cfg(not(loom))]
impl Ring for Bell {
    fn ring(&self) {
        Self::ring(self);
    }
}

impl Bell {
    pub(crate) fn new(words: &Words) -> Self {
        Self {
            state: words.word(0),
            fences: words.word(1),
            aborted: words.word(2),
            registered: has_asymmetric_fences(),
            #[cfg(not(loom))]
            alarms: None,
            #[cfg(not(loom))]
            also: None,
        }
    }

    /// The bell of threads that sleep on descriptors, because they wait for sockets too.
    #[cfg(not(loom))]
    pub fn with_alarms(self, alarms: Alarms) -> Self {
        let alarms = Some(alarms);
        Self { alarms, ..self }
    }

    /// Rings something else with this one.
    #[cfg(not(loom))]
    pub fn with(self, other: Arc<dyn Ring>) -> Self {
        let also = match self.also {
            Some(also) => Arc::new(Both(also, other)),
            None => other,
        };
        let also = Some(also);
        Self { also, ..self }
    }

    /// Says that its owner, which has other bells too, is about to sleep on its descriptors. After that it must look once
    /// more for what it waits for.
    ///
    /// Who rings such a bell makes its own fence: whoever sleeps so carries slots over a network, which costs far more,
    /// and sleeps often.
    #[cfg(not(loom))]
    pub fn announce_sleep<'a>(&'a self, others: impl Iterator<Item = &'a Self>) {
        for bell in std::iter::once(self).chain(others) {
            bell.state.swap(ASLEEP, Ordering::Relaxed);
        }
        heavy_fence(false);
    }

    /// Says that a thread that slept on its descriptor does so no more, if it is the only one that this bell wakes.
    #[cfg(not(loom))]
    pub fn announce_waking(&self) {
        if self.alarms.as_ref().is_some_and(Alarms::is_one) {
            self.state.swap(AWAKE, Ordering::Relaxed);
        }
    }

    /// Wakes the owner if it sleeps. To be called after anything was given to it: slots posted or released, signals.
    #[inline]
    pub fn ring(&self) {
        // Relaxed: whoever sees that the owner fences for all may rely on it, and who does not see it yet fences itself.
        let for_all = self.fences.load(Ordering::Relaxed) == FENCE_FOR_ALL;
        light_fence(self.registered && for_all);
        if self.state.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
        #[cfg(not(loom))]
        if let Some(also) = &self.also {
            also.ring();
        }
    }

    #[cold]
    fn wake(&self) {
        // One of several ringers makes the call.
        if self.state.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            #[cfg(not(loom))]
            if let Some(alarms) = &self.alarms {
                alarms.sound();
                return;
            }
            wake(&self.state);
        }
    }

    /// Tells the owner to give up, for a reason other than 0, and wakes it. The first reason stays.
    pub fn abort(&self, reason: u64) {
        let _ = self
            .aborted
            .compare_exchange(0, reason, Ordering::Release, Ordering::Relaxed);
        self.ring();
    }

    /// Why the owner shall give up; 0 if it shall not.
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Acquire)
    }

    /// To be called by the owner before it sleeps for the first time.
    pub(crate) fn own(&self) {
        let fences = if self.registered {
            FENCE_FOR_ALL
        } else {
            FENCE_EACH
        };
        self.fences.store(fences, Ordering::Relaxed);
    }

    /// Sleeps until somebody rings, for `longest` at most, unless `poll` answers yes after the sleep was announced.
    /// Answers what `poll` did.
    pub(crate) fn sleep_unless(&self, poll: &mut impl FnMut() -> bool, longest: Duration) -> bool {
        // Exchanges rather than stores, so that what ringers exchange meanwhile has one place among them.
        self.state.swap(ASLEEP, Ordering::Relaxed);
        heavy_fence(self.registered);
        if poll() || self.aborted() != 0 {
            self.state.swap(AWAKE, Ordering::Relaxed);
            return true;
        }
        sleep(&self.state, ASLEEP as u32, longest);
        self.state.swap(AWAKE, Ordering::Relaxed);
        false
    }
}
