//! PyTorch's names of collectives and types.

use plan::cost::DataType;
use program::Collective;

/// The collective by PyTorch's name.
pub(crate) fn collective(name: &str) -> Option<Collective> {
    let name = name.to_ascii_lowercase();
    let name = name.trim_start_matches('_');
    Some(match name {
        "send" | "recv" | "recvanysource" => Collective::SendRecv,
        "broadcast" | "broadcastunique_nccl_id" => Collective::Broadcast,
        "reduce" => Collective::Reduce,
        name if name.starts_with("allreduce") || name.starts_with("all_reduce") => {
            Collective::AllReduce
        }
        name if name.starts_with("allgather") || name.starts_with("all_gather") => {
            Collective::AllGather
        }
        name if name.starts_with("reduce_scatter") => Collective::ReduceScatter,
        name if name.starts_with("all_to_all") || name.starts_with("alltoall") => {
            Collective::AllToAll
        }
        _ => return None,
    })
}

/// A type by PyTorch's name, and bytes of an element.
pub(crate) fn element(name: &str) -> Option<(DataType, u64)> {
    let data_type = match name {
        "Float" => DataType::F32,
        "Double" => DataType::F64,
        "Half" => DataType::F16,
        "BFloat16" => DataType::Bf16,
        "Long" => DataType::I64,
        "Int" => DataType::I32,
        "Char" => DataType::I8,
        "Byte" | "Bool" => DataType::U8,
        "Float8_e4m3fn" => DataType::F8E4M3,
        "Float8_e5m2" => DataType::F8E5M2,
        // NCCL has no type of 16-bit integers; they are moved as bytes.
        "Short" => return Some((DataType::U8, 2)),
        _ => return None,
    };
    Some((data_type, u64::from(data_type.bytes())))
}

/// A type by the name of its elements in C++, such as `c10::Half`, and bytes of an element.
pub(crate) fn scalar(name: &str) -> Option<(DataType, u64)> {
    element(match name.trim_start_matches("c10::") {
        "float" | "float32" => "Float",
        "double" | "float64" => "Double",
        "half" | "float16" => "Half",
        "bfloat16" => "BFloat16",
        "long" | "long int" | "int64" => "Long",
        "int" | "int32" => "Int",
        "short" | "int16" => "Short",
        "signed char" | "int8" => "Char",
        "unsigned char" | "uint8" | "bool" => "Byte",
        other => other,
    })
}
