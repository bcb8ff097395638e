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

#[cfg(test)]
mod tests {
    use super::*;

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
