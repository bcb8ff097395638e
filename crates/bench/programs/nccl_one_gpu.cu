// The time of NCCL's all-reduce with all ranks on GPU 0, which NCCL allows from 2.30 on.
//
//     nvcc -O2 -arch=sm_90 nccl_one_gpu.cu -I$NCCL/include -L$NCCL/lib -lnccl -o nccl_one_gpu
//     NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=16 ./nccl_one_gpu RANKS
//
// One thread calls for all ranks in a group, each on a stream of its own. A line for each size,
// from 1 KiB to 256 MiB: time of an all-reduce, out of place, by events around many in a row. The
// blocks of all ranks must fit on the GPU at once.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(bool right, const char* what, const char* why) {
  if (right) return;
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

#define NCCL(call)                                                       \
  do {                                                                   \
    ncclResult_t error = (call);                                         \
    check(error == ncclSuccess, #call, ncclGetErrorString(error));       \
  } while (0)
#define CUDA(call)                                                       \
  do {                                                                   \
    cudaError_t error = (call);                                          \
    check(error == cudaSuccess, #call, cudaGetErrorString(error));       \
  } while (0)

struct Rank {
  ncclComm_t comm;
  cudaStream_t stream;
  float *input, *output;
  cudaEvent_t end;
};

int main(int count, char** arguments) {
  const int ranks = count > 1 ? atoi(arguments[1]) : 2;
  const size_t largest = 256u << 20;
  std::vector<int> devices(ranks, 0);
  std::vector<ncclComm_t> comms(ranks);
  NCCL(ncclCommInitAll(comms.data(), ranks, devices.data()));
  std::vector<Rank> all(ranks);
  for (int i = 0; i < ranks; i++) {
    all[i].comm = comms[i];
    CUDA(cudaStreamCreateWithFlags(&all[i].stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&all[i].input, largest));
    CUDA(cudaMalloc(&all[i].output, largest));
    CUDA(cudaMemset(all[i].input, 0, largest));
    CUDA(cudaEventCreate(&all[i].end));
  }
  cudaEvent_t begin;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaDeviceSynchronize());
  for (size_t bytes = 1024; bytes <= largest; bytes *= 4) {
    const int times = bytes < (16u << 20) ? 200 : 20;
    auto reduce = [&] {
      NCCL(ncclGroupStart());
      for (Rank& it : all)
        NCCL(ncclAllReduce(it.input, it.output, bytes / sizeof(float), ncclFloat, ncclSum, it.comm, it.stream));
      NCCL(ncclGroupEnd());
    };
    for (int i = 0; i < 5; i++) reduce();
    for (Rank& it : all) CUDA(cudaStreamSynchronize(it.stream));
    CUDA(cudaEventRecord(begin, all[0].stream));
    for (int i = 0; i < times; i++) reduce();
    for (Rank& it : all) CUDA(cudaEventRecord(it.end, it.stream));
    float longest = 0;
    for (Rank& it : all) {
      float milliseconds;
      CUDA(cudaEventSynchronize(it.end));
      CUDA(cudaEventElapsedTime(&milliseconds, begin, it.end));
      longest = milliseconds > longest ? milliseconds : longest;
    }
    printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us\": %.2f}\n", ranks, bytes, 1e3 * longest / times);
  }
}
