//! The kernels by name.

use program::ElementType;

/// A kernel: one for each type of elements, and one that only moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Moves bytes of any type.
    Move,
    /// Reduces elements of a type.
    Reduce(ElementType),
}

impl Kernel {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let reduce = ElementType::ALL.into_iter().map(Self::Reduce);
        std::iter::once(Self::Move).chain(reduce).collect()
    }

    /// What is between `topo_run_` and the end of its entry's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Reduce(element) => match element {
                ElementType::I8 => "i8",
                ElementType::U8 => "u8",
                ElementType::I32 => "i32",
                ElementType::U32 => "u32",
                ElementType::I64 => "i64",
                ElementType::U64 => "u64",
                ElementType::F16 => "f16",
                ElementType::Bf16 => "bf16",
                ElementType::F32 => "f32",
                ElementType::F64 => "f64",
            },
        }
    }

    /// The name of its entry.
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
