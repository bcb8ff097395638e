"""Sums of sparse tensors over ranks, from an all-gather of their coordinates and values."""

from __future__ import annotations

from typing import Callable

import torch

def sum_of(
    tensor: torch.Tensor,
    gather: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Replaces a sparse COO tensor by its sum over all ranks, whose tensors have one shape.
    `gather` returns the tensors of all ranks as one, rank by rank.

    Raises ValueError if the tensor has another layout.
    """
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"topo reduces sparse tensors of the COO layout, not {tensor.layout}")
    own = tensor.detach().coalesce()
    gathered = gather(torch.tensor([own._nnz()]))[:, 0]
    most = int(gathered.max())
    # Every rank gathers as many elements as the rank with the most.
    indices = torch.zeros((own.sparse_dim(), most), dtype=torch.int64)
    indices[:, : own._nnz()] = own.indices()
    values = torch.zeros((most, *own.values().shape[1:]), dtype=own.dtype)
    values[: own._nnz()] = own.values()
    all_indices, all_values = gather(indices), gather(values)
    kept = [slice(0, int(count)) for count in gathered]
    joined_indices = torch.cat([all_indices[at][:, it] for at, it in enumerate(kept)], dim=1)
    joined_values = torch.cat([all_values[at][it] for at, it in enumerate(kept)])
    total = torch.sparse_coo_tensor(joined_indices, joined_values, own.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
