//! The kernels and their names.

use program::ElementType;

/// A kernel: one for each element type, and one that only moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Moves bytes of any element type.
    Move,
    /// Reduces elements of this type.
    Reduce(ElementType),
}

impl Kernel {
    /// All kernels.
    pub fn all() -> Vec<Self> {
        let reduce = ElementType::OF_NCCL.into_iter().map(Self::Reduce);
        std::iter::once(Self::Move).chain(reduce).collect()
    }

    /// The kernel for the type that a program reduces; `None`: it only moves bytes.
    pub fn of(reduces: Option<ElementType>) -> Self {
        reduces.map_or(Self::Move, Self::Reduce)
    }

    /// The end of the entry's name, after `topo_run_`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Reduce(element) => element.name(),
        }
    }

    /// The name of the kernel's entry function.
    pub fn entry(self) -> String {
        format!("topo_run_{}", self.suffix())
    }
}

/// A litmus kernel: it asks what a GPU does (`kernels/litmus.cu`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LitmusKernel {
    /// Runs until the host ends it.
    Hold,
    /// Meets another kernel.
    Meet,
    /// Stores and polls lines of LL or LL128.
    Lines,
    /// Stores data, and a counter behind it.
    Messages,
    /// Reads the clock and stores counters.
    Ticks,
}

impl LitmusKernel {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Hold,
        Self::Meet,
        Self::Lines,
        Self::Messages,
        Self::Ticks,
    ];

    /// The name of the kernel's entry function.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::Hold => "topo_litmus_hold",
            Self::Meet => "topo_litmus_meet",
            Self::Lines => "topo_litmus_lines",
            Self::Messages => "topo_litmus_messages",
            Self::Ticks => "topo_litmus_ticks",
        }
    }
}

/// Bytes of memory of a pair of blocks of a litmus kernel.
pub const LITMUS_PAIR_BYTES: u64 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litmus_kernels_are_in_their_source() {
        let text = crate::source::litmus();
        for kernel in LitmusKernel::ALL {
            let name = kernel.entry().trim_start_matches("topo_litmus_");
            assert!(text.contains(&format!("TOPO_ENTRY(TOPO_LITMUS({name}),")));
        }
        let entries = text.matches("TOPO_ENTRY(TOPO_LITMUS(").count();
        assert_eq!(entries, LitmusKernel::ALL.len());
        let bytes = format!("constexpr u32 PAIR_BYTES = {LITMUS_PAIR_BYTES};");
        assert!(text.contains(&bytes));
    }

    #[test]
    fn the_sources_have_an_entry_for_each() {
        let text = crate::source::text();
        let (_, list) = text.split_once("#define TOPO_ELEMENTS(entry)").unwrap();
        let list = list.split("#endif").next().unwrap();
        for kernel in Kernel::all() {
            assert!(
                list.contains(&format!("entry({},", kernel.suffix())),
                "{kernel:?}"
            );
        }
        assert_eq!(list.matches("entry(").count(), Kernel::all().len());
    }
}
