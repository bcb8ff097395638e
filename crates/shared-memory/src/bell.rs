//! Waking a rank that sleeps, at no cost while it is awake.
//!
//! The sleeper announces its sleep, makes a fence, and checks its condition once more before it
//! sleeps. The ringer changes the condition, makes a fence, and checks for an announcement. So one
//! of them sees the other. The ringer's fence would cost as much as the rest of a short message, so
//! the sleeper makes it for all (`membarrier`) if the kernel can.

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

/// Values of the word on which the owner sleeps. On descriptors it sleeps elsewhere, and only
/// ringers that have them wake it.
const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;
#[cfg(not(loom))]
const ON_DESCRIPTORS: u64 = 2;

/// Who makes the ringers' fence. New memory selects the choice that is always right.
const FENCE_EACH: u64 = 0;
const FENCE_FOR_ALL: u64 = 1;

/// A rank's bell. Others ring it after they posted or released something for the rank.
#[derive(Debug, Clone)]
pub struct Bell {
    state: Word,
    fences: Word,
    aborted: Word,
    /// How many other ranks can write to the owner's descriptors.
    wakers: Word,
    /// Whether the kernel can make fences in this process.
    registered: bool,
    /// Written to if the owner sleeps on descriptors.
    #[cfg(not(loom))]
    alarms: Option<Alarms>,
    /// Rung together with this one.
    #[cfg(not(loom))]
    also: Option<Arc<dyn Ring>>,
}

/// Something to ring together with a bell.
#[cfg(not(loom))]
pub trait Ring: std::fmt::Debug + Send + Sync {
    /// Wakes the owner if it sleeps.
    fn ring(&self);
}

/// A ring of two bells, the first one first.
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
            wakers: words.word(3),
            registered: has_asymmetric_fences(),
            #[cfg(not(loom))]
            alarms: None,
            #[cfg(not(loom))]
            also: None,
        }
    }

    /// Lets this ringer also wake an owner that sleeps on descriptors, because it also waits for
    /// sockets.
    #[cfg(not(loom))]
    pub fn with_alarms(self, alarms: Alarms) -> Self {
        let alarms = Some(alarms);
        Self { alarms, ..self }
    }

    /// As [`Self::with_alarms`], for another rank: the owner can tell by [`Self::wakers`] which
    /// sleeps this rank ends.
    #[cfg(not(loom))]
    pub fn with_alarms_of(self, owner: Alarms) -> Self {
        let bell = self.with_alarms(owner);
        // Relaxed: until the owner sees the new number, it sleeps on its bell alone.
        bell.wakers.fetch_add(1, Ordering::Relaxed);
        bell
    }

    /// How many other ranks end a sleep of the owner on its descriptors.
    pub fn wakers(&self) -> u64 {
        self.wakers.load(Ordering::Relaxed)
    }

    /// Rings something else together with this bell.
    #[cfg(not(loom))]
    pub fn with(self, other: Arc<dyn Ring>) -> Self {
        let also = match self.also {
            Some(also) => Arc::new(Both(also, other)),
            None => other,
        };
        let also = Some(also);
        Self { also, ..self }
    }

    /// Announces that the owner of this bell and of others is about to sleep on its descriptors. It
    /// must then check its conditions once more.
    ///
    /// Ringers of such a bell make their own fence: the owner is a proxy of a network, which sleeps
    /// often and costs far more than a fence.
    #[cfg(not(loom))]
    pub fn announce_sleep<'a>(&'a self, others: impl Iterator<Item = &'a Self>) {
        for bell in std::iter::once(self).chain(others) {
            bell.state.swap(ON_DESCRIPTORS, Ordering::Relaxed);
        }
        heavy_fence(false);
    }

    /// Announces that a thread no longer sleeps on its descriptor, if this bell wakes only that
    /// thread.
    #[cfg(not(loom))]
    pub fn announce_waking(&self) {
        if self.alarms.as_ref().is_some_and(Alarms::is_one) {
            self.state.swap(AWAKE, Ordering::Relaxed);
        }
    }

    /// Wakes the owner if it sleeps. Call it after slots were posted or released for the owner, and
    /// after signals.
    #[inline]
    pub fn ring(&self) {
        // Relaxed: a ringer that does not see the owner's choice yet makes its own fence.
        let for_all = self.fences.load(Ordering::Relaxed) == FENCE_FOR_ALL;
        light_fence(self.registered && for_all);
        if self.state.load(Ordering::Relaxed) != AWAKE {
            self.wake();
        }
        #[cfg(not(loom))]
        if let Some(also) = &self.also {
            also.ring();
        }
    }

    #[cold]
    fn wake(&self) {
        // Only one of several ringers makes the system call.
        let takes = |from: u64| {
            let (relaxed, state) = (Ordering::Relaxed, &self.state);
            state
                .compare_exchange(from, AWAKE, relaxed, relaxed)
                .is_ok()
        };
        if takes(ASLEEP) {
            wake(&self.state);
        }
        #[cfg(not(loom))]
        if let Some(alarms) = &self.alarms
            && takes(ON_DESCRIPTORS)
        {
            alarms.sound();
        }
    }

    /// Makes the owner give up for a reason other than 0, and wakes it. The first reason stays.
    pub fn abort(&self, reason: u64) {
        let _ = self
            .aborted
            .compare_exchange(0, reason, Ordering::Release, Ordering::Relaxed);
        self.ring();
    }

    /// Why the owner is to give up; 0 if it is not.
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Acquire)
    }

    /// The owner calls this before it sleeps for the first time. Returns whether it must make the
    /// ringers' fences: if it wants to, and the kernel can.
    pub(crate) fn own(&self, wants_to: bool) -> bool {
        let for_all = self.registered && wants_to;
        let fences = if for_all { FENCE_FOR_ALL } else { FENCE_EACH };
        self.fences.store(fences, Ordering::Relaxed);
        for_all
    }

    /// Sleeps until a ring, for at most `longest`, unless `poll` returns `true` after the sleep was
    /// announced. `for_all` is what [`Self::own`] returned. Returns what `poll` returned, or `true`
    /// after an abort.
    pub(crate) fn sleep_unless(
        &self,
        poll: &mut impl FnMut() -> bool,
        longest: Duration,
        for_all: bool,
    ) -> bool {
        let asleep = || sleep(&self.state, ASLEEP as u32, longest);
        self.sleep_as(ASLEEP, poll, for_all, asleep)
    }

    /// As [`Self::sleep_unless`], with a sleep on descriptors. Only ringers that have one of them
    /// end it.
    #[cfg(not(loom))]
    pub(crate) fn sleep_on_descriptors(
        &self,
        poll: &mut impl FnMut() -> bool,
        for_all: bool,
        asleep: impl FnOnce(),
    ) -> bool {
        self.sleep_as(ON_DESCRIPTORS, poll, for_all, asleep)
    }

    fn sleep_as(
        &self,
        state: u64,
        poll: &mut impl FnMut() -> bool,
        for_all: bool,
        asleep: impl FnOnce(),
    ) -> bool {
        // Exchanges instead of stores, so that they have an order with the ringers' exchanges.
        self.state.swap(state, Ordering::Relaxed);
        heavy_fence(for_all);
        if poll() || self.aborted() != 0 {
            self.state.swap(AWAKE, Ordering::Relaxed);
            return true;
        }
        asleep();
        self.state.swap(AWAKE, Ordering::Relaxed);
        false
    }
}
