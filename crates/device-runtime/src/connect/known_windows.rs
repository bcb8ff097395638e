//! Windows of callers that a rank knows.

use crate::allocation::Bindable;
use crate::driver::DeviceDriver;

/// A multicast moves whole vectors of as many bytes, and begins at multiples of it.
pub(crate) const VECTOR_BYTES: u64 = 16;

/// A window of this rank.
pub(crate) struct CallersWindow<M: DeviceDriver> {
    pub number: u32,
    pub memory: Bindable,
    /// `None` if there is only one rank.
    pub part: Option<M::Multicast>,
}

/// The windows of a rank.
pub(crate) struct CallersWindows<M: DeviceDriver> {
    pub own: Vec<CallersWindow<M>>,
    /// The window for staging buffers: its address and length here.
    pub staging: Option<(u64, u64, M::Multicast)>,
    /// Number of registrations begun, equal on all ranks.
    pub begun: u64,
}

impl<M: DeviceDriver> Default for CallersWindows<M> {
    fn default() -> Self {
        Self {
            own: Vec::new(),
            staging: None,
            begun: 0,
        }
    }
}
