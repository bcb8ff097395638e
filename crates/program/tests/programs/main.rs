//! Programs: that all algorithms are proved, that faults are refused, and that bound programs
//! compute what they should.

mod cases;
mod computed;
mod faults;
mod interpreter;
mod mutate;
mod proved;

mod vocabulary {
    pub(crate) use program::{BufferKind, ConnectionEnd, Operand, Program, Step};
}
